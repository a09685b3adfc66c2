// What method.name = "virtual" can be told.
#pragma once

#include <cstddef>
#include <vector>

#include "parley/base/options.h"
#include "parley/methods/virtual/ivon.h"

namespace parley {

struct VirtualOptions {
  double beta, prior_precision, rho, rate, prune, precision_tolerance, ivon_curvature;
  bool consistent, with_private, from_server, by_examples, literal_snr, ivon, snr;
  Ivon::Decay ivon_decay;
  std::size_t draws, own_networks;

  // Throws InputError on a combination that sends nothing.
  explicit VirtualOptions(const Options& options);
  static std::vector<Option> declared();
};

}  // namespace parley
