// The command line where all is well: what each command writes and prints, and that a run's bytes are a promise.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>
#include <ostream>
#include <regex>
#include <thread>

#include "program.h"

namespace parley::tests {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* kExperiment = R"([run]
rounds = 3
[data]
name = "synthetic"
rows = 240
features = 8
classes = 4
test_rows = 80
[partition]
kind = "dirichlet"
clients = 6
alpha = 0.5
[model]
name = "mlp"
hidden = [12]
dropout = 0.1
[client]
batch = 8
lr = 0.1
)";

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class CommandLine : public testing::Test {
 protected:
  CommandLine() { write_text(temp_ / "e.toml", kExperiment); }

  // Runs a command that must succeed, silently on stderr; gives what it printed.
  std::string done(const std::vector<std::string>& arguments) const {
    const Outcome outcome = parley(temp_.path(), arguments);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    return outcome.out;
  }
  std::string model(const std::string& folder) const { return read_text(temp_ / folder / "model.safetensors"); }
  Json info(const std::string& folder) const { return Json::parse(read_text(temp_ / folder / "run.json")); }
  std::vector<Json> metrics(const std::string& folder) const {
    std::istringstream text(read_text(temp_ / folder / "metrics.jsonl"));
    std::vector<Json> lines;
    for (std::string line; std::getline(text, line);) lines.push_back(Json::parse(line));
    return lines;
  }

  const TempFolder temp_;
};

TEST_F(CommandLine, HelpAndVersion) {
  EXPECT_TRUE(std::regex_match(done({"--version"}),
                               std::regex("parley \\d+\\.\\d+\\.\\d+(, with LibTorch \\d+\\.\\d+\\.\\d+)?\n")));
  const std::string help = done({"--help"});
  for (const char* command : {"run", "compare", "sweep", "list", "describe", "data", "evaluate", "report", "bench"}) {
    EXPECT_TRUE(contains(help, command)) << command;
  }
  EXPECT_TRUE(contains(done({"run", "--help"}), "--resume"));
}

// qemu-user plays a processor of 2008, without AVX: a portable build runs on it, another says what is missing.
TEST_F(CommandLine, OnAnOldProcessorItRunsOrSaysWhatIsMissing) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "qemu has no room for a sanitizer's shadow memory";
#endif
#ifndef __x86_64__
  GTEST_SKIP() << "not an x86-64 processor";
#endif
  if (run_command({"sh", "-c", "command -v qemu-x86_64"}, temp_.path()).exit_code != 0) {
    GTEST_SKIP() << "qemu-x86_64 is not installed (Debian: qemu-user)";
  }
  const Outcome outcome = run_command({"qemu-x86_64", "-cpu", "Nehalem", parley_binary(), "run", "e.toml", "--out",
                                       "old", "--threads", "1", "--set", "run.rounds=1"},
                                      temp_.path());
#ifdef __AVX__
  EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
  EXPECT_NE(outcome.err.find("built for processors with avx, which this one lacks"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("-DPARLEY_NATIVE=OFF"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(temp_ / "old"));
#else
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_TRUE(std::filesystem::exists(temp_ / "old" / "model.safetensors"));
#endif
}

TEST_F(CommandLine, RunFillsItsFolder) {
  const std::string said = done({"run", "e.toml", "--out", "a"});
  EXPECT_TRUE(contains(said, "round 3/3")) << said;
  EXPECT_TRUE(contains(said, "results in a")) << said;
  const auto lines = metrics("a");
  ASSERT_EQ(lines.size(), 3u);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i]["round"], i + 1);
    for (const char* key :
         {"test_accuracy", "test_loss", "train_loss", "clients", "examples", "bytes_up", "bytes_down", "seconds"}) {
      EXPECT_TRUE(lines[i].contains(key) && lines[i][key].is_number()) << key;
    }
    EXPECT_EQ(lines[i]["examples"], 240);
  }
  const Json run = info("a");
  EXPECT_EQ(run["state"], "done");
  for (const char* key : {"version", "machine", "wall_seconds"}) EXPECT_TRUE(run.contains(key)) << key;
  EXPECT_TRUE(fs::is_directory(temp_ / "a" / "checkpoint"));
  for (const auto& [name, bytes] : snapshot(temp_.path())) EXPECT_FALSE(name.ends_with(".tmp")) << name;
}

