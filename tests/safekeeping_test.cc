// What a run has written, and what it has read, under a stranger's hands: damage is refused by the file's name, and
// nothing that is finished is lost or replaced unasked.
#include <gtest/gtest.h>

#include <csignal>
#include <functional>
#include <nlohmann/json.hpp>

#include "program.h"

namespace parley::tests {
namespace {

namespace fs = std::filesystem;

constexpr const char* kExperiment = R"([run]
rounds = 3
[data]
name = "csv"
path = "d.csv"
[partition]
kind = "file"
path = "p.json"
[model]
hidden = [4]
[client]
batch = 8
lr = 0.1
[method]
name = "scaffold"
)";

std::string rows(int shift) {
  std::string text = "a,b,label\n";
  for (int i = 0; i < 40; ++i)
    text += std::to_string(i % 7 + shift) + "," + std::to_string(i % 3) + "," + std::to_string(i % 2) + "\n";
  return text;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class Safekeeping : public testing::Test {
 protected:
  Safekeeping() {
    write_text(temp_ / "e.toml", kExperiment);
    write_text(temp_ / "d.csv", rows(0));
    write_text(temp_ / "p.json", "[[0,1,2,3,4,5,6,7],[8,9,10,11,12,13,14,15],[16,17,18,19]]");
  }

  std::string done(const std::vector<std::string>& arguments) const {
    const Outcome outcome = parley(temp_.path(), arguments);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.out;
  }
  // As the user's mistake, in one line that says all of `says`, and with no file touched.
  void refused(const std::vector<std::string>& arguments, const std::vector<std::string>& says) const {
    const auto before = snapshot(temp_.path());
    const Outcome outcome = parley(temp_.path(), arguments);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.out << outcome.err;
    for (const auto& part : says) EXPECT_TRUE(contains(outcome.err, part)) << part << " in " << outcome.err;
    EXPECT_EQ(touched_since(before, temp_.path()), std::vector<std::string>{});
  }
  void run() const { done({"run", "e.toml", "--out", "run", "--threads", "1"}); }
  std::vector<std::string> resume(const std::string& rounds = "4") const {
    return {"run", "e.toml", "--out", "run", "--resume", "--threads", "1", "--set", "run.rounds=" + rounds};
  }
  void flip(const std::string& file, std::size_t from_the_end) const {
    std::string bytes = read_text(temp_ / file);
    bytes[bytes.size() - from_the_end] ^= 0x10;
    write_text(temp_ / file, bytes);
  }
  const TempFolder temp_;
};

TEST_F(Safekeeping, AFlippedBitInWhatIsReadBackIsRefusedByName) {
  run();
  const std::string record = "run/checkpoint/clients/1.3.safetensors", model = "run/model.safetensors";
  for (const auto& [file, command] :
       {std::pair(record, resume()), std::pair(std::string("run/checkpoint/state.3.safetensors"), resume()),
        std::pair(std::string("run/metrics.jsonl"), resume()),
        std::pair(model, std::vector<std::string>{"evaluate", "run"})}) {
    flip(file, 5);
    refused(command, {file});
    flip(file, 5);
  }
  done({"evaluate", "run"});
  done(resume());
}

TEST_F(Safekeeping, AnotherClientsRecordOrAnotherRunsModelIsRefused) {
  run();
  done({"run", "e.toml", "--out", "other", "--set", "run.seed=2"});
  const auto swap = [&](const std::string& from, const std::string& to) {
    const std::string before = read_text(temp_ / to);
    write_text(temp_ / to, read_text(temp_ / from));
    return before;
  };
  const std::string model = swap("other/model.safetensors", "run/model.safetensors");
  refused({"evaluate", "run"}, {"run/model.safetensors", "not the model that this run ended with"});
  write_text(temp_ / "run/model.safetensors", model);
  swap("run/checkpoint/clients/0.3.safetensors", "run/checkpoint/clients/1.3.safetensors");
  refused(resume(), {"1.3.safetensors", "what client 0 remembers"});
}

TEST_F(Safekeeping, LostMetricsOrALostCheckpointAreNotTakenForANewRun) {
  run();
  const std::string metrics = read_text(temp_ / "run/metrics.jsonl");
  write_text(temp_ / "run/metrics.jsonl", "");
  refused(resume(), {"run/metrics.jsonl", "damaged", "--overwrite"});
  write_text(temp_ / "run/metrics.jsonl", metrics);
  fs::rename(temp_ / "run/checkpoint/checkpoint.json", temp_ / "kept.json");
  refused(resume(), {"checkpoint.json", "missing", "3 rounds", "--overwrite"});
  fs::rename(temp_ / "kept.json", temp_ / "run/checkpoint/checkpoint.json");
  fs::remove(temp_ / "run/config.toml");
  refused(resume(), {"config.toml", "missing", "--overwrite"});
}

TEST_F(Safekeeping, ChangedInputsAreRefusedOnResumeNamingWhatChanged) {
  done({"run", "e.toml", "--out", "other"});
  write_text(temp_ / "e.toml", std::string(kExperiment) + "[evaluate]\nevery = 1\n");
  done({"run", "e.toml", "--out", "run", "--set", "model.init=other/model.safetensors"});
  auto command = resume();
  command.insert(command.end(), {"--set", "model.init=other/model.safetensors"});
  const std::string partition = read_text(temp_ / "p.json"), init = read_text(temp_ / "other/model.safetensors");
  write_text(temp_ / "d.csv", rows(1));
  refused(command, {"data.path = ", "d.csv", "training examples", "not what the run in run began with"});
  refused({"evaluate", "run"}, {"d.csv"});
  write_text(temp_ / "d.csv", rows(0));
  write_text(temp_ / "p.json", "[[0,1,2,3],[8,9,10,11,12,13,14,15],[16,17,18,19]]");
  refused(command, {"partition.path = ", "p.json", "rows of each client"});
  write_text(temp_ / "p.json", partition);
  done({"run", "e.toml", "--out", "other", "--overwrite", "--set", "client.lr=0.2"});
  refused(command, {"model.init = ", "other/model.safetensors", "initial weights"});
  write_text(temp_ / "other/model.safetensors", init);
  // The same rows in another dress are the same rows.
  write_text(temp_ / "p.json", "{\"0\": [0,1,2,3,4,5,6,7], \"1\": [8,9,10,11,12,13,14,15], \"2\": [16,17,18,19]}");
  done(command);
}

TEST_F(Safekeeping, ResumeOfNothingBeginsTheRun) {
  EXPECT_TRUE(contains(done(resume("3")), "nothing to resume; the run begins"));
  EXPECT_TRUE(contains(done(resume("3")), "nothing was left to do"));
  done({"run", "e.toml", "--resume"});
  EXPECT_TRUE(fs::exists(temp_ / "runs/e/model.safetensors"));
}

TEST_F(Safekeeping, CompareReplacesNoRunWithOtherSettingsUnlessAsked) {
  const std::vector<std::string> compare{"compare", "e.toml", "--methods", "fedavg,fedprox", "--out", "study", "--set"};
  const auto with = [&](std::vector<std::string> more) {
    auto words = compare;
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  done(with({"client.lr=0.1"}));
  refused(with({"client.lr=0.2"}), {"study/fedavg-s1", "other settings", "lr = 0.1", "lr = 0.2", "--overwrite"});
  EXPECT_TRUE(contains(done(with({"client.lr=0.1"})), "done before"));
  EXPECT_TRUE(contains(done(with({"run.rounds=4"})), "resumed")) << "only more rounds are wanted";
  refused(with({"run.rounds=2"}), {"study/fedavg-s1", "run.rounds"});
  done(with({"client.lr=0.2", "--overwrite"}));
  EXPECT_TRUE(contains(read_text(temp_ / "study/fedavg-s1/config.toml"), "lr = 0.2"));
}

TEST_F(Safekeeping, ATableAndAReportHoldOnlyTheRunsOfTheirOwnComparison) {
  done({"compare", "e.toml", "--methods", "fedavg,fedprox", "--out", "study"});
  done({"compare", "e.toml", "--methods", "fedavg,fednova", "--out", "study"});
  for (const char* file : {"table.txt", "report.html"}) {
    const std::string text = read_text(temp_ / "study" / file);
    EXPECT_TRUE(contains(text, "fednova")) << file;
    EXPECT_FALSE(contains(text, "fedprox")) << file;
  }
  fs::resize_file(temp_ / "study/fedavg-s1/metrics.jsonl", 0);
  refused({"compare", "e.toml", "--methods", "fedavg", "--out", "study"}, {"fedavg-s1/metrics.jsonl", "damaged"});
}

TEST_F(Safekeeping, RunAndCompareOfOneFileDoNotMeet) {
  done({"run", "e.toml"});
  const auto run = snapshot(temp_ / "runs/e");
  EXPECT_TRUE(contains(done({"compare", "e.toml", "--methods", "fedavg"}), "report: runs/e-compare/report.html"));
  EXPECT_EQ(touched_since(run, temp_ / "runs/e"), std::vector<std::string>{});
  refused({"compare", "e.toml", "--methods", "fedavg", "--out", "runs/e"}, {"runs/e", "holds a single run"});
  refused({"run", "e.toml", "--out", "runs/e-compare", "--overwrite"}, {"runs/e-compare", "comparison or sweep"});
}

TEST_F(Safekeeping, MethodsCarryListsAndSeedsCountOnce) {
  const std::string said =
      done({"compare", "e.toml", "--methods", "fedavg:model.hidden=[5,3],fedavg:model.hidden=[5]", "--out", "lists"});
  EXPECT_TRUE(contains(said, "fedavg model.hidden=[5,3]")) << said;
  EXPECT_TRUE(contains(read_text(temp_ / "lists/fedavg-model.hidden=-5-3--s1/config.toml"), "hidden = [5, 3]"));
  refused({"compare", "e.toml", "--methods", "fedavg", "--seeds", "1,1,2", "--out", "new"}, {"--seeds", "1", "twice"});
  std::string lists = "[sweep]\n";
  for (const char* key : {"client.lr", "server.participation", "client.lr_decay"}) {
    lists += std::string(key) + " = [0.01";
    for (int i = 1; i < 100; ++i) lists += ", 0." + std::to_string(1000 + i);
    lists += "]\n";
  }
  write_text(temp_ / "s.toml", std::string(kExperiment) + lists);
  refused({"sweep", "s.toml", "--out", "new"}, {"s.toml", "a sweep of 1000000 runs", "100 of client.lr", "shorten"});
}

// A process that is gone cannot say so itself: its lock on the folder is what tells.
TEST_F(Safekeeping, AStoppedRunIsInterruptedAndAdviceFitsTheCommand) {
  for (const std::string command : {"run", "compare"}) {
    std::vector<std::string> words{parley_binary(),  command, "e.toml",           "--out",
                                   command + "-out", "--set", "run.rounds=100000"};
    if (command == "compare") words.insert(words.end(), {"--methods", "fedavg"});
    Process process(words, temp_.path());
    const fs::path folder = temp_ / (command + "-out") / (command == "compare" ? "fedavg-s1" : "");
    while (process.running() && count_lines(folder / "metrics.jsonl") < 2) {
    }
    process.kill(SIGINT);
    const Outcome outcome = process.wait();
    EXPECT_EQ(outcome.exit_code, 130);
    EXPECT_TRUE(contains(outcome.err, command == "run" ? "continue with --resume" : "run the same command again"))
        << outcome.err;
    done({"report", folder.string(), "-o", "page.html"});
    EXPECT_TRUE(contains(read_text(temp_ / "page.html"), "interrupted, "));
  }
}

TEST_F(Safekeeping, AnOptionThatDoesNothingIsRefusedLeftOutOrNamed) {
  refused(
      {"run", "e.toml", "--set", "method.name=fola", "--set", "method.curvature=input", "--set", "method.gamma=0.1"},
      {"method.gamma", "does nothing with curvature = \"input\"", "only with curvature = \"diag\""});
  refused({"run", "e.toml", "--set", "method.name=fola", "--set", "method.ridge=0.2"}, {"method.ridge", "\"diag\""});
  EXPECT_TRUE(contains(done({"describe", "fola"}), "only with curvature = \"input\" or \"kfac\""));
  done({"run", "e.toml", "--set", "method.name=fola", "--set", "method.curvature=input", "--out", "input"});
  const std::string config = read_text(temp_ / "input/config.toml");
  EXPECT_TRUE(contains(config, "ridge = 0.1"));
  for (const char* key : {"gamma", "fisher", "aggregation", "compress", "zero_precision", "epsilon", "gradient"}) {
    EXPECT_FALSE(contains(config, std::string("\n") + key + " = ")) << key;
  }
  // One file serves several methods: what only some of them use is left out for the others.
  write_text(temp_ / "e.toml", std::string(kExperiment) + "[method.fola]\ngamma = 0.1\n[peer]\nvisits = 3\n");
  done({"compare", "e.toml", "--methods", "fola,fola:curvature=input", "--out", "study"});
  EXPECT_TRUE(contains(read_text(temp_ / "study/fola-s1/config.toml"), "gamma = 0.1"));
  refused({"compare", "e.toml", "--methods", "fola:curvature=input:gamma=0.2", "--out", "new"}, {"method.gamma"});
  EXPECT_TRUE(contains(done({"run", "e.toml", "--out", "server"}), "note: [peer] does nothing with scaffold"));
  EXPECT_FALSE(contains(read_text(temp_ / "server/config.toml"), "[peer]"));
}

}  // namespace
}  // namespace parley::tests
