#include "parley/base/spread.h"

#include <cmath>

namespace parley {

Spread spread(const std::vector<double>& values) {
  Spread result{.count = values.size()};
  if (values.empty()) return result;
  for (const double value : values) result.mean += value / static_cast<double>(values.size());
  if (values.size() < 2) return result;
  double squares = 0.0;
  for (const double value : values) squares += (value - result.mean) * (value - result.mean);
  result.deviation = std::sqrt(squares / static_cast<double>(values.size() - 1));
  return result;
}

}  // namespace parley
