// Bad input, end to end: one clear line, the right exit code, and nothing touched.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <ostream>

#include "program.h"

namespace parley::tests {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSynthetic = "name = \"synthetic\"\nrows = 120\nfeatures = 6\nclasses = 3\ntest_rows = 30\n";

std::string experiment(const std::string& data = kSynthetic) {
  return "[run]\nrounds = 2\n[data]\n" + data + "[partition]\nclients = 4\n[client]\nbatch = 8\nlr = 0.1\n";
}

std::string big_endian(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 0xff);
  return bytes;
}

std::string idx(std::uint32_t magic, const std::vector<std::uint32_t>& extents, const std::string& values) {
  std::string bytes = big_endian(magic);
  for (const auto extent : extents) bytes += big_endian(extent);
  return bytes + values;
}

// Four sound idx files of six 2 × 2 images; each case spoils one of them.
constexpr const char* kIdx = "name = \"idx\"\npath = \"digits\"\nclasses = 3\n";
void write_digits(const fs::path& folder) {
  const std::string images = idx(0x803, {6, 2, 2}, std::string(24, '\x40'));
  const std::string labels = idx(0x801, {6}, std::string("\0\1\2\0\1\2", 6));
  for (const char* part : {"train", "t10k"}) {
    write_text(folder / "digits" / (std::string(part) + "-images-idx3-ubyte"), images);
    write_text(folder / "digits" / (std::string(part) + "-labels-idx1-ubyte"), labels);
  }
}

constexpr const char* kCsv = "name = \"csv\"\npath = \"d.csv\"\n";

// A folder with an experiment and an earlier result. The command may overwrite that result, so whatever is left of it
// after a refusal is left by care.
class Refused : public testing::Test {
 protected:
  Refused() {
    write_text(temp_ / "e.toml", experiment());
    for (const char* name : {"run.json", "config.toml", "metrics.jsonl", "model.safetensors", "checkpoint/kept"}) {
      write_text(temp_ / "earlier" / name, "{}\n");
    }
  }

  // Exactly one line on stderr, for people: who speaks, and everything in `says`.
  static void expect_one_line(const Outcome& outcome, int code, const std::vector<std::string>& says) {
    EXPECT_EQ(outcome.exit_code, code) << outcome.err;
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
    EXPECT_TRUE(outcome.err.starts_with("parley: ")) << outcome.err;
    EXPECT_TRUE(outcome.err.ends_with("\n")) << outcome.err;
    EXPECT_EQ(outcome.err.find("please report"), std::string::npos) << outcome.err;
    for (const auto& part : says) EXPECT_NE(outcome.err.find(part), std::string::npos) << part << " in " << outcome.err;
  }

  // Refused as the user's mistake, with nothing in the folder made, changed or removed.
  void expect_refused(const std::vector<std::string>& arguments, const std::vector<std::string>& says) const {
    const auto before = snapshot(temp_.path());
    expect_one_line(parley(temp_.path(), arguments), 2, says);
    EXPECT_EQ(touched_since(before, temp_.path()), std::vector<std::string>{});
  }

  const TempFolder temp_;
};

struct Case {
  std::string name;
  std::string file;               // the experiment; empty: the usual one
  std::vector<std::string> sets;  // --set …
  std::vector<std::string> says;  // what the line must name
  std::function<void(const fs::path&)> prepare = {};
};

// Otherwise GoogleTest names the test by the bytes of the case.
void PrintTo(const Case& one, std::ostream* out) {
  *out << one.name;
}

class RefusedRun : public Refused, public testing::WithParamInterface<Case> {};

TEST_P(RefusedRun, WithOneLineAndNothingTouched) {
  const Case& one = GetParam();
  if (!one.file.empty()) write_text(temp_ / "e.toml", one.file);
  if (one.prepare) one.prepare(temp_.path());
  std::vector<std::string> arguments{"run", "e.toml", "--out", "earlier", "--overwrite"};
  for (const auto& set : one.sets) arguments.insert(arguments.end(), {"--set", set});
  expect_refused(arguments, one.says);
}

