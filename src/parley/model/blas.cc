#include "parley/model/blas.h"

#include <cblas.h>

namespace parley {

void use_one_blas_thread() {
  static const bool done = (openblas_set_num_threads(1), true);
  static_cast<void>(done);
}

}  // namespace parley
