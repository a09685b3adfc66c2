#include "parley/report/report.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "parley/base/errors.h"
#include "parley/report/groups.h"

namespace parley {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

class ReportTest : public ::testing::Test {
 protected:
  ReportTest() : root_(fs::temp_directory_path() / fmt::format("parley-report-{}", ::getpid())) {
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  ~ReportTest() override { fs::remove_all(root_); }

  fs::path write(const std::string& name, const std::string& text) {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text;
    return root_ / name;
  }

  // A finished run of two rounds that ends at `accuracy`.
  void write_run(const std::string& name, const std::string& label, int seed, double accuracy,
                 const std::string& lr = "0.1", const std::string& state = "done") {
    write(name + "/run.json", Json{{"label", label}, {"method", label}, {"seed", seed}, {"state", state}}.dump());
    write(name + "/config.toml", fmt::format("[run]\nseed = {}\n[client]\nlr = {}\n", seed, lr));
    write(name + "/metrics.jsonl", fmt::format("{{\"round\":1,\"test_accuracy\":0.1,\"bytes_up\":1000000}}\n"
                                               "{{\"round\":2,\"test_accuracy\":{},\"bytes_up\":1000000}}\n",
                                               accuracy));
  }

  ReportData read(const std::string& name = "") { return read_runs(std::vector<fs::path>{root_ / name}); }

  std::string refusal(const std::string& name = "") {
    try {
      read(name);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  }

  fs::path root_;
};

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t result = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++result;
  return result;
}

TEST_F(ReportTest, SaysWhichClientsGainFromAModelOfTheirOwn) {
  write_run("fedavg", "fedavg", 1, 0.9);
  EXPECT_EQ(render_report(read()).find("Per-client results"), std::string::npos);
  write("fedavg/clients.json",
        R"([{"client":0,"s_accuracy":0.5,"mt_accuracy":0.75},{"client":3,"s_accuracy":0.9,"mt_accuracy":0.8},
            {"client":4,"s_accuracy":0.5,"mt_accuracy":0.5},{"client":5,"s_accuracy":0.5,"mt_accuracy":0.6}])");
  const std::string page = render_report(read());
  EXPECT_NE(page.find("Per-client results"), std::string::npos);
  EXPECT_NE(page.find("<td>50 %</td><td>25 %</td><td>-10.0</td>"), std::string::npos) << "half gain, a quarter lose";
  write("fedavg/clients.json", R"([{"client":0,"s_loss":0.5,"mt_loss":0.25},{"client":3,"s_loss":0.5,"mt_loss":1.5}])");
  const std::string losses = render_report(read());
  EXPECT_NE(losses.find("S less MT, in loss"), std::string::npos);
  EXPECT_NE(losses.find("<td>50 %</td><td>50 %</td><td>-1</td>"), std::string::npos);
  write("fedavg/clients.json", "{}");
  EXPECT_NE(refusal().find("clients.json: not a JSON list"), std::string::npos);
}

TEST_F(ReportTest, ShowsWhatIsTakenForWhatAndHowFarConfidenceHolds) {
  write_run("a", "a", 1, 0.9);
  EXPECT_EQ(render_report(read()).find("Classes and confidence"), std::string::npos);
  write("a/metrics.jsonl",
        R"({"round":1,"test_accuracy":0.6,"confusion":[[3,1],[6,0]],"reliability":[[0,0,0],[4,3,2]]})"
        "\n");
  write("a/run.json", R"({"label":"a","state":"done","class_names":["cat","<dog>"]})");
  const std::string page = render_report(read());
  EXPECT_NE(page.find("title=\"3 of 4\">75</td>"), std::string::npos);
  EXPECT_NE(page.find("class=\"wrong\" style=\"--v:1.000\" title=\"6 of 6\">100</td>"), std::string::npos);
  EXPECT_NE(page.find("&lt;dog&gt;"), std::string::npos);
  EXPECT_NE(page.find("4 examples: confidence 75.0 %, right 50.0 %"), std::string::npos);
  write("a/metrics.jsonl", R"({"round":1,"test_accuracy":0.6,"confusion":[[3,1],[6]],"reliability":[["?",0,0]]})"
                           "\n");
  EXPECT_EQ(render_report(read()).find("Classes and confidence"), std::string::npos) << "left out, not misread";
}

TEST_F(ReportTest, CallsLevelWhatSeedsDoNotTellApart) {
  for (const auto& [seed, a, b] : {std::tuple{1, 0.70, 0.72}, {2, 0.68, 0.62}}) {
    write_run(fmt::format("a{}", seed), "a", seed, a);
    write_run(fmt::format("b{}", seed), "b", seed, b);
  }
  EXPECT_NE(render_report(read()).find("a and b are level after 2 rounds"), std::string::npos);
  write_run("b1", "b", 1, 0.41);
  write_run("b2", "b", 2, 0.40);
  EXPECT_NE(render_report(read()).find("a ends highest, with a test accuracy of 69.00 %"), std::string::npos);
}

TEST_F(ReportTest, FewSeedsMustLieFurtherApart) {
  // 70 and 66, each seed one point off: 2.8 standard errors, and two seeds each allow 4.3 by chance (Student's t with 2
  // degrees of freedom). Six seeds each make that 6.3 standard errors, of 2.2 allowed.
  for (int seed = 1; seed <= 2; ++seed) {
    write_run(fmt::format("a{}", seed), "a", seed, seed % 2 == 1 ? 0.69 : 0.71);
    write_run(fmt::format("b{}", seed), "b", seed, seed % 2 == 1 ? 0.65 : 0.67);
  }
  const std::string few = render_report(read());
  EXPECT_NE(few.find("a and b are level after 2 rounds"), std::string::npos);
  EXPECT_EQ(count(few, "<td class=\"best\">70.00") + count(few, "<td class=\"best\">66.00"), 4u)
      << "final and best accuracy, of both";
  for (int seed = 3; seed <= 6; ++seed) {
    write_run(fmt::format("a{}", seed), "a", seed, seed % 2 == 1 ? 0.69 : 0.71);
    write_run(fmt::format("b{}", seed), "b", seed, seed % 2 == 1 ? 0.65 : 0.67);
  }
  const std::string many = render_report(read());
  EXPECT_NE(many.find("a ends highest"), std::string::npos);
  EXPECT_EQ(count(many, "<td class=\"best\">66.00"), 0u);
}

TEST_F(ReportTest, NamesAllThatAreLevelAndCountsTheRest) {
  for (const char* label : {"a", "b", "c", "d", "e"}) {
    write_run(fmt::format("{}1", label), label, 1, 0.68);
    write_run(fmt::format("{}2", label), label, 2, 0.72);
  }
  EXPECT_NE(render_report(read()).find("a, b, c and 2 others are level"), std::string::npos);
}

TEST_F(ReportTest, ManyFoldersAreNamedByTheOneTheyAreIn) {
  std::vector<fs::path> folders;
  for (const char* name : {"a", "b", "c", "d"}) {
    write_run(name, name, 1, 0.9);
    folders.push_back(root_ / name);
  }
  EXPECT_EQ(read_runs(std::span(folders).first(2)).name, "a, b");
  EXPECT_EQ(read_runs(folders).name, root_.filename().string());
  write_run("elsewhere/e", "e", 1, 0.9);
  folders.push_back(root_ / "elsewhere" / "e");
  EXPECT_EQ(read_runs(folders).name, "5 folders");
}

TEST_F(ReportTest, EveryColumnSaysWhatItsNumbersMean) {
  write_run("a", "a", 1, 0.9);
  const std::string page = render_report(read());
  for (const char* head : {"Final accuracy, %", "Best accuracy, %", "MB up", "Rounds", "Runs"}) {
    EXPECT_NE(page.find(fmt::format("\">{}</th>", head)), std::string::npos) << head;
    EXPECT_EQ(page.find(fmt::format("<th scope=\"col\">{}</th>", head)), std::string::npos) << head;
  }
}

TEST_F(ReportTest, DrawsWhereTravellingModelsWent) {
  write_run("fedavg", "fedavg", 1, 0.9);
  EXPECT_EQ(render_report(read()).find("Lineage"), std::string::npos);
  write_run("mm", "mm <4>", 1, 0.9);
  write("mm/metrics.jsonl",
        R"({"round":1,"visits":[{"model":0,"node":7,"start":0.0,"end":1.5,"before":0.25,"after":0.75},)"
        R"({"model":1,"node":3,"end":2.0,"fate":"lost"},{"model":"?"}]})"
        "\n");
  const std::string page = render_report(read());
  EXPECT_NE(page.find("mm &lt;4&gt; <span class=\"mono\">mm</span>"), std::string::npos);
  EXPECT_NE(page.find("model 0 at node 7, 1.50 s: +50.0 points"), std::string::npos);
  EXPECT_NE(page.find("model 0</span></span></th><td>1</td><td>1</td><td>0</td><td>+50.00</td>"), std::string::npos);
  EXPECT_NE(page.find("model 1</span></span></th><td>0</td><td>0</td><td>1</td><td>–</td>"), std::string::npos);
  EXPECT_NE(page.find("stroke=\"var(--s1)\"/></svg>model 1</span>"), std::string::npos) << "the key to the colours";
  EXPECT_NE(page.find("<div class=\"beside\"><span>node 7</span><span>3</span><span>0</span></div>"), std::string::npos)
      << "labels outside of the drawing do not shrink with it";
  EXPECT_NE(page.find("<span>1.5 s</span><span>simulated time</span><span>2.0 s</span>"), std::string::npos);
}

// The JSON that the page's script reads.
Json drawn(const std::string& page) {
  const std::string open = "id=\"data\">";
  const auto begin = page.find(open) + open.size();
  return Json::parse(page.substr(begin, page.find("</script>", begin) - begin));
}

TEST_F(ReportTest, TakesARunFolderOrAFolderOfRunFoldersSortedAndOnce) {
  write_run("b", "fedprox", 1, 0.8);
  write_run("a", "fedavg", 1, 0.7);
  write("notes/readme.txt", "not a run");
  EXPECT_EQ(read("a").runs.size(), 1u);
  const auto both = read_runs(std::vector<fs::path>{root_, root_ / "a"});
  ASSERT_EQ(both.runs.size(), 2u);
  EXPECT_EQ(both.runs[0].name, "a");
  EXPECT_EQ(both.runs[1].label, "fedprox");
  EXPECT_EQ(read("a/").name, "a");
}

TEST_F(ReportTest, ReadsEveryNumberAndLeavesOutWhatWasNotMeasured) {
  write("a/run.json", R"({"state":"done"})");
  write("a/metrics.jsonl", R"({"round":3,"test_loss":null,"kl":0.5,"note":"x","refused":["client 4"]})"
                           "\n");
  const auto run = read("a").runs[0];
  ASSERT_EQ(run.rounds.size(), 1u);
  EXPECT_EQ(run.rounds[0].round, 3);
  EXPECT_EQ(run.rounds[0].values, (std::map<std::string, double>{{"kl", 0.5}}));
  EXPECT_EQ(run.rounds[0].refused, std::vector<std::string>{"client 4"});
  EXPECT_EQ(run.label, "a");
}

TEST_F(ReportTest, ARunWithoutRunFileIsUnfinishedAndItsTornLastLineIsLeftOut) {
  write("a/metrics.jsonl", "{\"round\":1,\"test_accuracy\":0.5}\n{\"round\":2,\"test_");
  const auto run = read("a").runs[0];
  EXPECT_EQ(run.state, "unfinished");
  EXPECT_EQ(run.rounds.size(), 1u);
}

TEST_F(ReportTest, RefusalsNameFileLineAndRemedy) {
  EXPECT_NE(refusal("nowhere").find("no such folder; give a run folder"), std::string::npos);
  EXPECT_NE(refusal().find("no runs in it"), std::string::npos);

  write("a/run.json", R"({"state":"done"})");
  write("a/metrics.jsonl", "{\"round\":1}\nbroken\n{\"round\":3}\n");
  EXPECT_NE(refusal("a").find("a/metrics.jsonl:2: not a JSON object; remove the line"), std::string::npos);
  write("a/metrics.jsonl", "{\"test_loss\":1}\n");
  EXPECT_NE(refusal("a").find("metrics.jsonl:1: no whole number 'round'"), std::string::npos);
  write("a/metrics.jsonl", "{\"round\":2}\n{\"round\":2}\n");
  EXPECT_NE(refusal("a").find("metrics.jsonl:2: round 2 after round 2"), std::string::npos);
  write("a/metrics.jsonl", "{\"round\":1}\n{\"rou");  // torn, although the run says it is done
  EXPECT_NE(refusal("a").find("metrics.jsonl:2:"), std::string::npos);
  write("a/metrics.jsonl", "");
  write("a/run.json", "[1]");
  EXPECT_NE(refusal("a").find("run.json: not a JSON object"), std::string::npos);
  write("a/run.json", R"({"seed":"one"})");
  EXPECT_NE(refusal("a").find("run.json: 'seed' is not of the expected type"), std::string::npos);
  for (const char* name : {"nowhere", "", "a"}) EXPECT_EQ(refusal(name).find('\n'), std::string::npos);
  EXPECT_THROW(read_runs({}), InputError);
}

TEST(ReportSpread, IsTheMeanAndTheSampleDeviation) {
  const Spread three = spread({1.0, 2.0, 3.0});
  EXPECT_DOUBLE_EQ(three.mean, 2.0);
  EXPECT_DOUBLE_EQ(three.deviation, 1.0);
  EXPECT_EQ(spread({5.0}).deviation, 0.0);
}

TEST_F(ReportTest, SeedsAreOneRowOtherDifferencesAreRowsOfTheirOwn) {
  write_run("a1", "fedavg", 1, 0.6);
  write_run("a2", "fedavg", 2, 0.8);
  write_run("b1", "fedprox", 1, 0.9, "0.1");
  write_run("b2", "fedprox", 1, 0.5, "0.01");
  const auto data = read();
  const auto groups = group_runs(data);
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(groups[0].label, "fedprox · client.lr = 0.1");
  EXPECT_EQ(groups[1].label, "fedavg");
  EXPECT_NEAR(groups[1].last("test_accuracy")->mean, 0.7, 1e-12);
  EXPECT_NEAR(groups[1].last("test_accuracy")->deviation, 0.1414, 1e-4);
  EXPECT_EQ(groups[1].total("bytes_up")->mean, 2e6);
  EXPECT_EQ(groups[2].label, "fedprox · client.lr = 0.01");
}

TEST_F(ReportTest, UnfinishedRunsNeitherEnterTheMeanNorWin) {
  write_run("a1", "fedavg", 1, 0.6);
  write_run("a2", "fedavg", 2, 0.2, "0.1", "running");
  write_run("b1", "fedprox", 1, 0.9, "0.1", "running");
  const auto data = read();
  const auto groups = group_runs(data);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].label, "fedavg");
  EXPECT_EQ(groups[0].last("test_accuracy")->count, 1u);
  const auto page = render_report(data);
  EXPECT_NE(page.find("<td class=\"best\">60.00</td>"), std::string::npos);
  EXPECT_NE(page.find("1 of 2 done"), std::string::npos);
  EXPECT_NE(page.find("2 runs are not finished."), std::string::npos);
}

