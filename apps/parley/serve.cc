// parley serve: the server of a federation whose nodes are on other machines.
#include <atomic>

#include "commands.h"
#include "parley/base/errors.h"
#include "parley/report/report.h"
#include "parley/wire/serve.h"
#include "parley/wire/signals.h"
#include "terminal.h"
#include "wire_arguments.h"

namespace parley::app {
namespace {

namespace fs = std::filesystem;

struct ServeArguments {
  ExperimentArguments experiment;
  std::string out, listen = "127.0.0.1:7777";
  KeyArguments keys;
  std::string monitor;
  std::size_t threads = 0;
  bool json = false;
};

// A server has no terminal of its own: one line a round.
class RoundLog final : public Progress {
 public:
  explicit RoundLog(const wire::Log& log) : log_(log) {}
  void round_done(const Json& metrics) override {
    const auto number = [&](const char* key) { return metrics.contains(key) ? metrics[key].dump() : "-"; };
    log_.say("round", {{"round", number("round")},
                       {"clients", number("clients")},
                       {"train_loss", number("train_loss")},
                       {"test_accuracy", number("test_accuracy")},
                       {"nodes_accuracy", number("s_accuracy")},
                       {"seconds", number("seconds")}});
  }

 private:
  const wire::Log& log_;
};

// ", nodes' own tests 91.20 % (spread 3.05 points)": what nodes measured on test data of their own; "" when not asked.
std::string own_tests_text(const Json& metrics) {
  if (!metrics.contains("s_loss")) return "";
  const bool classes = metrics.contains("s_accuracy");
  const std::string mean = classes ? percent(metrics["s_accuracy"].get<double>())
                                   : fmt::format("loss {:.4f}", metrics["s_loss"].get<double>());
  if (!metrics.contains("s_spread")) return ", nodes' own tests " + mean;
  const auto spread = metrics["s_spread"].get<double>();
  return fmt::format(", nodes' own tests {} (spread {})", mean,
                     classes ? fmt::format("{:.2f} points", 100.0 * spread) : fmt::format("{:.4f}", spread));
}

std::string report_of(const fs::path& folder) {
  return render_report(read_runs({&folder, 1}));
}

void serve(const ServeArguments& arguments) {
  refuse_ranks("serve");
  const Settings settings = resolve(arguments.experiment.read(), catalogue());
  const fs::path folder = arguments.out.empty() ? default_folder(arguments.experiment.file) : fs::path(arguments.out);
  require_writable(folder);
  const wire::Log log(arguments.json ? wire::LogFormat::json : wire::LogFormat::text);
  std::atomic<wire::Hub*> running = nullptr;
  std::atomic<bool> asked = false;
  const wire::StopOnSignal signals([&] {
    asked = true;
    if (wire::Hub* hub = running) hub->stop();
  });
  RoundLog progress(log);
  const auto summary =
      wire::serve({.settings = settings,
                   .catalogue = &catalogue(),
                   .folder = folder,
                   .address = arguments.listen,
                   .tls = arguments.keys.files("server", arguments.listen),
                   .revoked = fs::path(arguments.keys.folder) / "revoked.txt",
                   .threads = resolve_threads(arguments.threads),
                   .progress = &progress,
                   .monitor = arguments.monitor,
                   .report = [&] { return report_of(folder); },
                   .listening =
                       [&](int port, wire::Hub& hub) {
                         running = &hub;
                         if (asked) hub.stop();
                         log.say("listening", {{"address", arguments.listen}, {"port", std::to_string(port)}});
                       }},
                  log);
  running = nullptr;
  real_files().replace(folder / "report.html", report_of(folder));
  fmt::print("done: {}{}; results in {}\n", summary_text(summary), own_tests_text(summary.metrics.back()),
             folder.string());
}

}  // namespace

void add_serve(CLI::App& app) {
  auto* command = app.add_subcommand("serve", "run an experiment as the server of a federation; nodes join it");
  auto arguments = std::make_shared<ServeArguments>();
  arguments->experiment.add_to(*command);
  command->add_option("--listen", arguments->listen,
                      "address and port (default: 127.0.0.1:7777; port 0 takes a free one)");
  command->add_option("--out", arguments->out,
                      "folder for the results (default: runs/<name of the file>); a run that is there goes on");
  arguments->keys.add_to(*command, "ca.crt, server.crt, server.key and revoked.txt (see parley keys)");
  command->add_option(
      "--monitor", arguments->monitor,
      "host:port of a read-only page, /metrics and /status.json; the token is in federation/monitor.json");
  add_threads(*command, arguments->threads, "threads for evaluation (default: all cores)");
  command->add_flag("--json", arguments->json, "log lines as JSON");
  command->callback([arguments] { serve(*arguments); });
}

}  // namespace parley::app
