#include "parley/update/update.h"

#include "fuzz.h"
#include "parley/update/sum.h"

namespace {

using namespace parley;

std::shared_ptr<const Layout> layout() {
  return std::make_shared<const Layout>(std::vector<LayoutEntry>{{"w", {3, 4}}, {"b", {3}, Role::bias}});
}

SharedSchema schema() {
  static const SharedSchema shared = share({.channels = {{.name = "theta", .layout = layout(), .relative_to = "theta"},
                                                         {.name = "each", .count = 3, .weighting = Weighting::each}},
                                            .scalars = {{"loss"}}});
  return shared;
}

const Broadcast& broadcast() {
  static const Broadcast sent = [] {
    State state;
    state.add("theta", layout(), true, Flat(15, 0.5f));
    return Broadcast(state, 1);
  }();
  return sent;
}

std::span<const std::byte> as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

}  // namespace

// The first byte says what the others are said to be: an update, a sum or a broadcast.
PARLEY_FUZZ_TARGET([](std::string_view text) {
  if (text.empty()) return;
  const auto bytes = as_bytes(text.substr(1));
  if (text.front() == 'u') {
    const Update update = Update::decode(bytes, schema(), broadcast());
    update.check(*schema());
    Sum(schema()).add(update);
  } else if (text.front() == 's') {
    Sum::decode(bytes, schema()).encode();
  } else {
    Broadcast::decode(bytes).encode();
  }
})
