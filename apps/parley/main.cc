#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <stdexcept>
#include <thread>

#include "commands.h"
#include "levels.h"
#include "parley/base/errors.h"
#include "parley/base/version.h"
#include "parley/engine/settings.h"
#ifdef PARLEY_TORCH
#include "parley/model/torch/torch_models.h"
#endif

namespace parley::app {

const Catalogue& catalogue() {
  static const Catalogue instance = [] {
    Catalogue all;
#ifdef PARLEY_TORCH
    add_torch_models(all.models);
#endif
    return all;
  }();
  return instance;
}

void ExperimentArguments::add_to(CLI::App& command) {
  command.add_option("file", file, "the experiment file (.toml)")->required();
  command.add_option("--set", assignments, "override a key: --set client.lr=0.1")->allow_extra_args(false);
}

Config ExperimentArguments::read() const {
  Config config = Config::read(file);
  for (const auto& assignment : assignments) config.set(assignment);
  return config;
}

void add_threads(CLI::App& command, std::size_t& threads, const std::string& meaning) {
  command.add_option("--threads", threads, meaning)->check(CLI::Range(0, 1024));
}

std::size_t resolve_threads(std::size_t asked) {
  return asked > 0 ? asked : std::max<std::size_t>(1, std::thread::hardware_concurrency() / launched().here);
}

Launch launched() {
  const auto number = [](std::initializer_list<const char*> names) -> std::size_t {
    for (const char* name : names) {
      if (const char* text = std::getenv(name)) return std::max(1ul, std::strtoul(text, nullptr, 10));
    }
    return 1;
  };
  return {.ranks = number({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}),  // Open MPI; MPICH and its kin
          .here = number({"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"})};
}

void refuse_ranks(const std::string& command) {
  if (const std::size_t ranks = launched().ranks; ranks > 1) {
    fail("mpirun started {} processes, and parley {} is for one; run it without mpirun (only parley run uses ranks)",
         ranks, command);
  }
}

std::filesystem::path default_folder(const std::string& experiment_file) {
  return std::filesystem::path("runs") / std::filesystem::path(experiment_file).stem();
}

namespace {

const char* volatile advice = "nothing was left half-written";

// Only what a signal handler may call.
void interrupted(int) {
  for (const char* part : {"\ninterrupted; ", advice, "\n"}) {
    (void)!::write(STDERR_FILENO, part, std::strlen(part));
  }
  ::_exit(130);
}

// A message may quote a name with a line break in it; a log must still show one line.
void complain(std::string message) {
  std::ranges::replace_if(
      message, [](char c) { return std::iscntrl(static_cast<unsigned char>(c)) != 0; }, ' ');
  fmt::print(stderr, "parley: {}\n", message);
}

std::string version_text() {
  std::string text = std::string("parley ") + kVersion;
#ifdef PARLEY_TORCH
  text += ", with LibTorch " + torch_version();
#endif
  return text;
}

// The command as far as it was understood, and what it is called: "parley keys server".
struct Understood {
  const CLI::App* command;
  std::string line = "parley";
};
Understood understood(const CLI::App& app) {
  Understood result{.command = &app};
  for (auto inner = app.get_subcommands(); !inner.empty(); inner = inner.front()->get_subcommands()) {
    result.command = inner.front();
    result.line += " " + inner.front()->get_name();
  }
  return result;
}

// What somebody meant who wrote "--rounds": an option that begins so, a key of the experiment file, or a likely typo.
std::string meant_option(const CLI::App& command, const std::string& name) {
  std::vector<std::string> known;
  for (const auto* option : command.get_options()) known.push_back(option->get_name());
  const auto longer = std::ranges::find_if(known, [&](const auto& option) { return option.starts_with(name); });
  if (longer != known.end()) return *longer;
  if (command.get_option_no_throw("--set") != nullptr) {
    for (const auto& section : sections(catalogue())) {
      for (const auto& option : section.options) {
        if ("--" + option.key == name) return fmt::format("--set {}.{}=…", section.name, option.key);
      }
    }
  }
  return nearest(name, known);
}

// CLI11 counts up what is left over, values first, or says that something else is missing.
std::string explained(const CLI::ParseError& error, const CLI::App& command, std::span<char*> words) {
  for (const std::string_view word : words) {
    const std::string name(word.substr(0, word.find('=')));
    if (!name.starts_with("--") || name == "--" || command.get_option_no_throw(name) != nullptr) continue;
    const std::string meant = meant_option(command, name);
    return fmt::format("unknown option '{}'{}", name, meant.empty() ? "" : fmt::format("; did you mean {}?", meant));
  }
  std::string text = error.what();
  if (text == "A subcommand is required") {
    std::vector<std::string> known;
    for (const auto* inner : command.get_subcommands({})) known.push_back(inner->get_name());
    text = fmt::format("a command is missing; known: {}", fmt::join(known, ", "));
  }
  return text;
}

// CLI11 only says that a command is missing.
void require_known_command(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return;
  std::vector<std::string> known;
  for (const auto* command : app.get_subcommands({})) known.push_back(command->get_name());
  if (std::ranges::find(known, argv[1]) == known.end()) fail("{}", unknown_name("command", argv[1], known));
}

int run(int argc, char** argv) {
  CLI::App app("Parley: federated learning in which a model travels with its uncertainty.");
  app.set_version_flag("--version", version_text());
  app.require_subcommand(1);
  add_run(app);
  add_compare(app);
  add_sweep(app);
  add_list(app);
  add_describe(app);
  add_data(app);
  add_evaluate(app);
  add_report(app);
  add_bench(app);
  add_serve(app);
  add_join(app);
  add_peer(app);
  add_relay(app);
  add_keys(app);
  add_status(app);
  add_audit(app);
  try {
    require_known_command(app, argc, argv);
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::CallForVersion& version) {
    return app.exit(version);
  } catch (const CLI::ParseError& error) {
    const auto [command, line] = understood(app);
    const std::string why = explained(error, *command, std::span(argv, argc).subspan(1));
    complain(fmt::format("{}{} see {} --help", why, why.ends_with('?') ? "" : ";", line));
    return 2;
  } catch (const Error& error) {
    complain(error.what());
    return error.exit_code();
  } catch (const std::bad_alloc&) {
    complain("out of memory; use fewer --threads, a smaller batch or store.clients = \"disk\"");
    return 1;
  } catch (const std::length_error&) {
    complain("out of memory: a number in the settings asks for more than any machine has; make it smaller");
    return 2;
  } catch (const std::exception& error) {
    complain(fmt::format("unexpected error, please report it: {}", error.what()));
    return 1;
  }
}

}  // namespace

void advise_when_interrupted(const char* text) {
  advice = text;
}

}  // namespace parley::app

int main(int argc, char** argv) {
  parley::app::run_for_this_cpu(argv);
  std::signal(SIGINT, parley::app::interrupted);
  std::signal(SIGTERM, parley::app::interrupted);
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);  // in a log, too, an error stands below what led to it
  std::signal(SIGXFSZ, SIG_IGN);                  // a limit on file sizes then fails the write, which says what to do
  return parley::app::run(argc, argv);
}