std::vector<Case> config_cases() {
  return {
      {"NotToml", "[run\nrounds = 2\n", {}, {"e.toml:1: not valid TOML"}},
      {"KeyOutsideASection", "rounds = 2\n", {}, {"e.toml:1: ", "'rounds'", "[run]"}},
      {"UnknownKey", experiment() + "momentun = 0.9\n", {}, {"e.toml:14: unknown key 'client.momentun'"}},
      {"UnknownKeyHasANeighbour", "", {"client.lrr=0.1"}, {"'client.lrr'", "did you mean 'client.lr'?"}},
      {"UnknownSection", "", {"clients.lr=0.1"}, {"section 'clients'", "did you mean 'client'?"}},
      {"UnknownMethod", "", {"method.name=fedavgg"}, {"method.name", "'fedavgg'", "did you mean 'fedavg'?"}},
      {"UnknownModel", "", {"model.name=mpl"}, {"model.name", "did you mean 'mlp'?"}},
      {"UnknownPartition", "", {"partition.kind=dirichlt"}, {"partition.kind", "did you mean 'dirichlet'?"}},
      {"UnknownDataSet", experiment("name = \"minst\"\n"), {}, {"e.toml:4: data.name", "did you mean 'mnist'?"}},
      {"UnknownOptimizer", "", {"client.optimizer=adma"}, {"client.optimizer", "did you mean 'adam'?"}},
      {"UnknownServerStep", "", {"server.step=yogy"}, {"server.step", "did you mean 'yogi'?"}},
      {"UnknownStage", "", {"stages.use=[\"clipp\"]"}, {"stages.use", "did you mean 'clip'?"}},
      {"UnknownActivation", "", {"model.activation=rellu"}, {"model.activation", "did you mean 'relu'?"}},
      {"ANameOfTwoLines", "", {"method.name=\"fed\\navg\""}, {"method.name", "did you mean 'fedavg'", "known: "}},
      {"TextForANumber", "", {"client.lr=fast"}, {"client.lr", "expected a number", "\"fast\""}},
      {"FractionForAWholeNumber", "", {"client.epochs=1.5"}, {"client.epochs", "a whole number", "1.5"}},
      {"NumberForAText", "", {"method.name=3"}, {"method.name", "expected a text"}},
      {"NumberForAList", "", {"model.hidden=8"}, {"model.hidden", "a list of whole numbers"}},
      {"NumberForAFlag", "", {"client.shuffle=1"}, {"client.shuffle", "true or false"}},
      {"NegativeRate", "", {"client.lr=-1"}, {"client.lr", "> 0", "-1"}},
      {"RateNotANumber", "", {"client.lr=nan"}, {"client.lr", "nan"}},
      {"NoRounds", "", {"run.rounds=0"}, {"run.rounds", ">= 1"}},
      {"MoreThanEveryone", "", {"server.participation=1.5"}, {"server.participation", "(0, 1]"}},
      {"NoClients", "", {"partition.clients=-1"}, {"partition.clients", "expected a whole number"}},
      {"NegativePrior", "", {"method.name=fola", "method.lambda=-1"}, {"method.lambda", ">= 0", "-1"}},
      {"NegativeFloor", "", {"method.name=fola", "method.gamma=-0.1"}, {"method.gamma", ">= 0", "-0.1"}},
      {"NothingOfThePrecision", "", {"method.name=fola", "method.compress=0"}, {"method.compress", "(0, 1]"}},
      {"MoreThanThePrecision", "", {"method.name=fola", "method.compress=1.5"}, {"method.compress", "(0, 1]", "1.5"}},
      {"NoRidge", "", {"method.name=fola", "method.curvature=input", "method.ridge=0"}, {"method.ridge", "> 0"}},
      {"NegativeCovariance", "", {"evaluate.posterior_scale=-1"}, {"evaluate.posterior_scale", ">= 0"}},
      {"PosteriorOfNone", "", {"evaluate.posterior_samples=2"}, {"evaluate.posterior_samples", "fedavg", "fola"}},
      {"NotAnAssignment", "", {"nonsense"}, {"--set nonsense", "section.key=value"}},
      {"EmptyUnknownSection", experiment() + "[clinet]\n", {}, {"e.toml:14: ", "'clinet'", "did you mean 'client'?"}},
      {"ANameFromElsewhere", "", {"method.name=fedadam"}, {"'fedadam'", "server.step = \"adam\""}},
      {"ARobustRule", "", {"method.name=krum"}, {"'krum'", "Weighting::each"}},
      {"AKeyFromElsewhere", "", {"client.learning_rate=0.1"}, {"'learning_rate'", "client.lr"}},
      {"AnotherKeyFromElsewhere", "", {"run.epochs_per_round=2"}, {"'epochs_per_round'", "client.epochs"}},
      {"ASectionFromElsewhere", experiment() + "[strategy]\n", {}, {"e.toml:14: ", "'strategy'", "method.name"}},
  };
}