TEST_F(ReportTest, NothingInARunCanBreakOutOfThePage) {
  const std::string evil = "</script><script>alert(1)</script><!--\"'&{{data}}";
  write("a/run.json", Json{{"label", evil},
                           {"data", evil},
                           {"version", evil},
                           {"state", evil},
                           {"cpu", evil},
                           {"class_names", {evil}},
                           {"label_histogram", {{1, 2}, {3, 4}}},
                           {"machine", {{"cpu", evil}}},
                           {"partition", evil},
                           {"model", evil}}
                          .dump());
  write("a/config.toml", "[x]\n" + evil + " = \"" + evil + "\"\n");
  write("a/metrics.jsonl", Json{{"round", 1}, {evil, 1.5}, {"refused", {evil}}}.dump() + "\n");
  const auto page = render_report(read("a"));
  EXPECT_EQ(page.find("<script>alert"), std::string::npos);
  EXPECT_EQ(page.find("<!--"), std::string::npos);
  EXPECT_EQ(count(page, "</script>"), 2u);  // the data's and the program's own
  const Json json = drawn(page);
  EXPECT_EQ(json["groups"][0], evil);
  EXPECT_EQ(json["runs"][0]["metrics"][evil][0], 1.5);
  EXPECT_EQ(json["splits"][0]["classes"][0], evil);
}

