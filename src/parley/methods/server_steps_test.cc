// Methods and server steps compose: a method says where to go, the step how far.
#include <gtest/gtest.h>

#include "parley/engine/test_bed.h"

namespace parley {
namespace {

TestBed bed_with(const std::string& method, const std::string& step) {
  return TestBed(method, {.h = {{2, .5f}, {.1f, 5}}, .m = {{.1f, .1f}, {-.1f, .3f}}},
                 with(with(local(0.05, 2), "server.step", step), "model.norm", std::string("batch")));
}

// With "replace" a round leaves the method's target. Any other step must end where it goes from the same start to that
// target; what is not trained is replaced.
TEST(ServerSteps, GoTowardsTheTargetOfEveryMethod) {
  const auto steps = server_steps();
  for (const auto& method : methods().names()) {
    TestBed replaced = bed_with(method, "replace");
    const Flat start(replaced.theta().begin(), replaced.theta().end());
    replaced.round(1);
    const std::vector<double> target(replaced.theta().begin(), replaced.theta().end());
    const std::size_t trainable = replaced.layout().trainable();
    for (const auto& name : steps.names()) {
      if (method == "virtual" && name != "replace") continue;  // refused
      const auto step = steps.at(name).make(Options("server", steps.at(name).about.options));
      Flat expected = start;
      std::vector<Flat> slots;
      for (const auto& slot : step->slots()) slots.emplace_back(trainable, slot.initial);
      const std::vector<std::span<float>> views(slots.begin(), slots.end());
      step->apply(std::span(expected).first(trainable), std::span(target).first(trainable), views);
      std::copy(target.begin() + static_cast<std::ptrdiff_t>(trainable), target.end(),
                expected.begin() + static_cast<std::ptrdiff_t>(trainable));
      TestBed bed = bed_with(method, name);
      bed.round(1);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        // The target went through a float, which a step may divide by its size.
        EXPECT_NEAR(bed.theta()[i], expected[i], 1e-5 * std::max(1.0f, std::abs(expected[i])))
            << method << " + " << name;
      }
    }
  }
}

// The clients' rows are [h, m]; their mean is measured, not learned, so that no step may keep the server short of it.
TEST(ServerSteps, ReplaceWhatIsMeasured) {
  for (const auto& name : server_steps().names()) {
    TestBed bed = bed_with("fedavg", name);
    bed.round(1);
    const auto mean = bed.layout().find("norm.running_mean")->of(bed.theta());
    const double expected[] = {(2 + .1) / 2, (.5 + 5) / 2, (.1 - .1) / 2, (.1 + .3) / 2};
    for (std::size_t j = 0; j < 4; ++j) EXPECT_NEAR(mean[j], expected[j], 1e-6) << name;
  }
}

}  // namespace
}  // namespace parley
