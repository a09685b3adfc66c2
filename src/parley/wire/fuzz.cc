#include "parley/wire/fuzz.h"

#include <functional>

#include "parley/base/errors.h"
#include "parley/base/temp_folder.h"
#include "parley/tensor/safetensors.h"
#include "parley/wire/hub.h"
#include "parley/wire/keys.h"
#include "parley/wire/shelf.h"
#include "parley/wire/weights.h"

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

constexpr const char* kWalk = R"(
[run]
rounds = 9
[data]
name = "synthetic"
rows = 20
features = 2
classes = 2
[partition]
kind = "iid"
clients = 3
[model]
name = "mlp"
hidden = []
[method]
name = "mm"
buffer = 3
)";

Experiment walk() {
  static const Catalogue catalogue;
  DataCache cache;
  return build(resolve(Config::parse(kWalk, "fuzz"), catalogue), catalogue, cache);
}

// The first message of those that are left, which it takes away; nothing when it cannot be parsed. REQUIRES two bytes.
template <class Message>
std::optional<Message> next_message(std::span<const std::byte>& bytes) {
  const std::size_t length = std::to_integer<std::size_t>(bytes[0]) | std::to_integer<std::size_t>(bytes[1]) << 8;
  const auto part = bytes.subspan(2, std::min(length, bytes.size() - 2));
  bytes = bytes.subspan(2 + part.size());
  Message message;
  if (!message.ParseFromArray(part.data(), static_cast<int>(part.size()))) return {};
  return message;
}

// One client of one example, whose facts are all empty.
Hub quiet_hub(Journal& journal, const Log& log) {
  return Hub({.config = "", .agreement = {}, .rows = true, .sizes = {1}, .compress = true}, 1000, journal, log);
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
    const auto message = next_message<pb::ToServer>(bytes);
    if (!message) continue;
    hub.received(link, *message);
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
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  static_cast<void>(serial_of(text));
  static_cast<void>(same_key(text, text));
  for (const auto& read : {std::function<void()>([&] { require_request(text, "a"); }),
                           std::function<void()>([&] { authority_of(text, fingerprint_of(text)); })}) {
    try {
      read();
    } catch (const InputError&) {
      // That is the answer.
    }
  }
}

void feed_shelf(std::span<const std::byte> bytes) {
  static const TempFolder folder;
  static const Experiment experiment = walk();
  static const Hosting hosting(experiment, 1);
  static Shelf shelf(folder / "shelf", "run", experiment, hosting);
  static const Traveller newborn = hosting.new_traveller(0, 0);
  const auto theta = newborn.state.at("theta");
  std::vector<TensorView> tensors;
  for (const char* name : {"theta", "update 0/theta", "update 1/theta"}) {
    tensors.push_back({name, {static_cast<std::int64_t>(theta.size())}, theta});
  }
  const std::string progress(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  try {
    write_safetensors(real_files(), folder / "parcel", tensors,
                      {{"run", "run"}, {"model", "0"}, {"progress", progress}});
  } catch (const Json::exception&) {
    return;  // no UTF-8: nobody can write such a file
  }
  const std::string parcel = read_file(folder / "parcel");
  shelf.take_in(0, 2, "a", false, parcel);  // what is there already may come again
}

void feed_weights(std::span<const std::byte> bytes) {
  static const Layout model({{.name = "w", .shape = {2}}});
  pb::PeerWeights announced, brought;
  announced.set_kind(pb::PeerWeights::OFFER);
  announced.set_length(bytes.size());
  brought.set_chunk(bytes.data(), bytes.size());
  std::vector<pb::PeerWeights> parts;
  while (bytes.size() >= 2) {
    if (auto part = next_message<pb::PeerWeights>(bytes)) parts.push_back(std::move(*part));
  }
  for (const auto& sent : {parts, {announced, brought}}) {
    try {
      Incoming incoming(model);
      for (const auto& part : sent) incoming.add(part);
      incoming.take();
    } catch (const InputError&) {
      // That is the answer.
    }
  }
}

}  // namespace parley::wire
