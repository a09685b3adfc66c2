#include "parley/engine/advice.h"

#include <gtest/gtest.h>

#include "parley/engine/test_experiment.h"

namespace parley {
namespace {

constexpr const char* kSmall = R"(
[data]
name = "synthetic"
rows = 200
classes = 4
features = 8
[partition]
kind = "iid"
clients = 4
[model]
name = "normed"
hidden = [4]
[run]
rounds = 1
)";

std::vector<std::string> before(const std::vector<std::string>& assignments) {
  return advice(experiment_of(kSmall, assignments));
}

void expect_one(const std::vector<std::string>& lines, std::string_view piece, std::string_view remedy) {
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find(piece), std::string::npos) << lines[0];
  EXPECT_NE(lines[0].find(remedy), std::string::npos) << lines[0];
}

TEST(Advice, OfNormsOnSkewedClients) {
  EXPECT_TRUE(before({}).empty());  // alike
  expect_one(before({"partition.kind=single_class"}), "batch norm", "model.norm = \"group\"");
  EXPECT_TRUE(before({"partition.kind=single_class", "model.name=mlp"}).empty());
  EXPECT_TRUE(before({"partition.kind=single_class", "aggregate.running_var=mixture"}).empty());
}

TEST(Advice, OfASingleLabel) {
  expect_one(before({"model.name=mlp", "data.classes=1"}), "the same label", "data.label");
  EXPECT_TRUE(before({"model.name=mlp", "data.classes=2"}).empty());
}

TEST(Advice, OfClientsWithoutTestExamples) {
  EXPECT_TRUE(before({"evaluate.clients=true", "partition.holdout=0.2"}).empty());
  EXPECT_TRUE(before({"model.name=mlp", "partition.clients=200", "partition.holdout=0.2"}).empty());  // not asked
  expect_one(before({"model.name=mlp", "evaluate.clients=true", "partition.holdout=0.2", "partition.clients=200"}),
             "200 of 200 clients have no test examples", "partition.holdout");
}

TEST(Advice, OfWhatCameOut) {
  const std::vector<std::string> refused{"client 1: diverged", "client 2: diverged"};
  EXPECT_TRUE(advice(std::vector<Json>{}).empty());
  EXPECT_TRUE(advice({Json{{"round", 1}, {"clients", 2}, {"refused", refused}}}).empty());
  expect_one(advice({Json{{"round", 1}, {"clients", 3}}, Json{{"round", 2}, {"clients", 1}, {"refused", refused}}}),
             "in round 2, 2 of 3 updates were refused (client 1: diverged)", "client.lr");
  EXPECT_TRUE(advice({Json{{"test_accuracy", 0.9}, {"posterior_accuracy", 0.85}}}).empty());
  expect_one(advice({Json{{"test_accuracy", 0.9}, {"posterior_accuracy", 0.75}}}), "75.0 %",
             "evaluate.posterior_scale");
}

}  // namespace
}  // namespace parley
