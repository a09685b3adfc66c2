// Memory is models × (workers + a constant), whatever the number of clients: measured on the real binary.
#include <gtest/gtest.h>

#include "program.h"

namespace parley::tests {
namespace {

// 256·1000 + 1000·4 + … floats: a model of about 1 MB. Whatever the number of clients, the same rows are trained on in
// the same batches of two, so that the only difference is who holds them.
constexpr const char* kExperiment = R"([run]
rounds = 1
[data]
name = "synthetic"
rows = 4000
features = 256
classes = 4
test_rows = 50
[model]
hidden = [1000]
[client]
batch = 2
)";

double peak_megabytes(const TempFolder& temp, std::size_t clients, std::vector<std::string> more) {
  std::vector<std::string> arguments{"run",       "e.toml",
                                     "--threads", "2",
                                     "--out",     std::to_string(clients),
                                     "--set",     "partition.clients=" + std::to_string(clients)};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const Outcome outcome = parley(temp.path(), arguments);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  return static_cast<double>(outcome.peak_kilobytes) / 1024.0;
}

TEST(Memory, DoesNotGrowWithTheNumberOfClients) {
  const TempFolder temp;
  write_text(temp / "e.toml", kExperiment);
  const double few = peak_megabytes(temp, 10, {}), many = peak_megabytes(temp, 2000, {});
  EXPECT_LT(many - few, 20.0) << few << " MB with 10 clients, " << many << " MB with 2000; 2000 models are 2000 MB";
}

// Two rounds, so that records are read back as well as written.
TEST(Memory, ClientStateOnDiskDoesNotGrowWithTheNumberOfClients) {
  const TempFolder temp;
  write_text(temp / "e.toml", kExperiment);
  const std::vector<std::string> scaffold{"--set", "method.name=scaffold", "--set", "store.clients=disk",
                                          "--set", "data.rows=800",        "--set", "run.rounds=2"};
  const double few = peak_megabytes(temp, 10, scaffold), many = peak_megabytes(temp, 400, scaffold);
  EXPECT_LT(many - few, 20.0) << few << " MB with 10 clients, " << many << " MB with 400; 400 records are 400 MB";
}

}  // namespace
}  // namespace parley::tests
