// mpirun -np N parley run: the bytes of one process, for any number of ranks; and what it refuses.
#include <gtest/gtest.h>

#include <array>
#include <csignal>
#include <sstream>
#include <thread>

#include "program.h"

namespace parley::tests {
namespace {

constexpr const char* kExperiment = R"(
[run]
rounds = 4
[data]
name = "synthetic"
rows = 400
test_rows = 2750
features = 8
classes = 4
[partition]
kind = "dirichlet"
clients = 40
alpha = 0.5
[model]
name = "mlp"
hidden = [6]
[client]
batch = 10
lr = 0.05
[server]
participation = 0.8
)";

// More ranks than cores, and as root, which mpirun otherwise refuses to do.
std::vector<std::string> on_ranks(std::size_t ranks, const std::vector<std::string>& arguments) {
  std::vector<std::string> command{"mpirun", "--allow-run-as-root", "--oversubscribe",
                                   "-np",    std::to_string(ranks), parley_binary()};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

std::vector<std::string> run_into(const std::string& out, const std::string& settings,
                                  const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments{"run", "a.toml", "--out", out, "--threads", "1"};
  for (const auto& word : words_of(settings)) arguments.insert(arguments.end(), {"--set", word});
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

// Everything a round writes but how long it took.
std::string without_times(const std::string& metrics) {
  std::string kept;
  std::istringstream lines(metrics);
  for (std::string line; std::getline(lines, line);) {
    for (const char* key : {"\"seconds\":", "\"evaluation_seconds\":"}) {
      if (const auto at = line.find(key); at != std::string::npos) line.erase(at, line.find_first_of(",}", at) - at);
    }
    kept += line + "\n";
  }
  return kept;
}

class Ranks : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { write_text(folder_ / "a.toml", kExperiment); }
  TempFolder folder_;
};

TEST_P(Ranks, GiveTheBytesOfOneProcess) {
  ASSERT_EQ(parley(folder_.path(), run_into("one", GetParam())).exit_code, 0);
  for (const std::size_t ranks : {2u, 3u, 5u}) {
    const std::string out = "r" + std::to_string(ranks);
    const Outcome outcome = run_command(on_ranks(ranks, run_into(out, GetParam())), folder_.path());
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_NE(outcome.out.find(std::to_string(ranks) + " ranks of 1 thread"), std::string::npos) << outcome.out;
    EXPECT_TRUE(read_text(folder_ / out / "model.safetensors") == read_text(folder_ / "one" / "model.safetensors"))
        << ranks << " ranks";
    EXPECT_EQ(without_times(read_text(folder_ / out / "metrics.jsonl")),
              without_times(read_text(folder_ / "one" / "metrics.jsonl")));
  }
}

// One that averages, one whose clients remember, one that keeps every update, one with a posterior, one that asks
// clients, and one with steps for each client.
INSTANTIATE_TEST_SUITE_P(Methods, Ranks,
                         testing::Values("method.name=fedavg", "method.name=scaffold", "method.name=pfnm",
                                         "method.name=fola method.curvature=input",
                                         "method.name=ditto evaluate.clients=true",
                                         "method.name=fednova client.epochs=6 server.steps=adaptive "
                                         "server.round_seconds=0.14 network.speed_spread=0.5"),
                         [](const auto& test) {
                           std::string name = test.param.substr(12, test.param.find(' ') - 12);
                           return name;
                         });

class Mpi : public Ranks {};

TEST_F(Mpi, AnyRankMayUseThreads) {
  ASSERT_EQ(parley(folder_.path(), run_into("one", "")).exit_code, 0);
  auto arguments = run_into("two", "");
  arguments[arguments.size() - 1] = "2";
  ASSERT_EQ(run_command(on_ranks(2, arguments), folder_.path()).exit_code, 0);
  EXPECT_TRUE(read_text(folder_ / "one" / "model.safetensors") == read_text(folder_ / "two" / "model.safetensors"));
}

TEST_F(Mpi, AKilledRankEndsTheJobAndResumeGoesOn) {
  const std::string settings = "run.rounds=40 method.name=scaffold";
  ASSERT_EQ(parley(folder_.path(), run_into("one", settings)).exit_code, 0);
  {
    Process job(on_ranks(3, run_into("job", settings)), folder_.path());
    while (job.running() && count_lines(folder_ / "job" / "metrics.jsonl") < 4) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    const Outcome ranks = run_command({"pgrep", "-P", std::to_string(job.pid())}, folder_.path());
    ASSERT_FALSE(ranks.out.empty());
    ::kill(std::stoi(ranks.out.substr(ranks.out.rfind('\n', ranks.out.size() - 2) + 1)), SIGKILL);  // the last
    EXPECT_NE(job.wait().exit_code, 0);
  }
  const Outcome resumed = run_command(on_ranks(2, run_into("job", settings, {"--resume"})), folder_.path());
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_TRUE(read_text(folder_ / "job" / "model.safetensors") == read_text(folder_ / "one" / "model.safetensors"));
}

// Two ranks with surroundings of their own: what mpirun's -x sets, and the settings.
struct Surroundings {
  std::string data;
  std::string settings;
};
std::vector<std::string> on_unlike_ranks(const std::array<Surroundings, 2>& ranks, const std::string& out) {
  std::vector<std::string> command{"mpirun", "--allow-run-as-root", "--oversubscribe"};
  for (const auto& [data, settings] : ranks) {
    if (command.size() > 3) command.push_back(":");
    command.insert(command.end(), {"-np", "1", "-x", "PARLEY_DATA=" + data, parley_binary()});
    const auto arguments = run_into(out, settings);
    command.insert(command.end(), arguments.begin(), arguments.end());
  }
  return command;
}

TEST_F(Mpi, DataAreReadOnceAMachine) {
  std::string table = "who,size,colour,price\n";
  for (int row = 0; row < 90; ++row) {
    table += std::to_string(row % 9) + "," + std::to_string(row * 37 % 11) + (row % 2 ? ",red," : ",blue,") +
             std::to_string(row * 53 % 17) + "\n";
  }
  std::filesystem::create_directories(folder_ / "here");
  write_text(folder_ / "here" / "houses.csv", table);
  write_text(folder_ / "a.toml", R"(
[run]
rounds = 3
[data]
name = "csv"
path = "houses.csv"
targets = ["price"]
user_column = "who"
[partition]
kind = "by_user"
holdout = 0.3
[model]
name = "linear"
[client]
lr = 0.05
[evaluate]
clients = true
)");
  // Rank 1 looks where there is nothing: it must have the data from rank 0.
  const Outcome two =
      run_command(on_unlike_ranks({{{folder_ / "here", ""}, {folder_ / "nothing", ""}}}, "two"), folder_.path());
  ASSERT_EQ(two.exit_code, 0) << two.err;
  ASSERT_EQ(parley(folder_.path(), run_into("one", "data.root=here")).exit_code, 0);
  EXPECT_TRUE(read_text(folder_ / "one" / "model.safetensors") == read_text(folder_ / "two" / "model.safetensors"));
  const std::string metrics = read_text(folder_ / "one" / "metrics.jsonl");
  EXPECT_NE(metrics.find("mt_rmse"), std::string::npos);
  EXPECT_EQ(without_times(read_text(folder_ / "two" / "metrics.jsonl")), without_times(metrics));
  // When neither has them, it is said once, with where they were looked for.
  const Outcome none = run_command(on_unlike_ranks({{{"x", ""}, {"y", ""}}}, "none"), folder_.path());
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_NE(none.err.find("houses.csv"), std::string::npos) << none.err;
}

TEST_F(Mpi, ARankWithOtherSettingsIsRefused) {
  const auto refusal = [&](const std::string& settings) {
    const Outcome outcome = run_command(on_unlike_ranks({{{"x", ""}, {"x", settings}}}, "unlike"), folder_.path());
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_NE(outcome.err.find("rank 1 of 2"), std::string::npos) << outcome.err;
    return outcome.err;
  };
  EXPECT_NE(refusal("client.lr=0.1").find("the settings: not those of rank 0"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "unlike" / "config.toml"));
  EXPECT_NE(refusal("data.rows=300").find("not those of rank 0"), std::string::npos);
  EXPECT_NE(refusal("client.lrr=1").find("client.lrr"), std::string::npos);  // rank 0 cannot know
}

TEST_F(Mpi, WhatRanksCannotRunIsRefusedOnce) {
  const auto refusal = [&](const std::vector<std::string>& arguments) {
    const Outcome outcome = run_command(on_ranks(3, arguments), folder_.path());
    EXPECT_NE(outcome.exit_code, 0);
    std::size_t said = 0;
    for (auto at = outcome.err.find("parley: "); at != std::string::npos; at = outcome.err.find("parley: ", at + 1)) {
      ++said;
    }
    EXPECT_EQ(said, 1u) << outcome.err;
    return outcome.err;
  };
  EXPECT_NE(refusal(run_into("p", "method.name=gossip")).find("run it without mpirun"), std::string::npos);
  EXPECT_NE(refusal(run_into("q", "client.lrr=1")).find("client.lrr"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "p" / "config.toml"));
}

}  // namespace
}  // namespace parley::tests
