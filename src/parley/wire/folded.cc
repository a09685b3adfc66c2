#include "parley/wire/folded.h"

#include <algorithm>
#include <cmath>

#include "parley/base/errors.h"

namespace parley::wire {
namespace {

constexpr std::size_t kLongestReason = 300;

void require(bool sound, const char* what) {
  if (!sound) fail<RefusedUpdate>("the relay's sum cannot be: {}", what);
}

bool all_finite(const Sum& sum) {
  const auto finite = [](double x) { return std::isfinite(x); };
  const Schema& schema = sum.schema();
  return finite(sum.training().loss_sum) &&
         std::ranges::all_of(schema.scalars, [&](const auto& s) { return finite(sum.scalar(s.name)); }) &&
         std::ranges::all_of(schema.channels,
                             [&](const auto& c) { return std::ranges::all_of(sum.total(c.name), finite); });
}

void check(const FoldedAnswer& answer, const FoldedFrom& from) {
  std::size_t accepted = 0, steps = 0;
  double weight = 0.0;
  for (const Settlement& settled : answer.settlements) {
    if (settled.refusal) continue;
    require(std::isfinite(settled.epochs) && settled.epochs >= 0.0, "epochs that are none");
    ++accepted;
    steps += settled.steps;
    weight += from.uniform_weights ? 1.0 : static_cast<double>(from.sizes[settled.client]);
  }
  require(answer.sum.count() == accepted, "it has other clients than it says");
  require(answer.sum.weight() == weight, "its clients weigh something else");  // whole numbers: exact in any order
  require(answer.sum.training().steps == steps, "its clients took other steps");
  require(answer.sum.singles().empty(), "it holds answers");
  require(all_finite(answer.sum), "it is not finite");
}

}  // namespace

Bytes encode(std::size_t round, const FoldedAnswer& answer) {
  ByteBuffer to;
  put(to, static_cast<std::uint64_t>(round));
  put(to, static_cast<std::uint64_t>(answer.settlements.size()));
  for (const Settlement& settled : answer.settlements) {
    put(to, static_cast<std::uint64_t>(settled.client));
    put(to, static_cast<std::uint8_t>(settled.refusal ? 1 : 0));
    if (settled.refusal) {
      put_text(to, settled.refusal->substr(0, kLongestReason));
      continue;
    }
    put(to, static_cast<std::uint64_t>(settled.steps));
    put(to, static_cast<std::uint64_t>(settled.wire_bytes));
    put(to, settled.epochs);
  }
  const Bytes sum = answer.sum.encode();
  put_all(to, sum);
  return std::move(to.bytes);
}

FoldedAnswer decode_folded(std::span<const std::byte> bytes, const SharedSchema& schema, const FoldedFrom& from) {
  try {
    ByteReader reader(bytes);
    const auto round = reader.take<std::uint64_t>();
    if (round != from.round) fail<RefusedUpdate>("it answers round {}, and round {} is open", round, from.round);
    require(reader.take<std::uint64_t>() == from.clients.size(), "it is of another number of clients");
    std::vector<Settlement> settlements;
    for (const std::size_t client : from.clients) {
      require(reader.take<std::uint64_t>() == client, "it is of other clients");
      Settlement& settled = settlements.emplace_back(Settlement{.client = client});
      if (reader.take<std::uint8_t>() != 0) {
        settled.refusal = reader.take_text();
        require(settled.refusal->size() <= kLongestReason, "a reason without end");
        continue;
      }
      settled.steps = reader.take<std::uint64_t>();
      settled.wire_bytes = reader.take<std::uint64_t>();
      settled.epochs = reader.take<double>();
    }
    FoldedAnswer answer{std::move(settlements), Sum::decode(reader.raw(reader.left()), schema)};
    check(answer, from);
    return answer;
  } catch (const InputError& error) {
    fail<RefusedUpdate>("{}", error.what());
  }
}

std::size_t longest_folded(const SharedSchema& schema, std::size_t clients) {
  std::size_t numbers = schema->scalars.size();
  for (const auto& channel : schema->channels) numbers += channel.size();
  return 1024 + clients * (64 + kLongestReason) + numbers * sizeof(double);
}

}  // namespace parley::wire
