#include "parley/base/config.h"

#include <fmt/ranges.h>
#define TOML_EXCEPTIONS 1
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include "parley/base/errors.h"
#include "parley/base/nesting.h"

namespace parley {
namespace {

template <class T>
std::optional<std::vector<T>> list_of(const toml::array& array) {
  std::vector<T> result;
  for (const auto& node : array) {
    const auto item = node.value<T>();
    if (!item) return std::nullopt;
    result.push_back(*item);
  }
  return result;
}

std::optional<Value> list_value(const toml::array& array) {
  const auto all = [&](auto test) { return std::all_of(array.begin(), array.end(), test); };
  if (all([](const toml::node& n) { return n.is_integer(); })) return list_of<std::int64_t>(array);
  if (all([](const toml::node& n) { return n.is_number(); })) return list_of<double>(array);
  if (all([](const toml::node& n) { return n.is_string(); })) return list_of<std::string>(array);
  return std::nullopt;
}

std::optional<Value> value_of(const toml::node& node) {
  if (const auto* x = node.as_boolean()) return Value(x->get());
  if (const auto* x = node.as_integer()) return Value(std::int64_t{x->get()});
  if (const auto* x = node.as_floating_point()) return Value(x->get());
  if (const auto* x = node.as_string()) return Value(x->get());
  if (const auto* x = node.as_array()) return list_value(*x);
  return std::nullopt;
}

// The experiment file beside it whose name is nearest, as "; did you mean 'examples/first.toml'?".
std::string nearest_file(const std::filesystem::path& file) {
  std::error_code unreadable;
  std::vector<std::string> known;
  const auto folder = file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
  for (const auto& entry : std::filesystem::directory_iterator(folder, unreadable)) {
    if (entry.path().extension() == ".toml") known.push_back(entry.path().filename().string());
  }
  std::ranges::sort(known);
  const std::string near = nearest(file.filename().string(), known);
  return near.empty() ? "" : fmt::format("; did you mean '{}'?", (file.parent_path() / near).string());
}

std::string slurp(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) {
    fail("{}: does not exist; expected an experiment file (.toml){}", file.string(), nearest_file(file));
  }
  if (std::filesystem::is_directory(file)) fail("{}: is a folder; expected an experiment file (.toml)", file.string());
  std::ifstream in(file, std::ios::binary);
  if (!in) fail("{}: cannot be read; expected an experiment file (.toml)", file.string());
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

bool is_list(const Value& value) {
  return value.index() >= 4;
}

}  // namespace

Config Config::read(const std::filesystem::path& file) {
  Config config = parse(slurp(file), file.string());
  config.folder_ = file.parent_path();
  return config;
}

Config Config::parse(std::string_view text, const std::string& name) {
  Config config;
  config.name_ = name;
  config.absorb(text, name, false);
  return config;
}

void Config::absorb(std::string_view text, const std::string& name, bool from_command_line) {
  refuse_deep_toml(text, name);
  toml::table root;
  try {
    root = toml::parse(text, name);
  } catch (const toml::parse_error& error) {
    fail("{}:{}: not valid TOML: {}", name, error.source().begin.line, error.description());
  }
  const auto walk = [&](const auto& self, const std::string& section, const toml::table& table) -> void {
    for (const auto& [key, node] : table) {
      std::string name_of_key(key.str());
      if (const auto* inner = node.as_table()) {
        const std::string whole = section.empty() ? name_of_key : section + "." + name_of_key;
        sections_[whole];  // an empty one may be a misspelt one
        lines_[whole] = from_command_line ? 0 : static_cast<int>(node.source().begin.line);
        self(self, whole, *inner);
        continue;
      }
      const int line = from_command_line ? 0 : static_cast<int>(node.source().begin.line);
      if (section.empty()) {
        fail("{}:{}: key '{}' stands outside a section; expected it under [run], [data], [method], …", name, line,
             name_of_key);
      }
      std::string place = section;
      if (constexpr std::string_view kSweep = "sweep."; section.starts_with(kSweep)) {
        // client.lr = […] under [sweep] is the key "client.lr", with quotes or without.
        name_of_key = section.substr(kSweep.size()) + "." + name_of_key;
        place = "sweep";
      }
      const auto value = value_of(node);
      if (!value) {
        fail("{}:{}: {}.{}: expected a plain value or a list of one type", name, line, place, name_of_key);
      }
      const auto* array = node.as_array();
      sections_[place][name_of_key] = {*value, array != nullptr && array->empty(), line};
    }
  };
  walk(walk, "", root);
}

void Config::set(std::string_view assignment) {
  const auto equals = assignment.find('=');
  const auto dot = assignment.substr(0, equals).rfind('.');
  if (equals == std::string_view::npos || dot == std::string_view::npos || dot == 0 || dot + 1 == equals) {
    fail("--set {}: expected section.key=value, for example --set client.lr=0.1", assignment);
  }
  const std::string section(assignment.substr(0, dot)), key(assignment.substr(dot + 1, equals - dot - 1));
  const std::string value(assignment.substr(equals + 1));
  const std::string name = fmt::format("--set {}", assignment);
  refuse_deep_toml(fmt::format("[{}]\n{} = {}", section, key, value), fmt::format("--set {:.40}…", assignment));
  // A bare word such as iid needs no quotes on the command line.
  try {
    (void)toml::parse("x = " + value);
    absorb(fmt::format("[{}]\n{} = {}", section, key, value), name, true);
  } catch (const toml::parse_error&) {
    sections_[section][key] = {Value(value), false, 0};
  }
}

void Config::set(const std::string& section, const std::string& key, Value value) {
  sections_[section][key] = {std::move(value), false, 0};
}

const Config::Item* Config::find(const std::string& section, const std::string& key) const {
  const auto table = sections_.find(section);
  if (table == sections_.end()) return nullptr;
  const auto item = table->second.find(key);
  return item == table->second.end() ? nullptr : &item->second;
}

bool Config::has(const std::string& section, const std::string& key) const {
  return find(section, key) != nullptr;
}

std::string Config::text(const std::string& section, const std::string& key, const std::string& fallback) const {
  const Item* item = find(section, key);
  if (item == nullptr) return fallback;
  if (const auto* text = std::get_if<std::string>(&item->value)) return *text;
  refuse(section, key, fmt::format("expected a text, got {}", to_toml(item->value)));
}

std::vector<std::string> Config::items(const std::string& section, const std::string& key) const {
  const Item* item = find(section, key);
  if (item == nullptr || !is_list(item->value) || item->empty_list) {
    refuse(section, key, "expected a list of values, for example [0.1, 0.01]");
  }
  return std::visit(
      [](const auto& list) {
        std::vector<std::string> result;
        if constexpr (
            requires { list.begin()->begin(); } || requires { list.front() + 1; }) {
          for (const auto& x : list) result.push_back(to_toml(Value(x)));
        }
        return result;
      },
      item->value);
}

std::vector<std::string> Config::keys(const std::string& section) const {
  std::vector<std::string> result;
  if (const auto table = sections_.find(section); table != sections_.end()) {
    for (const auto& [key, item] : table->second) result.push_back(key);
  }
  return result;
}

std::string Config::where(const std::string& section, const std::string& key) const {
  const Item* item = find(section, key);
  if (item == nullptr) {
    const auto found = key.empty() ? lines_.find(section) : lines_.end();
    return found == lines_.end() || found->second == 0 ? name_ : fmt::format("{}:{}", name_, found->second);
  }
  return item->line > 0 ? fmt::format("{}:{}", name_, item->line) : "command line";
}

void Config::refuse(const std::string& section, const std::string& key, const std::string& why) const {
  fail("{}: {}.{}: {}", where(section, key), section, key, why);
}

Value Config::convert(const std::string& section, const Option& option, const Item& item) const {
  Value value = item.value;
  if (item.empty_list && is_list(option.fallback)) {
    return std::visit([](const auto& x) { return Value(std::decay_t<decltype(x)>{}); }, option.fallback);
  }
  // A whole number is a number.
  if (std::holds_alternative<double>(option.fallback)) {
    if (const auto* x = std::get_if<std::int64_t>(&value)) value = static_cast<double>(*x);
  }
  if (std::holds_alternative<std::vector<double>>(option.fallback)) {
    if (const auto* list = std::get_if<std::vector<std::int64_t>>(&value)) {
      value = std::vector<double>(list->begin(), list->end());
    }
  }
  if (value.index() != option.fallback.index()) {
    refuse(section, option.key, fmt::format("expected {}, got {}", type_name(option.fallback), to_toml(item.value)));
  }
  return value;
}

std::string Config::absolute(const std::string& path) const {
  namespace fs = std::filesystem;
  if (path.empty() || fs::path(path).is_absolute()) return path;
  if (!fs::exists(path) && fs::exists(folder_ / path)) return fs::absolute(folder_ / path).lexically_normal().string();
  return fs::absolute(path).lexically_normal().string();
}

Options Config::resolve(const std::string& section, const std::vector<Option>& declared) {
  Options options(section);
  for (const auto& option : declared) {
    declared_[section].push_back(option.key);
    const Item* item = find(section, option.key);
    if (item == nullptr) {
      options.set(option.key, option.fallback);
      continue;
    }
    const Value value = convert(section, option, *item);
    const auto check = [&](double x) {
      if (!std::isfinite(x) || !option.range.contains(x)) {
        const std::string range = option.range.describe();
        refuse(section, option.key,
               fmt::format("expected {}{}, got {}", type_name(option.fallback), range.empty() ? "" : " " + range,
                           to_toml(value)));
      }
    };
    if (const auto* x = std::get_if<std::int64_t>(&value)) check(static_cast<double>(*x));
    if (const auto* x = std::get_if<double>(&value)) check(*x);
    if (const auto* list = std::get_if<std::vector<std::int64_t>>(&value)) {
      for (const auto x : *list) check(static_cast<double>(x));
    }
    if (const auto* list = std::get_if<std::vector<double>>(&value)) {
      for (const auto x : *list) check(x);
    }
    if (const auto* text = std::get_if<std::string>(&value); text != nullptr && !option.choices.empty()) {
      if (std::find(option.choices.begin(), option.choices.end(), *text) == option.choices.end()) {
        refuse(section, option.key, unknown_name("value", *text, option.choices));
      }
    }
    options.set(option.key, option.is_path ? Value(absolute(std::get<std::string>(value))) : value);
  }
  return options;
}

void Config::settle(Options& options, const std::vector<Option>& declared,
                    const std::vector<std::string>& sections) const {
  for (const auto& option : declared) {
    const OnlyWith* unmet = option.unmet(options);
    if (unmet == nullptr) continue;
    for (const auto& section : sections) {
      const Item* item = find(section, option.key);
      if (item == nullptr || options.values().find(option.key)->second == option.fallback) continue;
      if (shared_ && item->line > 0) continue;
      refuse(section, option.key,
             fmt::format("does nothing with {} = {}; it is read {}: leave it out", unmet->key,
                         to_toml(Value(options.text(unmet->key))), describe({*unmet})));
    }
    options.set(option.key, option.fallback);
    options.set_inert(option.key);
  }
}

void Config::refuse_unknown(const Hint& hint) const {
  std::vector<std::string> known_sections;
  for (const auto& [section, keys] : declared_) known_sections.push_back(section);
  for (const auto& [section, items] : sections_) {
    const auto declared = declared_.find(section);
    if (declared == declared_.end()) {
      const std::string first = items.empty() ? "" : items.begin()->first;
      if (const std::string better = hint ? hint(section, "") : ""; !better.empty()) {
        fail("{}: {}", where(section, first), better);
      }
      fail("{}: {}", where(section, first), unknown_name("section", section, known_sections));
    }
    for (const auto& [key, item] : items) {
      const auto& keys = declared->second;
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
        if (const std::string better = hint ? hint(section, key) : ""; !better.empty()) refuse(section, key, better);
        fail("{}: {}", where(section, key), unknown_name("key", section + "." + key, [&] {
               std::vector<std::string> full;
               for (const auto& k : keys) full.push_back(section + "." + k);
               return full;
             }()));
      }
    }
  }
}

void Config::erase(const std::string& section) {
  sections_.erase(section);
}

void Config::drop(const std::string& section) {
  std::erase_if(sections_,
                [&](const auto& entry) { return entry.first == section || entry.first.starts_with(section + "."); });
}

}  // namespace parley