TEST_F(CommandLine, AProfileSaysWhereTheTimeWent) {
  const std::string said = done({"run", "e.toml", "--out", "a", "--profile", "deep/profile.json"});
  for (const char* work : {"train", "fold", "evaluate", "checkpoint", "load data", "waiting", "deep/profile.json"}) {
    EXPECT_TRUE(contains(said, work)) << work << "\n" << said;
  }
  std::size_t rounds = 0, clients = 0;
  const Json profile = Json::parse(read_text(temp_ / "deep" / "profile.json"));
  for (const auto& event : profile["traceEvents"]) {
    rounds += event["name"] == "round";
    clients += event["name"] == "train";
  }
  EXPECT_EQ(rounds, 3u);
  std::size_t trained = 0;
  for (const auto& line : metrics("a")) trained += line["clients"].get<std::size_t>();
  EXPECT_EQ(clients, trained);
  done({"run", "e.toml", "--out", "b"});
  EXPECT_EQ(model("a"), model("b")) << "looking changes nothing";
}

// Text may hold an address; what a browser would fetch may not.
void expect_self_contained(const std::string& page) {
  EXPECT_TRUE(contains(page, "<html"));
  EXPECT_TRUE(contains(page, "</html>"));
  for (const char* loading :
       {"src=\"http", "href=\"http", "url(http", "@import", "src='http", "href='http", "fetch("}) {
    EXPECT_FALSE(contains(page, loading)) << loading;
  }
  EXPECT_FALSE(std::regex_search(page, std::regex("<(link|script|img|iframe)[^>]*//")));
}

TEST_F(CommandLine, ReportsAreSelfContained) {
  done({"run", "e.toml", "--out", "a"});
  expect_self_contained(read_text(temp_ / "a" / "report.html"));
  EXPECT_TRUE(contains(done({"report", "a", "-o", "page.html"}), "page.html"));
  const std::string page = read_text(temp_ / "page.html");
  expect_self_contained(page);
  EXPECT_TRUE(contains(page, "fedavg"));
}

TEST_F(CommandLine, TheResolvedConfigGivesTheSameModel) {
  done({"run", "e.toml", "--out", "a", "--set", "method.name=fedprox", "--set", "server.step=adam"});
  done({"run", "a/config.toml", "--out", "b"});
  EXPECT_FALSE(model("a").empty());
  EXPECT_EQ(model("a"), model("b"));
  EXPECT_EQ(read_text(temp_ / "a" / "config.toml"), read_text(temp_ / "b" / "config.toml"));
}

// The run folder is sent to a colleague, who runs its config from anywhere on the same disk.
TEST_F(CommandLine, TheResolvedConfigRunsFromAnotherFolder) {
  std::string csv = "a,b,label\n";
  for (int i = 0; i < 40; ++i) csv += std::to_string(i) + "," + std::to_string(i * i % 7) + "," + "01"[i % 2] + "\n";
  write_text(temp_ / "study" / "d.csv", csv);
  write_text(temp_ / "study" / "c.toml",
             "[run]\nrounds = 2\n[data]\nname = \"csv\"\npath = \"d.csv\"\n[partition]\nclients = 3\n");
  write_text(temp_ / "elsewhere" / "note", "");
  done({"run", "study/c.toml", "--out", "a"});
  const Outcome again = parley(temp_ / "elsewhere", {"run", "../a/config.toml", "--out", "../b"});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(model("a"), model("b"));
}

TEST_F(CommandLine, ThreadsDoNotChangeAByte) {
  done({"run", "e.toml", "--out", "one", "--threads", "1"});
  done({"run", "e.toml", "--out", "two", "--threads", "2"});
  EXPECT_FALSE(model("one").empty());
  EXPECT_EQ(model("one"), model("two"));
  done({"run", "e.toml", "--out", "other", "--set", "run.seed=2"});
  EXPECT_NE(model("one"), model("other"));
}

