// parley list, describe, and the reference page: what there is to choose from, all read from the registries.
#include <fmt/ranges.h>

#include <functional>

#include "commands.h"
#include "parley/base/errors.h"
#include "parley/engine/aliases.h"
#include "parley/engine/settings.h"
#include "terminal.h"

namespace parley::app {
namespace {

// A registry as a user meets it.
struct Kind {
  std::string plural;   // "methods"
  std::string setting;  // the key that chooses one: "method.name"
  std::vector<About> entries;
};

template <class Make>
Kind kind(std::string plural, std::string setting, const Registry<Make>& registry) {
  Kind result{std::move(plural), std::move(setting), {}};
  for (const auto& entry : registry.entries()) result.entries.push_back(entry.about);
  return result;
}

std::vector<Kind> kinds() {
  const Catalogue& all = catalogue();
  return {kind("methods", "method.name", all.methods),
          kind("models", "model.name", all.models),
          kind("datasets", "data.name", all.datasets),
          kind("partitions", "partition.kind", all.partitions),
          kind("optimizers", "client.optimizer", all.optimizers),
          kind("server-steps", "server.step", all.server_steps),
          kind("stages", "stages.use", all.stages),
          kind("graphs", "graph.kind", all.graphs)};
}

std::string constraint(const Option& option) {
  const std::string range = option.range.describe(), only = describe(option.only);
  const std::string values = option.choices.empty() ? type_name(option.fallback) + (range.empty() ? "" : " " + range)
                                                    : fmt::format("one of {}", fmt::join(option.choices, ", "));
  return values + (only.empty() ? "" : "; " + only);
}

// What other sections must say: model.norm = "batch".
std::string needed(const About& about) {
  std::vector<std::string> settings;
  for (const auto& [key, value] : about.needs) settings.push_back(fmt::format("{} = {}", key, to_toml(value)));
  return fmt::format("{}", fmt::join(settings, ", "));
}

void list_kind(const Kind& kind) {
  fmt::print("{}  ({} = \"…\")\n", kind.plural, kind.setting);
  std::size_t widest = 0;
  for (const auto& about : kind.entries) widest = std::max(widest, about.name.size());
  for (const auto& about : kind.entries) fmt::print("  {:<{}}  {}\n", about.name, widest, about.summary);
  fmt::print("\n");
}

void list(const std::string& wanted) {
  std::vector<std::string> names;
  for (const auto& one : kinds()) {
    names.push_back(one.plural);
    if (wanted.empty() || wanted == one.plural || wanted + "s" == one.plural) list_kind(one);
  }
  const auto known = [&](const std::string& name) { return std::ranges::find(names, name) != names.end(); };
  if (!wanted.empty() && !known(wanted) && !known(wanted + "s")) fail("{}", unknown_name("kind", wanted, names));
  if (wanted.empty()) fmt::print("parley describe NAME shows the options of one of them.\n");
}

void print_options(const std::vector<Option>& options) {
  for (const auto& option : options) {
    fmt::print("  {} = {}\n      {} ({})\n", option.key, to_toml(option.fallback), option.meaning, constraint(option));
  }
}

void describe_section(const SectionAbout& section) {
  fmt::print("[{}]\n{}\n", section.name, section.meaning);
  print_options(section.options);
  if (!section.chosen_by.empty())
    fmt::print("  and the options of the chosen {}.{}\n", section.name, section.chosen_by);
}

std::string section_of(const Kind& kind) {
  return kind.setting.substr(0, kind.setting.find('.'));
}

void describe_entry(const Kind& kind, const About& about) {
  fmt::print("{} = \"{}\"\n{}\n", kind.setting, about.name, about.summary);
  if (!about.source.empty()) fmt::print("source: {}\n", about.source);
  if (!about.needs.empty()) fmt::print("needs {}\n", needed(about));
  if (about.options.empty()) {
    fmt::print("no options of its own; parley describe {} shows the section's\n", section_of(kind));
  } else {
    fmt::print("options in [{}]:\n", section_of(kind));
    print_options(about.options);
  }
}

// Every key that is called so, with its section ("client.lr") or without ("lr"), and whose it is. False if there is
// none.
bool describe_keys(const std::string& name) {
  bool found = false;
  const auto look = [&](const std::string& section, const std::vector<Option>& options, const std::string& whose) {
    for (const auto& option : options) {
      const std::string full = section + "." + option.key;
      if (name != full && name != option.key) continue;
      found = true;
      fmt::print("{} = {}{}\n    {} ({})\n", full, to_toml(option.fallback), whose, option.meaning, constraint(option));
    }
  };
  for (const auto& section : sections(catalogue())) look(section.name, section.options, "");
  for (const auto& kind : kinds()) {
    for (const auto& about : kind.entries) {
      look(section_of(kind), about.options, fmt::format("   with {} = \"{}\"", kind.setting, about.name));
    }
  }
  return found;
}

void describe(const std::string& name) {
  std::vector<std::string> names;
  bool found = false;
  for (const auto& kind : kinds()) {
    for (const auto& about : kind.entries) {
      names.push_back(about.name);
      if (about.name != name) continue;
      if (found) fmt::print("\n");
      found = true;
      describe_entry(kind, about);
    }
  }
  for (const auto& section : sections(catalogue())) {
    names.push_back(section.name);
    if (section.name != name) continue;
    if (found) fmt::print("\n");
    found = true;
    describe_section(section);
  }
  if (found || describe_keys(name)) return;
  if (const std::string elsewhere = known_elsewhere(name); !elsewhere.empty()) {
    fail("nothing is called '{}': {}", name, elsewhere);
  }
  const std::string near = nearest(name, names);
  fail("nothing is called '{}'; {}parley list shows all names", name,
       near.empty() ? "" : fmt::format("did you mean '{}'? ", near));
}

std::string escape_cell(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.replace(at, 1, "\\|");
  return text;
}

void print_option_table(const std::vector<Option>& options) {
  fmt::print("| key | default | values | meaning |\n|---|---|---|---|\n");
  for (const auto& option : options) {
    fmt::print("| `{}` | `{}` | {} | {} |\n", option.key, to_toml(option.fallback), escape_cell(constraint(option)),
               escape_cell(option.meaning));
  }
  fmt::print("\n");
}

void print_reference() {
  fmt::print(
      "# Reference\n\nWritten by `parley list --markdown` from the program's own registries; do not edit.\n\n## "
      "Sections of an experiment file\n\n");
  for (const auto& section : sections(catalogue())) {
    fmt::print("### [{}]\n\n{}\n\n", section.name, section.meaning);
    print_option_table(section.options);
    if (!section.chosen_by.empty()) {
      fmt::print("Also the options of what `{}.{}` names, below.\n\n", section.name, section.chosen_by);
    }
  }
  for (const auto& kind : kinds()) {
    fmt::print("## {}\n\nChosen by `{}`.\n\n", kind.plural, kind.setting);
    for (const auto& about : kind.entries) {
      fmt::print("### {}\n\n{}{}{}\n\n", about.name, about.summary,
                 about.source.empty() ? "" : fmt::format(" Source: {}.", about.source),
                 about.needs.empty() ? "" : fmt::format(" Needs `{}`.", needed(about)));
      if (!about.options.empty()) print_option_table(about.options);
    }
  }
}

}  // namespace

void add_list(CLI::App& app) {
  auto* command = app.add_subcommand("list", "methods, models, datasets, partitions, optimizers, …");
  const auto kind = std::make_shared<std::string>();
  const auto markdown = std::make_shared<bool>(false);
  command->add_option("kind", *kind, "only this kind");
  command->add_flag("--markdown", *markdown, "print the whole reference page (docs/reference.md)");
  command->callback([=] { *markdown ? print_reference() : list(*kind); });
}

void add_describe(CLI::App& app) {
  auto* command =
      app.add_subcommand("describe", "the options of a method, model, …, of a section of the file, or one key");
  const auto name = std::make_shared<std::string>();
  command->add_option("name", *name, "for example fedprox, dirichlet, client, client.lr")->required();
  command->callback([=] { describe(*name); });
}

}  // namespace parley::app