// Numbers and texts that are larger, longer or deeper than anybody means.
std::vector<Case> monstrous_cases() {
  std::string key = "a";
  for (int i = 0; i < 50'000; ++i) key += ".a";
  const auto partition = [](const fs::path& at) { write_text(at / "p.json", std::string(100'000, '[')); };
  return {
      {"AKeyOfManyParts", experiment() + key + " = 1\n", {}, {"e.toml:14: a key of more than 16 parts"}},
      {"ASectionOfManyParts", experiment() + "[" + key + "]\n", {}, {"e.toml:14: a key of more than 16 parts"}},
      {"AnAssignmentOfManyParts", "", {key + "=1"}, {"--set a.a.a", "more than 16 parts"}},
      {"ADeepList", "", {"model.hidden=" + std::string(1000, '[')}, {"more than 64 deep"}},
      {"ADeepPartition", "", {"partition.kind=file", "partition.path=p.json"}, {"p.json", "64 deep"}, partition},
      {"AWidthBeyondCounting",
       "",
       {"model.hidden=[9223372036854775807]"},
       {"[model]", "model.hidden = [9223372036854775807]"}},
      {"AWidthBeyondMemory", "", {"model.hidden=[2000000000, 2000000000]"}, {"[model]", "memory", "model.hidden = "}},
      {"RowsBeyondCounting", "", {"data.rows=9223372036854775807"}, {"data.rows", "in [1, 1000000000]"}},
      {"RowsBeyondMemory",
       "",
       {"data.rows=1000000000", "data.features=1000000000"},
       {"[data]", "data.rows = 1000000000"}},
      {"MoreThanTheCohort", "", {"server.min_clients=50"}, {"server.min_clients = 50", "4 of 4 clients", "at most 4"}},
  };
}

std::vector<Case> contradiction_cases() {
  const auto regression = [](const fs::path& at) { write_text(at / "d.csv", "a,b\n1,2\n3,4\n5,6\n7,8\n9,9\n"); };
  const std::string csv = experiment(std::string(kCsv) + "targets = [\"b\"]\n");
  std::vector<Case> cases{
      {"ScaffoldWithAdam", "", {"method.name=scaffold", "client.optimizer=adam"}, {"client.optimizer", "scaffold"}},
      {"FedNovaWithAdam", "", {"method.name=fednova", "client.optimizer=adam"}, {"client.optimizer", "fednova"}},
      {"CrossEntropyOfNumbers", csv, {"model.loss=cross_entropy"}, {"model.loss", "no classes", "mse"}, regression},
      {"ClassPartitionOfNumbers", csv, {"partition.kind=shards"}, {"partition.kind", "needs class labels"}, regression},
      {"ByUserWithoutUsers", "", {"partition.kind=by_user"}, {"partition.kind", "by_user", "user_column"}},
      {"ShapeThatDoesNotFit", "", {"data.shape=[1, 2, 2]"}, {"data.shape", "6"}},
      {"LearnsFromNothing", "", {"method.name=rnn_aggregator"}, {"server.examples = 0", "rnn_aggregator", "200"}},
      {"AllForTheServer", "", {"server.examples=120"}, {"server.examples = 120", "120 examples", "fewer"}},
      {"FilePartitionWithoutAFile", "", {"partition.kind=file"}, {"partition.path", "JSON"}},
  };
#ifdef PARLEY_TORCH
  cases.push_back({"MatchedRecurrentLayers",
                   "",
                   {"model.name=bilstm", "method.name=fedma"},
                   {"model.name", "fedma", "recurrent", "lenet"}});
  cases.push_back({"CnnOnFlatFeatures", "", {"model.name=cnn_mnist"}, {"model.name", "cnn_mnist", "mlp"}});
  cases.push_back({"ResNetWithoutLibTorch",
                   "",
                   {"model.name=resnet18", "model.backend=native"},
                   {"model.backend", "'native'", "auto, torch"}});
#endif
  return cases;
}

std::vector<Case> data_cases() {
  const auto spoiled = [](const char* file, const std::string& bytes) {
    return [=](const fs::path& at) {
      write_digits(at);
      write_text(at / "digits" / file, bytes);
    };
  };
  const auto missing = [](const fs::path& at) {
    write_digits(at);
    fs::remove(at / "digits" / "t10k-labels-idx1-ubyte");
  };
  const auto csv = [](const char* text) { return [=](const fs::path& at) { write_text(at / "d.csv", text); }; };
  const auto prices = [](const fs::path& at) {
    std::string text = "a,label\n";
    for (int i = 0; i < 30; ++i) text += "1," + std::to_string(i) + ".5\n";
    write_text(at / "d.csv", text);
  };
  // The header of six images, and then more zeros than were ever declared.
  const auto bomb = [](const fs::path& at) {
    write_digits(at);
    write_text(at / "plain", idx(0x803, {6, 2, 2}, std::string(100 << 20, '\0')));
    run_command(
        {"sh", "-c", "gzip -c plain > digits/train-images-idx3-ubyte.gz; rm plain digits/train-images-idx3-ubyte"}, at);
  };
  const char* images = "train-images-idx3-ubyte";
  const char* labels = "train-labels-idx1-ubyte";
  return {
      {"NoSuchFolder", experiment(kIdx), {}, {"data.path", "'digits'", "data.root"}},
      {"MissingFile", experiment(kIdx), {}, {"t10k-labels-idx1-ubyte", "data.test_labels"}, missing},
      {"WrongMagic", experiment(kIdx), {}, {images, "magic", "0x0d0a0d0a"}, spoiled(images, "\r\n\r\n rest")},
      {"TruncatedHeader", experiment(kIdx), {}, {images, "truncated"}, spoiled(images, idx(0x803, {6}, ""))},
      {"TruncatedValues",
       experiment(kIdx),
       {},
       {images, "truncated", "24", "23", "fetch"},
       spoiled(images, idx(0x803, {6, 2, 2}, std::string(23, 'x')))},
      {"LabelOutOfRange",
       experiment(kIdx),
       {},
       {labels, "row 4", "label 3", "0 to 2"},
       spoiled(labels, idx(0x801, {6}, std::string("\0\1\2\0\3\2", 6)))},
      {"FewerLabelsThanImages",
       experiment(kIdx),
       {},
       {labels, "5 labels", "6 images"},
       spoiled(labels, idx(0x801, {5}, std::string("\0\1\2\0\1", 5)))},
      {"CsvMissing", experiment(kCsv), {}, {"data.path", "d.csv", "does not exist"}},
      {"CsvWithoutLabels", experiment(kCsv), {}, {"d.csv:1", "label"}, csv("a,b\n1,2\n")},
      {"CsvBadNumber", experiment(kCsv), {}, {"d.csv:3", "b", "two"}, csv("a,b,label\n1,2,0\n1,two,1\n")},
      {"CsvShortRow", experiment(kCsv), {}, {"d.csv:3"}, csv("a,b,label\n1,2,0\n1,2\n")},
      {"CsvLabelsWithGaps",
       experiment(kCsv),
       {},
       {"'csv'", "50000", "2 of 50001 classes", "data.classes = 50001"},
       csv("a,label\n1,0\n2,50000\n3,0\n4,50000\n5,0\n")},
      {"CsvPriceAsLabel", experiment(kCsv), {}, {"'csv'", " different labels in ", "data.targets"}, prices},
      {"GzipBomb", experiment(kIdx), {}, {images, "more than the 40 bytes", "fetch"}, bomb},
      {"CsvLabelOutOfRange",
       experiment(std::string(kCsv) + "classes = 2\n"),
       {},
       {"d.csv", "label 7", "0 to 1"},
       csv("a,label\n1,0\n2,1\n3,7\n4,1\n5,0\n")},
  };
}

std::vector<Case> file_cases() {
  const auto init = [](const std::string& header, const std::string& data) {
    return [=](const fs::path& at) {
      std::string length(8, '\0');
      length[0] = static_cast<char>(header.size());
      write_text(at / "init.safetensors", length + header + data);
    };
  };
  const auto partition = [](const char* text) { return [=](const fs::path& at) { write_text(at / "p.json", text); }; };
  const std::vector<std::string> from_init{"model.name=logistic", "model.init=init.safetensors"};
  const std::vector<std::string> from_file{"partition.kind=file", "partition.path=p.json"};
  const std::string wrong = R"({"fc1.weight":{"dtype":"F32","shape":[3,5],"data_offsets":[0,60]}})";
  const std::string sound = R"({"fc1.weight":{"dtype":"F32","shape":[3,6],"data_offsets":[0,72]},)"
                            R"("fc1.bias":{"dtype":"F32","shape":[3],"data_offsets":[72,84]}})";
  const std::string nan = std::string(68, '\0') + "\xff\xff\xff\x7f" + std::string(12, '\0');
  const std::string half = R"({"fc1.weight":{"dtype":"F8_E5M2","shape":[3,6],"data_offsets":[0,36]}})";
  return {
      {"InitMissing", "", from_init, {"model.init", "init.safetensors", "No such file"}},
      {"InitOfAnotherShape",
       "",
       from_init,
       {"model.init", "init.safetensors", "[3, 5]", "[3, 6]"},
       init(wrong, std::string(60, '\0'))},
      {"InitOfUnknownNumbers", "", from_init, {"model.init", "fc1.weight", "F32"}, init(half, std::string(36, '\0'))},
      {"InitNotFinite", "", from_init, {"model.init", "fc1.weight", "not finite"}, init(sound, nan)},
      {"InitWithBytesBehind", "", from_init, {"init.safetensors", "4 bytes behind"}, init(sound, nan + "four")},
      {"InitTruncated", "", from_init, {"model.init", "init.safetensors", "damaged"}, init(wrong, "short")},
      {"InitNotSafetensors", "", {"model.init=e.toml"}, {"model.init", "e.toml", "not safetensors"}},
      {"PartitionMissing", "", from_file, {"partition.path", "p.json", "No such file"}},
      {"PartitionNotJson", "", from_file, {"p.json", "not valid JSON"}, partition("{\"0\": [0, 1")},
      {"PartitionRowOutOfRange", "", from_file, {"p.json", "client 1", "120", "0 to 119"}, partition("[[0],[120]]")},
      {"PartitionRowTwice", "", from_file, {"p.json", "row 5", "partition.allow_shared"}, partition("[[5],[4,5]]")},
      {"PartitionOfNobody", "", from_file, {"partition", "no client has any data"}, partition("[[],[]]")},
  };
}

std::string name_of(const testing::TestParamInfo<Case>& test) {
  return test.param.name;
}
INSTANTIATE_TEST_SUITE_P(Config, RefusedRun, testing::ValuesIn(config_cases()), name_of);
INSTANTIATE_TEST_SUITE_P(Monstrous, RefusedRun, testing::ValuesIn(monstrous_cases()), name_of);
INSTANTIATE_TEST_SUITE_P(Contradiction, RefusedRun, testing::ValuesIn(contradiction_cases()), name_of);
INSTANTIATE_TEST_SUITE_P(Data, RefusedRun, testing::ValuesIn(data_cases()), name_of);
INSTANTIATE_TEST_SUITE_P(File, RefusedRun, testing::ValuesIn(file_cases()), name_of);

// A command line and what the refusal must say.
using Line = std::pair<std::vector<std::string>, std::vector<std::string>>;

TEST_F(Refused, CommandLinesOfRun) {
  const std::vector<Line> lines{
      {{}, {"a command is missing", "known: run, compare", "see parley --help"}},
      {{"run", "e.toml", "--rounds", "3"},
       {"unknown option '--rounds'", "did you mean --set run.rounds=…?", "parley run --help"}},
      {{"run", "e.toml", "--thread=2"}, {"unknown option '--thread'", "did you mean --threads?"}},
      {{"run", "e.toml", "--zzz"}, {"unknown option '--zzz'; see parley run --help"}},
      {{"run"}, {"file is required"}},
      {{"run", "nosuch.toml"}, {"nosuch.toml", "does not exist", ".toml"}},
      {{"run", "f.toml"}, {"f.toml", "does not exist", "did you mean 'e.toml'?"}},
      {{"run", "."}, {".: is a folder", ".toml"}},
      {{"run", "e.toml", "--threads", "-1"}, {"--threads", "-1"}},
      {{"run", "e.toml", "--threads", "many"}, {"--threads", "many"}},
      {{"run", "e.toml", "--out", "earlier", "--resume", "--overwrite"}, {"--resume", "--overwrite"}},
      {{"run", "e.toml", "--out", "new", "--profile", "."}, {"--profile .", "is a folder"}},
      {{"run", "e.toml", "--out", "new", "--profile", "e.toml/p.json"}, {"e.toml", "folder cannot be made"}},
  };
  for (const auto& [arguments, says] : lines) expect_refused(arguments, says);
}

TEST_F(Refused, CommandLinesOfStudies) {
  const std::vector<Line> lines{
      {{"compare", "e.toml"}, {"--methods is required"}},
      {{"compare", "e.toml", "--method", "fedavg"}, {"'--method'", "did you mean --methods?"}},
      {{"compare", "e.toml", "--methods", "fedavg fola"}, {"--methods", "'fedavg fola'", "commas"}},
      {{"compare", "e.toml", "--methods", "fedavg,fedprx"}, {"'fedprx'", "did you mean 'fedprox'?"}},
      {{"compare", "e.toml", "--methods", "fedavg,fedavg"}, {"--methods", "'fedavg' is named twice"}},
      {{"compare", "e.toml", "--methods", "fedavg", "--seeds", "-1"}, {"run.seed", "-1"}},
      {{"sweep", "e.toml"}, {"e.toml", "[sweep]"}},
  };
  for (const auto& [arguments, says] : lines) expect_refused(arguments, says);
}

TEST_F(Refused, CommandLinesOfTheRest) {
  const std::vector<Line> lines{
      {{"frobnicate"}, {"unknown command 'frobnicate'", "known: run, compare"}},
      {{"rum"}, {"did you mean 'run'?"}},
      {{"list", "methodes"}, {"'methodes'", "did you mean 'methods'?"}},
      {{"describe", "fedprx"}, {"'fedprx'", "did you mean 'fedprox'?"}},
      {{"data", "show", "nosuch.toml"}, {"nosuch.toml"}},
      {{"data", "get", "mnits"}, {"'mnits'", "did you mean 'mnist'?"}},
      {{"report", "nosuch"}, {"nosuch", "run folder"}},
      {{"bench", "nosuch.toml"}, {"nosuch.toml"}},
  };
  for (const auto& [arguments, says] : lines) expect_refused(arguments, says);
}

TEST_F(Refused, AComparisonOfWhichOneMethodCannotRunTrainsNone) {
  expect_refused(
      {"compare", "e.toml", "--methods", "fedavg,scaffold", "--set", "client.optimizer=adam", "--out", "new"},
      {"client.optimizer", "scaffold"});
}

// Permissions do not bind root, so the folders are such that nobody can make them.
TEST_F(Refused, AnOutputFolderThatCannotBeMade) {
  for (const std::string out : {"e.toml/below", "e.toml", "/proc/nonexistent/run"}) {
    expect_refused({"run", "e.toml", "--out", out}, {out, "cannot be made", "choose another"});
    expect_refused({"compare", "e.toml", "--methods", "fedavg", "--out", out}, {out, "cannot be made"});
  }
}

TEST_F(Refused, AFolderThatHoldsARun) {
  expect_refused({"run", "e.toml", "--out", "earlier"}, {"earlier", "holds a run", "--resume", "--overwrite", "--out"});
}

class RefusedResume : public Refused {
 protected:
  RefusedResume() {
    const Outcome outcome = parley(temp_.path(), {"run", "e.toml", "--out", "done", "--threads", "1"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  }
  void expect_resume_refused(const std::vector<std::string>& sets, const std::vector<std::string>& says) const {
    std::vector<std::string> arguments{"run", "e.toml", "--out", "done", "--resume"};
    for (const auto& set : sets) arguments.insert(arguments.end(), {"--set", set});
    expect_refused(arguments, says);
  }
};

TEST_F(Refused, WhatPeersDoNotHave) {
  expect_refused({"bench", "e.toml", "--set", "method.name=mm"}, {"mm", "with a server"});
  expect_refused({"run", "e.toml", "--set", "method.name=mm", "--set", "client.optimizer=adam", "--set",
                  "client.state=worker", "--out", "new"},
                 {"client.state", "afresh on every visit"});
}

TEST_F(Refused, EvaluateOfWhatIsNoRunOrWouldNeedTraining) {
  expect_refused({"evaluate", "nowhere"}, {"nowhere", "not a run's folder"});
  write_text(temp_ / "study" / "fedavg-s1" / "config.toml", "");
  expect_refused({"evaluate", "study"}, {"study", "several runs", "study/fedavg-s1"});
  fs::remove_all(temp_ / "study");
  expect_refused({"evaluate", "earlier", "--set", "client.lr=1"}, {"client.lr=1", "only keys of [evaluate]"});
}

TEST_F(RefusedResume, OtherSettings) {
  expect_resume_refused({"client.lr=0.2"}, {"done", "other settings", "[client]", "lr = 0.1", "lr = 0.2", "--out"});
  expect_resume_refused({"method.name=fedprox"}, {"done", "other settings"});
}

// The folder's config would claim a run of one round, with the model of two.
TEST_F(RefusedResume, FewerRoundsThanAreDone) {
  expect_resume_refused({"run.rounds=1"}, {"done", "run.rounds = 1", "2"});
}

TEST_F(RefusedResume, ADamagedCheckpoint) {
  const fs::path checkpoint = temp_ / "done" / "checkpoint";
  const std::string state = read_text(checkpoint / "state.2.safetensors");
  const std::string record = read_text(checkpoint / "checkpoint.json");
  write_text(checkpoint / "state.2.safetensors", state.substr(0, state.size() / 2));
  expect_resume_refused({}, {"state.2.safetensors", "damaged"});
  std::string flipped = state;
  flipped[flipped.size() - 3] ^= 1;
  write_text(checkpoint / "state.2.safetensors", flipped);
  expect_resume_refused({}, {"state.2.safetensors", "checksum"});
  fs::remove(checkpoint / "state.2.safetensors");
  expect_resume_refused({}, {"state.2.safetensors", "missing"});
  write_text(checkpoint / "state.2.safetensors", state);
  write_text(checkpoint / "checkpoint.json", record.substr(0, record.size() / 2));
  expect_resume_refused({}, {"checkpoint.json", "damaged"});
  write_text(checkpoint / "checkpoint.json", record);
  EXPECT_EQ(parley(temp_.path(), {"run", "e.toml", "--out", "done", "--resume"}).exit_code, 0);
}

using FailedRun = Refused;

TEST_F(FailedRun, SaysWhoDivergedAndWhen) {
  const auto before = snapshot(temp_ / "earlier");
  const Outcome outcome = parley(temp_.path(), {"run", "e.toml", "--out", "new", "--set", "client.lr=1e30"});
  expect_one_line(outcome, 1, {"round 1", "of 4 clients", "server.min_clients", "client 0: diverged"});
  EXPECT_EQ(touched_since(before, temp_ / "earlier"), std::vector<std::string>{});
  EXPECT_NE(read_text(temp_ / "new" / "run.json").find("\"state\": \"failed\""), std::string::npos);
}

// A wide model on a disk that has room for the first rounds' small files only.
const std::vector<std::string> kWide{"--set", "model.hidden=[2000]", "--threads", "1"};

std::vector<std::string> joined(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST_F(FailedRun, AFileThatMayNotGrow) {
  const auto before = snapshot(temp_ / "earlier");
  const auto command =
      joined({"sh", "-c", "ulimit -f 16; exec \"$@\"", "sh", parley_binary(), "run", "e.toml", "--out", "new"}, kWide);
  expect_one_line(run_command(command, temp_.path()), 1,
                  {"new/checkpoint/state.1.safetensors", "cannot be written", "ulimit -f", "--resume"});
  EXPECT_EQ(touched_since(before, temp_ / "earlier"), std::vector<std::string>{});
}

// In a mount namespace of its own, so that the small disk is gone with the process.
TEST_F(FailedRun, AFullDiskStopsTheRunAndTheNextResumesIt) {
  const std::string mount = "mkdir -p disk && mount -t tmpfs -o size=100k none disk";
  if (run_command({"unshare", "-m", "sh", "-c", mount}, temp_.path()).exit_code != 0) {
    GTEST_SKIP() << "only root can mount a small disk";
  }
  const auto before = snapshot(temp_ / "earlier");
  const std::string script = mount + " && { \"$@\"; code=$?; cp -r disk/new kept; exit $code; }";
  const auto run = joined({parley_binary(), "run", "e.toml", "--out"}, {});
  auto command = joined({"unshare", "-m", "sh", "-c", script, "sh"}, joined(run, {"disk/new"}));
  expect_one_line(run_command(joined(command, kWide), temp_.path()), 1,
                  {"disk/new", "No space left on device", "free some space", "--resume"});
  EXPECT_EQ(touched_since(before, temp_ / "earlier"), std::vector<std::string>{});
  EXPECT_EQ(run_command(joined(joined(run, {"kept", "--resume"}), kWide), temp_.path()).exit_code, 0);
  EXPECT_EQ(run_command(joined(joined(run, {"straight"}), kWide), temp_.path()).exit_code, 0);
  EXPECT_EQ(read_text(temp_ / "kept" / "model.safetensors"), read_text(temp_ / "straight" / "model.safetensors"));
}

}  // namespace
}  // namespace parley::tests