TEST_F(CommandLine, WithoutOutNoEarlierRunIsTouched) {
  done({"run", "e.toml"});
  const auto before = snapshot(temp_ / "runs" / "e");
  done({"run", "e.toml"});
  EXPECT_EQ(touched_since(before, temp_ / "runs" / "e"), std::vector<std::string>{});
  EXPECT_EQ(model("runs/e"), model("runs/e-2"));
}

struct Killed {
  std::string name, method, keep;
};
void PrintTo(const Killed& one, std::ostream* out) {
  *out << one.name;
}
class KilledRun : public CommandLine, public testing::WithParamInterface<Killed> {
 protected:
  std::vector<std::string> command(const std::string& out) const {
    return {"run",   "e.toml",
            "--out", out,
            "--set", "run.rounds=16",
            "--set", "method.name=" + GetParam().method,
            "--set", "store.clients=" + GetParam().keep};
  }

  // Waits until the run is between two rounds somewhere after the second, then ends it as a power cut would.
  void kill_in_the_middle(Process& process) const {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (process.running() && count_lines(temp_ / "cut" / "metrics.jsonl") < 2) {
      ASSERT_LT(std::chrono::steady_clock::now(), give_up);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    process.kill(SIGKILL);
    ASSERT_EQ(process.wait().signal, SIGKILL) << "the run ended before it could be killed";
  }
};

TEST_P(KilledRun, ResumesToTheSameBytes) {
  done(command("straight"));
  auto words = command("cut");
  words.insert(words.begin(), parley_binary());
  Process process(words, temp_.path());
  kill_in_the_middle(process);
  EXPECT_EQ(info("cut")["state"], "running");
  EXPECT_FALSE(fs::exists(temp_ / "cut" / "model.safetensors"));
  auto resume = command("cut");
  resume.push_back("--resume");
  const std::string said = done(resume);
  EXPECT_FALSE(contains(said, "round 1/16")) << "started again from the beginning";
  EXPECT_EQ(model("straight"), model("cut"));
  EXPECT_EQ(info("cut")["state"], "done");
  const auto lines = metrics("cut");
  ASSERT_EQ(lines.size(), 16u);
  for (std::size_t i = 0; i < lines.size(); ++i) EXPECT_EQ(lines[i]["round"], i + 1);
}

INSTANTIATE_TEST_SUITE_P(CommandLine, KilledRun,
                         testing::Values(Killed{"FedAvg", "fedavg", "memory"},
                                         Killed{"ScaffoldInMemory", "scaffold", "memory"},
                                         Killed{"ScaffoldOnDisk", "scaffold", "disk"}),
                         [](const auto& test) { return test.param.name; });

TEST_F(CommandLine, CompareRunsEachMethodAndSeedOnce) {
  const std::vector<std::string> compare{"compare", "e.toml", "--methods", "fedavg,fedprox:mu=0.5",
                                         "--seeds", "1,2",    "--out",     "study"};
  const std::string first = done(compare);
  for (const char* part : {"fedavg", "fedprox mu=0.5", "±", "report: study/report.html"}) {
    EXPECT_TRUE(contains(first, part)) << part << " in " << first;
  }
  EXPECT_FALSE(contains(first, "done before"));
  for (const char* run : {"fedavg-s1", "fedavg-s2", "fedprox-mu=0.5-s1", "fedprox-mu=0.5-s2"}) {
    EXPECT_EQ(info(std::string("study/") + run)["state"], "done");
  }
  expect_self_contained(read_text(temp_ / "study" / "report.html"));
  const auto before = snapshot(temp_ / "study");
  const std::string second = done(compare);
  std::size_t skipped = 0;
  for (std::size_t at = 0; (at = second.find("done before", at)) != std::string::npos; ++at) ++skipped;
  EXPECT_EQ(skipped, 4u) << second;
  // Metrics hold measured seconds, so equal bytes also mean that nothing was trained again.
  EXPECT_EQ(touched_since(before, temp_ / "study"), std::vector<std::string>{});
}

TEST_F(CommandLine, CompareGivesEveryMethodTheSameSplit) {
  done({"compare", "e.toml", "--methods", "fedavg,scaffold", "--out", "study"});
  EXPECT_EQ(info("study/fedavg-s1")["label_histogram"], info("study/scaffold-s1")["label_histogram"]);
}

TEST_F(CommandLine, SweepRunsEveryCombinationBestFirst) {
  write_text(temp_ / "s.toml", std::string(kExperiment) + "[sweep]\n\"client.lr\" = [0.0001, 0.1]\n");
  const std::string said = done({"sweep", "s.toml", "--out", "sweep"});
  const std::string table = read_text(temp_ / "sweep" / "table.txt");
  EXPECT_TRUE(contains(said, table));
  ASSERT_TRUE(contains(table, "client.lr=0.1 ") && contains(table, "client.lr=0.0001")) << table;
  EXPECT_LT(table.find("client.lr=0.1 "), table.find("client.lr=0.0001")) << table;
  EXPECT_TRUE(contains(done({"sweep", "s.toml", "--out", "sweep"}), "done before"));
}

TEST_F(CommandLine, SweepOverMethodsPrintsTheGrid) {
  write_text(temp_ / "s.toml", std::string(kExperiment) + "[sweep]\n\"client.lr\" = [0.0001, 0.1]\n");
  done({"sweep", "s.toml", "--methods", "fedavg,fola", "--seeds", "1,2", "--out", "grid"});
  const std::string table = read_text(temp_ / "grid" / "table.txt");
  const std::string first = table.substr(0, table.find('\n'));
  EXPECT_TRUE(contains(first, "fedavg") && contains(first, "fola")) << table;  // a column a method
  EXPECT_TRUE(contains(table, "fola client.lr=0.1") && contains(table, "±")) << table;
}

TEST_F(CommandLine, RunTellsWhatThePosteriorKnows) {
  const std::string plain = done({"run", "e.toml", "--set", "method.name=fola", "--out", "plain"});
  EXPECT_FALSE(contains(plain, "uncertainty")) << plain;
  const std::string said =
      done({"run", "e.toml", "--set", "method.name=fola", "--set", "evaluate.posterior_samples=3", "--out", "drawn"});
  EXPECT_TRUE(contains(said, "fola, the model") && contains(said, "fola, networks drawn")) << said;
}

std::string four_digits(double x) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4f", x);
  return text;
}

