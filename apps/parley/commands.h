// One function a command. Each adds its arguments to the parser; its work runs when the user chose it.
#pragma once

#include <CLI/CLI.hpp>

#include "parley/base/config.h"
#include "parley/engine/catalogue.h"

namespace parley::app {

// Everything that can be named, LibTorch's models included.
const Catalogue& catalogue();

void add_run(CLI::App& app);
void add_compare(CLI::App& app);
void add_sweep(CLI::App& app);
void add_list(CLI::App& app);
void add_describe(CLI::App& app);
void add_data(CLI::App& app);
void add_evaluate(CLI::App& app);
void add_report(CLI::App& app);
void add_bench(CLI::App& app);
void add_serve(CLI::App& app);
void add_join(CLI::App& app);
void add_peer(CLI::App& app);
void add_relay(CLI::App& app);
void add_keys(CLI::App& app);
void add_status(CLI::App& app);
void add_audit(CLI::App& app);

// The experiment file and --set, shared by several commands.
struct ExperimentArguments {
  std::string file;
  std::vector<std::string> assignments;
  void add_to(CLI::App& command);
  Config read() const;
};
// --threads; 0 means all cores. An unsigned option alone would read -1 as a number beyond every machine.
void add_threads(CLI::App& command, std::size_t& threads, const std::string& meaning);
std::size_t resolve_threads(std::size_t asked);
// How many processes mpirun started, in all and on this machine; 1 without it.
struct Launch {
  std::size_t ranks = 1, here = 1;
};
Launch launched();
// For a command that one process does alone. Throws InputError under mpirun.
void refuse_ranks(const std::string& command);
// What Ctrl-C says after "interrupted; "; a literal.
void advise_when_interrupted(const char* advice);
// Where a command writes when --out is not given: runs/<name of the file>.
std::filesystem::path default_folder(const std::string& experiment_file);

}  // namespace parley::app