TEST_F(ReportTest, BytesThatAreNotUtf8DoNotStopThePage) {
  write("a\xff/metrics.jsonl", "{\"round\":1,\"test_loss\":1e400}\n{\"round\":2,\"test_loss\":2}\n");
  const auto refused = refusal("a\xff");  // 1e400 is no number that JSON readers agree on
  EXPECT_NE(refused.find("metrics.jsonl:1:"), std::string::npos);
  write("a\xff/metrics.jsonl", "{\"round\":1,\"test_loss\":2}\n");
  EXPECT_EQ(drawn(render_report(read("a\xff")))["runs"].size(), 1u);
}

TEST_F(ReportTest, ThePageStandsAloneAndTheTableNeedsNoScript) {
  write_run("a1", "fedavg", 1, 0.6);
  write_run("a2", "fedavg", 2, 0.8);
  write_run("b1", "fedprox", 1, 0.75);
  const auto page = render_report(read());
  EXPECT_EQ(count(page, "http://") + count(page, "https://"), count(page, "http://www.w3.org/2000/svg"));
  EXPECT_EQ(count(page, "<link") + count(page, "<img") + count(page, "<script src"), 0u);
  EXPECT_EQ(page.find("{{"), std::string::npos);
  EXPECT_NE(page.find("fedprox and fedavg"), std::string::npos);
  EXPECT_NE(page.find("70.00 <span class=\"sd\">± 14.14</span>"), std::string::npos);
  EXPECT_NE(page.find("<td class=\"best\">75.00</td>"), std::string::npos);
  EXPECT_NE(page.find("<mark>seed = 1</mark>"), std::string::npos);
  EXPECT_EQ(page.find("<mark>lr"), std::string::npos);
}