TEST_F(CommandLine, EvaluateTakesAFinishedRunAndChangesNothing) {
  done({"run", "e.toml", "--set", "method.name=fola", "--set", "evaluate.posterior_samples=3", "--out", "a"});
  const auto last = metrics("a").back();
  const std::string before = read_text(temp_ / "a" / "metrics.jsonl");
  const std::string same = done({"evaluate", "a"});
  EXPECT_TRUE(contains(same, four_digits(last["test_loss"]))) << same;
  EXPECT_TRUE(contains(same, four_digits(last["posterior_loss"]))) << same;
  const std::string mean = done({"evaluate", "a", "--set", "evaluate.posterior_scale=0"});
  EXPECT_FALSE(contains(mean, four_digits(last["posterior_loss"]))) << mean;
  EXPECT_EQ(read_text(temp_ / "a" / "metrics.jsonl"), before);
}

TEST_F(CommandLine, EvaluateTakesSeveralRunsTogether) {
  done({"compare", "e.toml", "--methods", "fedavg", "--seeds", "1,2", "--out", "c"});
  const std::string both = done({"evaluate", "c/fedavg-s1", "c/fedavg-s2"});
  for (const char* part : {"c/fedavg-s1: ", "c/fedavg-s2: ", "all 2 together: test accuracy ", "NLL"}) {
    EXPECT_TRUE(contains(both, part)) << both;
  }
}

