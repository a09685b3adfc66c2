#include "parley/wire/fuzz.h"

#include "parley/wire/hub.h"
#include "parley/wire/keys.h"

namespace parley::wire {
namespace {

class DeafLink final : public Link {
 public:
  void send(ToNode) override {}
  void close() override {}
  void cut() override {}
  std::string identity() const override { return ""; }
  std::string serial() const override { return ""; }
};

Broadcast small_broadcast() {
  State state;
  state.add("theta", std::make_shared<const Layout>(std::vector<LayoutEntry>{{.name = "w", .shape = {1}}}), true,
            {1.0f});
  return Broadcast(state, 1);
}

// One client of one example, whose facts are all empty.
Hub quiet_hub(Journal& journal, const Log& log) {
  return Hub({.config = "", .agreement = {}, .rows = true, .sizes = {1}}, 1000, journal, log);
}

}  // namespace

void feed_hub(std::span<const std::byte> bytes) {
  const Log log(LogFormat::none);
  Journal journal(":memory:", "fuzz");
  Hub hub = quiet_hub(journal, log);
  const auto link = std::make_shared<DeafLink>();
  hub.opened(link);
  bool open = false;
  while (bytes.size() >= 2) {
    const std::size_t length = std::to_integer<std::size_t>(bytes[0]) | std::to_integer<std::size_t>(bytes[1]) << 8;
    const auto part = bytes.subspan(2, std::min(length, bytes.size() - 2));
    bytes = bytes.subspan(2 + part.size());
    pb::ToServer message;
    if (!message.ParseFromArray(part.data(), static_cast<int>(part.size()))) continue;
    hub.received(link, message);
    // As soon as the one client has joined, a round is open, and every offer is taken.
    if (!open && hub.status()["complete"].get<bool>()) {
      open = true;
      hub.open_round(1, 1, 1, small_broadcast());
      hub.invite(0, 0);
    }
    while (const auto event = open ? hub.next(Clock::now()) : std::nullopt) {
      if (event->kind == Event::Kind::offered) hub.take(0, event->length);
    }
  }
  hub.closed(link);
}

void feed_certificate(std::span<const std::byte> bytes) {
  static_cast<void>(serial_of({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
}

}  // namespace parley::wire
