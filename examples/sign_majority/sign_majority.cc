#include "sign_majority/sign_majority.h"

#include <algorithm>

namespace parley {
namespace {

template <class Number>
Number sign(Number x) {
  return static_cast<Number>((x > 0) - (x < 0));
}

// A vote is −1, 0 or 1: five of them fit in a byte, since 3⁵ < 2⁸. What was measured follows as it is.
Packed pack(std::span<const float> votes, std::size_t trainable) {
  ByteBuffer to;
  for (std::size_t i = 0; i < trainable; i += 5) {
    unsigned five = 0;
    for (std::size_t j = std::min(i + 5, trainable); j-- > i;) five = 3 * five + static_cast<unsigned>(votes[j] + 1.0f);
    put(to, static_cast<std::uint8_t>(five));
  }
  put_all(to, votes.subspan(trainable));
  return {.how = Packing::own, .bytes = std::move(to.bytes)};
}

auto unpacker(const Layout& layout) {
  return [trainable = layout.trainable()](std::span<const std::byte> packed, std::span<float> votes) {
    ByteReader from(packed);
    for (std::size_t i = 0; i < trainable; i += 5) {
      unsigned five = from.take<std::uint8_t>();
      for (std::size_t j = i; j < std::min(i + 5, trainable); ++j, five /= 3) {
        votes[j] = static_cast<float>(five % 3) - 1.0f;
      }
    }
    from.take_all(votes.subspan(trainable));
    from.finish();
  };
}

class SignMajority final : public Method {
 public:
  explicit SignMajority(const MethodContext& context) : layout_(context.layout), step_(context.options.real("step")) {}

  // Plain: one client, one vote. What is measured, not trained (running statistics), travels behind the votes.
  Schema schema() const override {
    return {.channels = {
                {.name = "votes", .layout = layout_, .weighting = Weighting::plain, .unpack = unpacker(*layout_)}}};
  }

  void client(const ClientTask& task, Update& update) const override {
    task.load();
    task.train(update);
    const auto before = task.broadcast.at("theta");
    const auto after = task.model.parameters();
    const std::size_t trainable = layout_->trainable();
    Flat& votes = update["votes"];
    for (std::size_t i = 0; i < trainable; ++i) votes[i] = sign(after[i] - before[i]);
    for (std::size_t i = trainable; i < after.size(); ++i) votes[i] = after[i];
    update.pack("votes", pack(votes, trainable));
  }

  void server(ServerTask& task) const override {
    FlatDouble target = task.sum.take_mean("votes");
    const auto theta = task.state.at("theta");
    double unanimous = 0.0;
    for (std::size_t i = 0; i < layout_->trainable(); ++i) {
      unanimous += target[i] == 1.0 || target[i] == -1.0;
      target[i] = theta[i] + step_ * sign(target[i]);
    }
    task.move_theta(target);
    task.metrics["unanimous"] = unanimous / static_cast<double>(layout_->trainable());
  }

 private:
  std::shared_ptr<const Layout> layout_;
  double step_;
};

}  // namespace

void add_sign_majority(MethodRegistry& registry) {
  registry.add({.name = "sign_majority",
                .summary = "Moves every weight by one step, the way most clients voted.",
                .source = "Bernstein et al. 2018",
                .options = {{"step", 0.01, "how far a weight moves in a round", above(0.0)}}},
               [](const MethodContext& context) { return std::make_unique<SignMajority>(context); });
}

}  // namespace parley