TEST_F(CommandLine, EvaluateLooksAtAllRunsBeforeItSaysAnything) {
  done({"run", "e.toml", "--out", "a"});
  const Outcome refused = parley(temp_.path(), {"evaluate", "a", "b"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_EQ(refused.out, "");
  EXPECT_TRUE(contains(refused.err, "b: not a run's folder")) << refused.err;
}

TEST_F(CommandLine, ListAndDescribeTellWhatThereIs) {
  const std::string all = done({"list"});
  for (const char* name : {"fedavg", "scaffold", "mlp", "synthetic", "dirichlet", "adam", "yogi", "clip"}) {
    EXPECT_TRUE(contains(all, name)) << name;
  }
  const std::string methods = done({"list", "methods"});
  EXPECT_TRUE(contains(methods, "fednova"));
  EXPECT_FALSE(contains(methods, "dirichlet"));
  const std::string prox = done({"describe", "fedprox"});
  for (const char* part : {"method.name = \"fedprox\"", "Li et al. 2020", "mu = 0.01", ">= 0"}) {
    EXPECT_TRUE(contains(prox, part)) << part;
  }
  const std::string adam = done({"describe", "adam"});  // two kinds of thing have this name
  EXPECT_TRUE(contains(adam, "client.optimizer = \"adam\"") && contains(adam, "server.step = \"adam\"")) << adam;
  EXPECT_TRUE(contains(done({"describe", "client"}), "[client]"));
  EXPECT_TRUE(contains(done({"describe", "client.lr"}), "client.lr = ")) << "one key";
  const std::string mu = done({"describe", "mu"});  // an option of several methods
  EXPECT_TRUE(contains(mu, "with method.name = \"fedprox\"") && contains(mu, "with method.name = \"fednova\"")) << mu;
}

TEST_F(CommandLine, DataShowCountsEveryRow) {
  const std::string said = done({"data", "show", "e.toml"});
  EXPECT_TRUE(contains(said, "240 train + 80 test examples, 8 features")) << said;
  EXPECT_TRUE(contains(said, "dirichlet: 6 clients")) << said;
  std::size_t total = 0, clients = 0;
  const std::regex row("^(\\d+) +(\\d+) ");
  std::istringstream text(said);
  for (std::string line; std::getline(text, line);) {
    std::smatch match;
    if (!std::regex_search(line, match, row) || match[1] != std::to_string(clients)) continue;
    ++clients;
    total += std::stoul(match[2]);
  }
  EXPECT_EQ(clients, 6u) << said;
  EXPECT_EQ(total, 240u) << said;
  EXPECT_TRUE(contains(done({"data", "show", "e.toml", "--clients", "2"}), "4 more"));
}

TEST_F(CommandLine, BenchMeasuresOneThreadAndMore) {
  const std::string said = done({"bench", "e.toml", "--set", "run.rounds=1", "--threads", "2"});
  for (const char* part :
       {"clients/s", "steps/s", "samples/s", "speed-up", "peak memory", "kernels: oneDNN", "limits of one thread"}) {
    EXPECT_TRUE(contains(said, part)) << part << " in " << said;
  }
  EXPECT_TRUE(std::regex_search(said, std::regex("\n1 +[0-9.]+ ")) &&
              std::regex_search(said, std::regex("\n2 +[0-9.]+ ")))
      << said;
  EXPECT_EQ(snapshot(temp_.path()).size(), 1u) << "bench leaves nothing behind";
}

// Settings are read before anything else, so that the first complaint of a sound file is about the folder.
TEST_F(CommandLine, EveryExperimentFileIsSound) {
  std::size_t files = 0;
  for (const auto& file : fs::recursive_directory_iterator(PARLEY_EXPERIMENTS)) {
    if (file.path().extension() != ".toml") continue;
    ++files;
    const Outcome outcome = parley(temp_.path(), {"run", file.path().string(), "--out", "e.toml/x"});
#ifndef PARLEY_TORCH
    if (contains(outcome.err, "model.name")) continue;  // one of LibTorch's
#endif
    EXPECT_TRUE(contains(outcome.err, "the folder cannot be made")) << outcome.err;
  }
  EXPECT_GT(files, 20u);
}

}  // namespace
}  // namespace parley::tests
