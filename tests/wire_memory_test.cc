// What a server holds does not grow by a model for each node: answers wait at their nodes, and all connections share
// one broadcast.
#include <gtest/gtest.h>

#include "free_port.h"
#include "program.h"

namespace parley::tests {
namespace {

// Of models with 2500 · 100 weights: 1 MB each.
double server_megabytes(std::size_t nodes) {
  const TempFolder folder;
  write_text(
      folder / "a.toml",
      "[run]\nrounds = 3\n[data]\nname = \"synthetic\"\nrows = 400\ntest_rows = 10\nfeatures = 2500\nclasses = 4\n"
      "[partition]\nkind = \"iid\"\nclients = " +
          std::to_string(nodes) + "\n[model]\nname = \"mlp\"\nhidden = [100]\n[evaluate]\nevery = 3\n");
  const std::string address = "127.0.0.1:" + std::to_string(free_port());
  Process server(
      {parley_binary(), "serve", "a.toml", "--listen", address, "--insecure", "--out", "served", "--threads", "1"},
      folder.path());
  Process all({WIRE_NODES, "a.toml", address, std::to_string(nodes), "nodes"}, folder.path());
  const Outcome outcome = server.wait();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  all.wait();
  return static_cast<double>(outcome.peak_kilobytes) / 1024.0;
}

TEST(WireMemory, AHundredNodesCostLessThanAModelEach) {
  const double few = server_megabytes(10), many = server_megabytes(100);
  EXPECT_LT(many - few, 90 * 1.0) << few << " MB with 10 nodes, " << many << " MB with 100";
  RecordProperty("ten", std::to_string(few));
  RecordProperty("hundred", std::to_string(many));
}

}  // namespace
}  // namespace parley::tests
