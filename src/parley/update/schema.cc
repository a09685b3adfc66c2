#include "parley/update/schema.h"

#include <set>

#include "parley/base/errors.h"

namespace parley {
namespace {

template <class Specs>
std::size_t position(const Specs& specs, std::string_view name, const char* what) {
  std::vector<std::string> known;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].name == name) return i;
    known.push_back(specs[i].name);
  }
  throw std::logic_error(unknown_name(what, name, known));
}

template <class Specs>
void require_distinct(const Specs& specs, const char* what) {
  std::set<std::string_view> names;
  for (const auto& spec : specs) {
    if (!names.insert(spec.name).second) throw std::logic_error("two " + std::string(what) + " '" + spec.name + "'");
  }
}

}  // namespace

std::size_t Schema::channel(std::string_view name) const {
  return position(channels, name, "channel of an update");
}

std::size_t Schema::scalar(std::string_view name) const {
  return position(scalars, name, "scalar of an update");
}

SharedSchema share(Schema schema) {
  require_distinct(schema.channels, "channels");
  require_distinct(schema.scalars, "scalars");
  for (const auto& spec : schema.channels) {
    if (!spec.times.empty()) static_cast<void>(schema.channel(spec.times));
  }
  for (const auto& spec : schema.scalars) {
    if (spec.weighting == Weighting::each) {
      throw std::logic_error("scalar '" + spec.name + "' cannot be kept for each client; make it a channel of one");
    }
  }
  return std::make_shared<const Schema>(std::move(schema));
}

}  // namespace parley
