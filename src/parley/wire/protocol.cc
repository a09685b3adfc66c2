#include "parley/wire/protocol.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "parley/base/errors.h"
#include "parley/base/fingerprint.h"

namespace parley::wire {
namespace {

// A packed channel may need a little more than a plain one: the table of its segments.
std::size_t with_room(std::size_t plain) {
  return plain + plain / 8 + (std::size_t{64} << 10);
}

// The sections that decide an answer's bytes. Where a file lies is a machine's own business.
std::string training_settings(const Settings& settings) {
  std::string text = fmt::format("seed = {}\n", settings.run.integer("seed"));
  for (const auto& [name, options] : settings.sections()) {
    if (name != "model" && name != "client" && name != "method" && name != "aggregate" && name != "stages") continue;
    for (const auto& [key, value] : options->values()) {
      if (key != "init") text += fmt::format("{}.{} = {}\n", name, key, to_toml(value));
    }
  }
  return text + "server.weighting = " + settings.server.text("weighting");
}

// The first name in which two lists differ; nothing where one side has no names to compare.
std::string first_difference(const char* what, const std::vector<std::string>& ours,
                             const std::vector<std::string>& theirs) {
  if (ours.empty() || theirs.empty()) return "";
  for (std::size_t i = 0; i < std::max(ours.size(), theirs.size()); ++i) {
    const auto name = [i](const std::vector<std::string>& names) { return i < names.size() ? names[i] : "missing"; };
    if (i >= ours.size() || i >= theirs.size() || ours[i] != theirs[i]) {
      return fmt::format("its {} {} is '{}', in this federation it is '{}'", what, i + 1, name(theirs), name(ours));
    }
  }
  return "";
}

std::string_view text_of(std::span<const float> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

}  // namespace

std::size_t longest_update(const SharedSchema& schema) {
  return with_room(Update(schema).wire_bytes());
}

std::size_t longest_broadcast(const Experiment& experiment) {
  return with_room(Broadcast(starting_state(experiment.server_setup())).wire_bytes());
}

void Assembly::add(std::size_t offset, std::string_view chunk) {
  if (offset != bytes_.size()) fail("a chunk begins at byte {}; expected byte {}", offset, bytes_.size());
  if (chunk.empty()) fail("a chunk is empty; expected up to {} bytes", kChunk);
  if (chunk.size() > length_ - bytes_.size()) {
    fail("a chunk goes {} bytes beyond the announced length of {}", chunk.size() - (length_ - bytes_.size()), length_);
  }
  const auto* first = reinterpret_cast<const std::byte*>(chunk.data());
  bytes_.insert(bytes_.end(), first, first + chunk.size());
}

Agreement agreement_of(const Experiment& experiment) {
  const Dataset& train = *experiment.federated.data.train;
  return {.layout = fingerprint(experiment.layout->describe()),
          .initial = fingerprint(text_of(experiment.initial)),
          .settings = fingerprint(training_settings(experiment.settings)),
          .task = fmt::format("examples of {}{}, {}", describe_shape(train.shape),
                              std::holds_alternative<Values<std::uint8_t>>(train.values) ? " bytes" : "",
                              train.classes > 0 ? fmt::format("{} classes", train.classes)
                                                : fmt::format("targets of {} numbers", train.target_size)),
          .classes = train.class_names,
          .columns = train.columns};
}

WantedMoments moments_wanted(const Experiment& experiment) {
  const Dataset& train = *experiment.federated.data.train;
  const Options& data = experiment.settings.data;
  return {.inputs = normalization(train, data.text("normalize")) == "standard" ? channels_of(train) : 0,
          .targets = data.flag("scale_targets") ? train.target_size : 0};
}

std::string fault_of(const DataMoments& moments, const WantedMoments& wanted) {
  const auto fault = [](const std::vector<Moments>& given, std::size_t expected, const char* what) -> std::string {
    if (given.size() != expected) {
      return fmt::format("it gives the moments of {} {}; this federation has {}", given.size(), what, expected);
    }
    const auto sound = [](const Moments& m) {
      return std::isfinite(m.mean) && std::isfinite(m.variance) && m.variance >= 0.0;
    };
    const auto bad = std::ranges::find_if_not(given, sound);
    if (bad == given.end()) return "";
    return fmt::format("its {} have a mean of {} and a variance of {}; expected finite numbers, the latter not below 0",
                       what, bad->mean, bad->variance);
  };
  if (std::string why = fault(moments.inputs, wanted.inputs, "channels"); !why.empty()) return why;
  return fault(moments.targets, wanted.targets, "targets");
}

std::string difference(const Agreement& ours, const Agreement& theirs) {
  // By name first: where a category is missing, its name says more than a number of features.
  if (std::string why = first_difference("class", ours.classes, theirs.classes); !why.empty()) {
    return why + "; give the labels as whole numbers from 0, with data.classes, where a node lacks a class";
  }
  if (std::string why = first_difference("column", ours.columns, theirs.columns); !why.empty()) {
    return why + "; leave a column out with data.ignore, or bring the tables to the same form";
  }
  if (theirs.task != ours.task) {
    return fmt::format("its data are {}; this federation trains on {}", theirs.task, ours.task);
  }
  if (theirs.settings != ours.settings) {
    return "its experiment file has other settings of [model], [client], [method], [aggregate], [stages], run.seed or "
           "server.weighting; join without a file to take the server's";
  }
  if (theirs.layout != ours.layout) return "its model has another layout; use the same version of parley at both ends";
  if (theirs.initial != ours.initial) {
    return "its initial weights differ; check model.init, and use the same version of parley at both ends";
  }
  return "";
}

}  // namespace parley::wire
