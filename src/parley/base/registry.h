// Named things a user can choose: methods, models, data sets, partitions, optimisers, stages.
//
// A registry is filled by plain calls, in one readable list, with no static initialisers. Its entries feed the config,
// `parley list`, `parley describe`, the reference page and the error messages, so none of these can drift.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parley/base/errors.h"
#include "parley/base/options.h"

namespace parley {

// What a user is told about an entry; the same for every kind of entry.
struct About {
  std::string name;
  std::string summary;  // one line
  std::string source;   // paper or place it comes from; may be empty
  std::vector<Option> options;
  // Settings of other sections without which it refuses to run: "model.norm" and so on.
  std::vector<std::pair<std::string, Value>> needs = {};
};

template <class Make>
class Registry {
 public:
  struct Entry {
    About about;
    Make make;
  };

  explicit Registry(std::string kind) : kind_(std::move(kind)) {}

  void add(About about, Make make) {
    assert(!contains(about.name) && "registered twice");
    entries_.push_back({std::move(about), std::move(make)});
    std::sort(entries_.begin(), entries_.end(),
              [](const Entry& a, const Entry& b) { return a.about.name < b.about.name; });
  }

  bool contains(std::string_view name) const { return lookup(name) != nullptr; }

  // Throws InputError with the nearest name and all known ones.
  const Entry& at(std::string_view name) const {
    const Entry* entry = lookup(name);
    if (entry == nullptr) throw InputError(unknown_name(kind_, name, names()));
    return *entry;
  }
  Entry& at(std::string_view name) { return const_cast<Entry&>(std::as_const(*this).at(name)); }

  const std::string& kind() const { return kind_; }
  const std::vector<Entry>& entries() const { return entries_; }

  std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const auto& entry : entries_) result.push_back(entry.about.name);
    return result;
  }

 private:
  const Entry* lookup(std::string_view name) const {
    for (const auto& entry : entries_) {
      if (entry.about.name == name) return &entry;
    }
    return nullptr;
  }

  std::string kind_;
  std::vector<Entry> entries_;
};

}  // namespace parley
