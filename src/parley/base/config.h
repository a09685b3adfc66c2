// An experiment file: TOML, where every key remembers its place.
//
// Order:    read -> set* -> resolve (once for each section) -> refuse_unknown. Only then act on what was read.
// Failure:  InputError "file:line: section.key: what was expected, what was found".
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "parley/base/options.h"

namespace parley {

class Config {
 public:
  static Config read(const std::filesystem::path& file);
  static Config parse(std::string_view text, const std::string& name = "config");

  // One "section.key=value" of the command line, the value in TOML or as a bare word; it overrides the file.
  void set(std::string_view assignment);
  void set(const std::string& section, const std::string& key, Value value);

  bool has(const std::string& section, const std::string& key) const;
  // The text of section.key, or `fallback`; for keys that decide which options a section has ("method.name").
  std::string text(const std::string& section, const std::string& key, const std::string& fallback) const;
  // The list given for section.key, one TOML text an item; for [sweep].
  std::vector<std::string> items(const std::string& section, const std::string& key) const;
  // The keys of a section, in no particular order; empty when it is absent.
  std::vector<std::string> keys(const std::string& section) const;

  // Checks the section's keys against `declared` and fills the defaults in.
  Options resolve(const std::string& section, const std::vector<Option>& declared);

  // For the options of `declared` that do nothing with these values (Option::only): refuses one that was set to
  // something other than its default, and marks the others as inert. `sections` is where a value may have been set.
  // A file that serves several methods (share()) may set what only some of them use; then only the command line is
  // held to it, and the default is put back.
  void settle(Options& options, const std::vector<Option>& declared, const std::vector<std::string>& sections) const;
  void share() { shared_ = true; }

  // Where a relative path leads: from the working folder if there is something there, else from the experiment file's.
  // Absolute, so that the resolved config can be run again from anywhere.
  std::string absolute(const std::string& path) const;

  // "file:line" of a key, or of the whole file.
  std::string where(const std::string& section, const std::string& key) const;
  // An InputError about section.key, with its place in front.
  [[noreturn]] void refuse(const std::string& section, const std::string& key, const std::string& why) const;

  // Every key must have been declared by some resolve(); otherwise the nearest declared one is suggested.
  // `hint(section, key)` may know better than the nearest name ("an option of …"); "" when it does not. For
  // a section that is not known, `key` is "".
  using Hint = std::function<std::string(const std::string& section, const std::string& key)>;
  void refuse_unknown(const Hint& hint = {}) const;
  // Drops a whole section (nested ones too); for parts of the file that another command reads.
  void drop(const std::string& section);
  // Drops the section's own keys, but no nested section.
  void erase(const std::string& section);

 private:
  struct Item {
    Value value;
    bool empty_list = false;  // fits every list type
    int line = 0;             // 0: from the command line
  };
  using Section = std::map<std::string, Item, std::less<>>;

  const Item* find(const std::string& section, const std::string& key) const;
  Value convert(const std::string& section, const Option& option, const Item& item) const;
  void absorb(std::string_view text, const std::string& name, bool from_command_line);

  std::string name_;
  std::filesystem::path folder_;
  bool shared_ = false;
  std::map<std::string, Section> sections_;
  std::map<std::string, int> lines_;  // of the sections themselves
  std::map<std::string, std::vector<std::string>> declared_;
};

}  // namespace parley
