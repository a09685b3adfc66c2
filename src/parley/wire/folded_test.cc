// What a relay sends comes back as it was, and only as a sum of those who were asked.
#include "parley/wire/folded.h"

#include <gtest/gtest.h>

#include <limits>

#include "parley/base/errors.h"

namespace parley::wire {
namespace {

SharedSchema two_numbers() {
  static const SharedSchema schema = share(Schema{.channels = {{.name = "theta", .count = 2}}});
  return schema;
}

Update update_of(std::size_t client, double weight, float value) {
  Update update(two_numbers());
  update.round = 3;
  update.client = client;
  update.weight = weight;
  update["theta"] = {value, -value};
  update.training = {.loss_sum = 1.5, .examples = 10, .steps = 2};
  return update;
}

// Clients 4 and 6 answered, 5 did not.
FoldedAnswer some_answer(float value = 1.0f) {
  FoldedAnswer answer{{{.client = 4, .steps = 2, .wire_bytes = 70, .epochs = 1.0},
                       {.client = 5, .refusal = "no answer within 3 s"},
                       {.client = 6, .steps = 2, .wire_bytes = 70, .epochs = 1.0}},
                      Sum(two_numbers())};
  answer.sum.add(update_of(4, 30.0, value));
  answer.sum.add(update_of(6, 50.0, 2.0f));
  return answer;
}

FoldedFrom asked() {
  return {.round = 3, .clients = {4, 5, 6}, .sizes = {1, 1, 1, 1, 30, 40, 50}, .uniform_weights = false};
}

TEST(Folded, ComesBackAsItWas) {
  const FoldedAnswer sent = some_answer();
  const FoldedAnswer got = decode_folded(encode(3, sent), two_numbers(), asked());
  ASSERT_EQ(got.settlements.size(), 3u);
  EXPECT_EQ(got.settlements[1].refusal, "no answer within 3 s");
  EXPECT_EQ(got.settlements[2].steps, 2u);
  EXPECT_EQ(got.sum.count(), 2u);
  EXPECT_EQ(got.sum.weight(), 80.0);
  EXPECT_EQ(got.sum.total("theta")[0], 130.0);  // 30·1 + 50·2
  EXPECT_LE(encode(3, sent).size(), longest_folded(two_numbers(), 3));
}

TEST(Folded, WhatIsNotASumOfThoseAskedIsRefused) {
  const auto refused = [](const Bytes& bytes, const FoldedFrom& from) {
    EXPECT_THROW(decode_folded(bytes, two_numbers(), from), RefusedUpdate);
  };
  const Bytes good = encode(3, some_answer());
  FoldedFrom from = asked();
  from.round = 4;
  refused(good, from);
  from = asked();
  from.clients = {4, 5, 7};
  refused(good, from);
  from = asked();
  from.clients = {4, 5};
  refused(good, from);
  from = asked();
  from.sizes[6] = 51;  // it would weigh more than it joined with
  refused(good, from);
  from = asked();
  from.uniform_weights = true;
  refused(good, from);
  FoldedAnswer wrong = some_answer();
  wrong.settlements[1].refusal.reset();  // a client that is not in the sum
  refused(encode(3, wrong), asked());
  wrong = some_answer();
  wrong.settlements[0].steps = 1;
  refused(encode(3, wrong), asked());
  refused(encode(3, some_answer(std::numeric_limits<float>::infinity())), asked());
}

TEST(Folded, CutOffOrTooLongIsRefused) {
  Bytes bytes = encode(3, some_answer());
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_THROW(decode_folded(std::span(bytes).first(length), two_numbers(), asked()), RefusedUpdate) << length;
  }
  bytes.push_back(std::byte{0});
  EXPECT_THROW(decode_folded(bytes, two_numbers(), asked()), RefusedUpdate);
}

}  // namespace
}  // namespace parley::wire
