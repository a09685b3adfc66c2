// parley report: a page from run folders.
#include "parley/report/report.h"
#include "commands.h"
#include "parley/base/files.h"
#include "terminal.h"

namespace parley::app {

void add_report(CLI::App& app) {
  auto* command = app.add_subcommand("report", "one self-contained HTML page from run folders");
  const auto folders = std::make_shared<std::vector<std::string>>();
  const auto out = std::make_shared<std::string>("report.html");
  command->add_option("folders", *folders, "run folders, or folders of run folders")->required();
  command->add_option("-o,--out", *out, "the page to write (default report.html)");
  command->callback([=] {
    const std::vector<std::filesystem::path> paths(folders->begin(), folders->end());
    const std::string page = render_report(read_runs(paths));
    real_files().replace(*out, page);
    fmt::print("{}: {}\n", *out, bytes_text(static_cast<double>(page.size())));
  });
}

}  // namespace parley::app
