// Mean and sample standard deviation of what some runs measured.
#pragma once

#include <cstddef>
#include <vector>

namespace parley {

struct Spread {
  std::size_t count = 0;
  double mean = 0.0;
  double deviation = 0.0;  // 0 when count < 2
};
Spread spread(const std::vector<double>& values);

}  // namespace parley
