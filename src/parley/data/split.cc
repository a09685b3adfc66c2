#include "parley/data/split.h"

#include "parley/data/select.h"

namespace parley {
namespace {

TrainTest split(const Dataset& all, const Options& options, decltype(hold_out_of_all) how) {
  auto [train, test] =
      how(all, options.real("test_fraction"), static_cast<std::uint64_t>(options.integer("split_seed")));
  return share(std::move(train), std::move(test));
}

}  // namespace

TrainTest split_rows(const Dataset& all, const Options& options) {
  return split(all, options, hold_out_of_all);
}

TrainTest split_each_user(const Dataset& all, const Options& options) {
  return split(all, options, hold_out_of_each_user);
}

}  // namespace parley