TEST_F(ReportTest, UncertaintyComparesTheModelWithItsPosteriorWhereItWasMeasured) {
  write_run("a", "fedavg", 1, 0.8);
  EXPECT_EQ(render_report(read()).find("Uncertainty"), std::string::npos);
  write_run("b", "fola", 1, 0.9);
  write("b/metrics.jsonl", R"({"round":1,"test_loss":0.5,"posterior_loss":0.4,"test_ece":0.02,"posterior_ece":0.03,)"
                           R"("test_brier":0.1,"posterior_brier":0.1,"ood_auroc":0.8,"posterior_ood_auroc":0.9})"
                           "\n");
  write_run("c", "fedprox", 1, 0.7);
  write("c/metrics.jsonl", "{\"round\":1,\"test_loss\":0.6,\"ood_auroc\":0.7}\n");
  const std::string page = render_report(read());
  const std::string section = page.substr(page.find("id=\"h-uncertainty\""));
  const std::string table = section.substr(0, section.find("</table>"));
  EXPECT_EQ(count(table, "<tr>"), 1u + 2u + 1u);  // the head; fola with and without sampling; fedprox; no fedavg
  EXPECT_NE(table.find("<td>0.5000</td><td>–</td><td class=\"best\">0.0200</td><td>0.1000</td><td>0.8000</td>"),
            std::string::npos)
      << table;
  EXPECT_NE(table.find("<td class=\"best\">0.4000</td><td>–</td><td>0.0300</td><td>0.1000</td>"
                       "<td class=\"best\">0.9000</td>"),
            std::string::npos)
      << table;
  EXPECT_NE(table.find("<td>0.7000</td>"), std::string::npos);
  EXPECT_EQ(table.find("fedavg"), std::string::npos);
}

TEST_F(ReportTest, RunsThatShareASplitShareItsMap) {
  const auto with_split = [&](const std::string& name, int seed, int first) {
    write(name + "/run.json", Json{{"label", name}, {"seed", seed}, {"label_histogram", {{first, 0}, {0, 1}}}}.dump());
  };
  with_split("a1", 1, 5);
  with_split("b1", 1, 5);
  with_split("a2", 2, 6);
  const Json splits = drawn(render_report(read()))["splits"];
  ASSERT_EQ(splits.size(), 2u);
  EXPECT_EQ(splits[0]["name"], "seed 1");
  EXPECT_EQ(splits[1]["name"], "seed 2");
}

TEST_F(ReportTest, ARunWithoutARoundIsShownAsSuch) {
  write("a/run.json", R"({"label":"fedavg","state":"failed","rounds":20})");
  const auto page = render_report(read("a"));
  EXPECT_NE(page.find("No round has been finished yet."), std::string::npos);
  EXPECT_NE(page.find("failed, 0 of 20 rounds"), std::string::npos);
}

}  // namespace
}  // namespace parley
