// parley data: what each client holds, and fetching data sets.
#include <numeric>

#include "commands.h"
#include "parley/base/counted.h"
#include "parley/base/errors.h"
#include "parley/data/fetch.h"
#include "parley/engine/experiment.h"
#include "terminal.h"

namespace parley::app {
namespace {

void print_summary(const Federated& federated, const Settings& settings) {
  const Dataset& train = *federated.data.train;
  std::vector<std::size_t> sizes;
  for (const auto rows : federated.partition.clients) sizes.push_back(rows.size());
  std::ranges::sort(sizes);
  const auto empty = static_cast<std::size_t>(std::ranges::count(sizes, std::size_t{0}));
  fmt::print("{}: {} train + {} test examples, {}, {} in memory\n", train.name, train.size(),
             federated.data.test->size(), counted(train.features(), "feature"),
             bytes_text(static_cast<double>(train.bytes())));
  fmt::print("{}: {}, {} to {} examples, median {}{}\n\n", settings.partition.text("kind"),
             counted(sizes.size(), "client"), sizes.front(), sizes.back(), sizes[sizes.size() / 2],
             empty > 0 ? fmt::format(", {} empty", empty) : "");
}

void show(const ExperimentArguments& arguments, std::size_t limit) {
  const Settings settings = resolve(arguments.read(), catalogue());
  DataCache cache;
  const Federated federated = deal(settings, catalogue(), cache);
  const Dataset& train = *federated.data.train;
  print_summary(federated, settings);
  std::vector<std::string> header{"client", "examples"};
  for (std::size_t c = 0; c < train.classes; ++c) {
    header.push_back(c < train.class_names.size() ? train.class_names[c] : std::to_string(c));
  }
  Table table(header);
  const RowLists& clients = federated.partition.clients;
  const std::size_t shown = limit == 0 ? clients.size() : std::min(limit, clients.size());
  for (std::size_t client = 0; client < shown; ++client) {
    std::vector<std::string> row{std::to_string(client), std::to_string(clients[client].size())};
    for (const auto count : label_counts(train, clients[client]))
      row.push_back(count > 0 ? std::to_string(count) : "·");
    table.add(row);
  }
  fmt::print("{}", table.text());
  if (shown < clients.size()) fmt::print("… {} more; --clients 0 shows all\n", clients.size() - shown);
}

// Before anything is said about fetching it.
void require_remote(const std::string& name) {
  std::vector<std::string> known;
  for (const auto& dataset : remote_datasets()) known.push_back(dataset.name);
  if (std::ranges::find(known, name) == known.end()) fail("{}", unknown_name("data set to fetch", name, known));
}

void get(const std::string& name, const std::string& to, const std::string& from) {
  require_remote(name);
  const std::filesystem::path destination =
      to.empty() ? DataRoots::standard("").folders.at(0) : std::filesystem::path(to);
  fmt::print("fetching {} into {}\n", name, destination.string());
  const auto folder =
      fetch_dataset(name, destination, from, [](const std::string& file, std::uint64_t done, std::uint64_t total) {
        if (!is_terminal()) return;
        const auto size = [](std::uint64_t n) { return bytes_text(static_cast<double>(n)); };
        fmt::print("\r\033[K  {}  {}{}", file, size(done), total > 0 ? " of " + size(total) : "");
        std::fflush(stdout);
      });
  fmt::print("{}{} is ready in {}\n", is_terminal() ? "\r\033[K" : "", name, folder.string());
}

}  // namespace

void add_data(CLI::App& app) {
  auto* command = app.add_subcommand("data", "look at the split, fetch data sets");
  command->require_subcommand(1);
  auto* show_command = command->add_subcommand("show", "what each client of an experiment holds");
  const auto arguments = std::make_shared<ExperimentArguments>();
  const auto limit = std::make_shared<std::size_t>(40);
  arguments->add_to(*show_command);
  show_command->add_option("--clients", *limit, "how many clients to show; 0 shows all (default 40)");
  show_command->callback([=] { show(*arguments, *limit); });

  auto* get_command = command->add_subcommand("get", "fetch mnist, fashion-mnist or cifar10, checksums verified");
  const auto name = std::make_shared<std::string>(), to = std::make_shared<std::string>(),
             from = std::make_shared<std::string>();
  get_command->add_option("name", *name, "mnist, fashion-mnist or cifar10")->required();
  get_command->add_option("--to", *to, "folder to put it in (default: $PARLEY_DATA or ~/.cache/parley)");
  get_command->add_option("--from", *from, "fetch from this address instead (https:// or file://)");
  get_command->callback([=] { get(*name, *to, *from); });
}

}  // namespace parley::app
