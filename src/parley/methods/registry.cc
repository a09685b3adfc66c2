#include "parley/methods/afl/afl.h"
#include "parley/methods/central/central.h"
#include "parley/methods/cmaes/cmaes.h"
#include "parley/methods/de/de.h"
#include "parley/methods/ditto/ditto.h"
#include "parley/methods/fedavg/fedavg.h"
#include "parley/methods/fedbn/fedbn.h"
#include "parley/methods/fedcurv/fedcurv.h"
#include "parley/methods/fedec/fedec.h"
#include "parley/methods/fedma/fedma.h"
#include "parley/methods/fednova/fednova.h"
#include "parley/methods/fedpa/fedpa.h"
#include "parley/methods/fedprox/fedprox.h"
#include "parley/methods/fedsgd/fedsgd.h"
#include "parley/methods/fne/fne.h"
#include "parley/methods/fola/fola.h"
#include "parley/methods/laplace/laplace.h"
#include "parley/methods/local/local.h"
#include "parley/methods/method.h"
#include "parley/methods/openes/openes.h"
#include "parley/methods/pfedme/pfedme.h"
#include "parley/methods/pso/pso.h"
#include "parley/methods/qfed/qfed.h"
#include "parley/methods/rnn_aggregator/rnn_aggregator.h"
#include "parley/methods/scaffold/scaffold.h"
#include "parley/methods/virtual/virtual.h"

namespace parley {

// The list to add a method to: one folder, one line.
MethodRegistry methods() {
  MethodRegistry registry("method");
  add_afl(registry);
  add_central(registry);
  add_cmaes(registry);
  add_de(registry);
  add_ditto(registry);
  add_fedavg(registry);
  add_fedbn(registry);
  add_fedcurv(registry);
  add_fedec(registry);
  add_fedma(registry);
  add_fednova(registry);
  add_fedpa(registry);
  add_fedprox(registry);
  add_fedsgd(registry);
  add_fne(registry);
  add_fola(registry);
  add_laplace(registry);
  add_local(registry);
  add_openes(registry);
  add_pfedme(registry);
  add_pso(registry);
  add_qfed(registry);
  add_rnn_aggregator(registry);
  add_scaffold(registry);
  add_virtual(registry);
  return registry;
}

}  // namespace parley
