#include "parley/wire/shelf.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "parley/base/errors.h"
#include "parley/base/files.h"
#include "parley/tensor/safetensors.h"

namespace parley::wire {
namespace {

namespace fs = std::filesystem;

constexpr std::pair<Standing, const char*> kStandings[] = {
    {Standing::pending, "pending"},   {Standing::held, "held"}, {Standing::leaving, "leaving"},
    {Standing::promised, "promised"}, {Standing::gone, "gone"}, {Standing::final, "final"}};

const char* text_of(Standing standing) {
  for (const auto& [known, text] : kStandings) {
    if (known == standing) return text;
  }
  return "absent";
}

Standing standing_of(const std::string& text) {
  for (const auto& [standing, known] : kStandings) {
    if (text == known) return standing;
  }
  fail("'{}' is no standing of a model", text);
}

fs::path made(fs::path folder) {
  make_folder(folder);
  return folder;
}

std::size_t journey_of(const Experiment& experiment, const Hosting& hosting) {
  const auto rounds = static_cast<std::size_t>(experiment.settings.run.integer("rounds"));
  const std::size_t visits = rounds * hosting.visits_a_round(), models = hosting.options().models;
  if (visits % models != 0) {
    fail(
        "run.rounds = {}: its {} visits cannot be shared equally by method.models = {}; make peer.visits a multiple "
        "of that",
        rounds, visits, models);
  }
  return visits / models;
}

bool finite(std::span<const float> values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

// That a model's numbers are such as this experiment's can be; its counters name streams and rows of tables.
void require_sense(const Traveller& traveller, const Experiment& experiment, const WalkOptions& options) {
  const auto& schema = traveller.buffer.empty() ? nullptr : traveller.buffer.front().shared_schema();
  const bool sized = traveller.belief.size() == experiment.federated.data.train->classes &&
                     traveller.seen.size() == experiment.clients() && traveller.buffer_size >= options.buffer &&
                     traveller.buffer_size <= options.max_buffer && traveller.buffer.size() < traveller.buffer_size;
  const bool counted = traveller.visits <= traveller.moves && traveller.round >= 1 &&
                       traveller.round <= traveller.visits + 1 && traveller.round_began <= traveller.visits &&
                       std::ranges::all_of(traveller.seen, [&](std::size_t at) { return at <= traveller.visits; });
  if (!sized || !counted) fail("its counters do not fit this experiment");
  const auto probability = [](double p) { return p >= 0.0 && p <= 1.0; };
  if (!std::ranges::all_of(traveller.belief, probability)) fail("its belief is not within 0 and 1");
  for (const auto& channel : traveller.state.channels()) {
    if (!finite(channel.values)) fail("its {} is not finite", channel.name);
  }
  for (const Update& update : traveller.buffer) {
    if (update.client >= experiment.clients()) fail("its buffer is of a client that is not there");
    try {
      update.check(*schema);
    } catch (const RefusedUpdate& refused) {
      fail("its buffer: {}", refused.what());
    }
  }
}

// Traveller::restore copies without asking.
void require_lengths(const ClientRecord& record, const State& state) {
  for (const auto& channel : state.channels()) {
    const auto found = record.find(channel.name);
    if (found == record.end() || found->second.size() != channel.values.size()) {
      fail("its {} does not fit this experiment's model", channel.name);
    }
  }
}

}  // namespace

Shelf::Shelf(fs::path folder, std::string run, const Experiment& experiment, const Hosting& hosting)
    : folder_(made(std::move(folder))),
      run_(std::move(run)),
      experiment_(experiment),
      hosting_(hosting),
      lock_(folder_),
      journey_(journey_of(experiment, hosting)),
      entries_(hosting.options().models) {
  // A state, and a buffer of updates as long as it can become; every number as four bytes, and room for the counters.
  const std::size_t plain =
      starting_state(experiment.server_setup()).channels().size() * experiment.layout->size() * sizeof(float);
  longest_ = plain + hosting.options().max_buffer * 2 * Update(hosting.schema()).wire_bytes() +
             experiment.clients() * 24 + (std::size_t{1} << 20);
  for (std::size_t model = 0; model < entries_.size(); ++model) {
    const fs::path file = note_of(model);
    if (!fs::exists(file)) continue;
    try {
      const Json note = Json::parse(read_file(file));
      if (note.at("run").get<std::string>() != run_) {
        fail("{}: this peer's folder is of another experiment, or of another list of peers; use another --out",
             folder_.string());
      }
      entries_[model] = {standing_of(note.at("standing").get<std::string>()), note.at("moves").get<std::size_t>(),
                         note.at("peer").get<std::string>()};
    } catch (const Json::exception& error) {
      fail("{}: damaged ({})", file.string(), error.what());
    }
  }
}

fs::path Shelf::note_of(std::size_t model) const {
  return folder_ / fmt::format("{}.json", model);
}

fs::path Shelf::carried_by(std::size_t model, std::size_t moves) const {
  return folder_ / fmt::format("{}.{}.safetensors", model, moves);
}

void Shelf::write(std::size_t model, const Traveller& traveller) const {
  const ClientRecord record = traveller.record();
  std::vector<TensorView> tensors;
  for (const auto& [name, values] : record) {
    tensors.push_back({name, {static_cast<std::int64_t>(values.size())}, values});
  }
  write_safetensors(real_files(), carried_by(model, traveller.moves), tensors,
                    {{"run", run_}, {"model", std::to_string(model)}, {"progress", traveller.progress().dump()}});
}

// What the note no longer speaks of is removed after it: never before there is something in its place.
void Shelf::note(std::size_t model, ShelfEntry entry) {
  real_files().replace(
      note_of(model),
      Json{{"run", run_}, {"standing", text_of(entry.standing)}, {"moves", entry.moves}, {"peer", entry.peer}}.dump() +
          "\n");
  const fs::path kept = entry.standing == Standing::gone ? "" : carried_by(model, entry.moves);
  const std::string prefix = fmt::format("{}.", model);
  for (const auto& file : fs::directory_iterator(folder_)) {
    const std::string name = file.path().filename().string();
    if (name.starts_with(prefix) && name.ends_with(".safetensors") && file.path() != kept) fs::remove(file.path());
  }
  entries_[model] = std::move(entry);
}

ShelfEntry Shelf::at(std::size_t model) const {
  const std::lock_guard lock(mutex_);
  return entries_[model];
}

bool Shelf::all_final() const {
  const std::lock_guard lock(mutex_);
  return std::ranges::all_of(entries_, [](const auto& entry) { return entry.standing == Standing::final; });
}

std::string Shelf::parcel(std::size_t model) const {
  const std::lock_guard lock(mutex_);
  return read_file(carried_by(model, entries_[model].moves));
}

Traveller Shelf::load(std::size_t model, std::size_t node) const {
  const std::lock_guard lock(mutex_);
  const fs::path file = carried_by(model, entries_[model].moves);
  try {
    Traveller traveller = unpack(model, entries_[model].moves, read_file(file));
    traveller.host = traveller.sender = node;
    return traveller;
  } catch (const std::exception& error) {
    fail("{}: damaged ({}); restore it, or this model is lost", file.string(), error.what());
  }
}

Traveller Shelf::unpack(std::size_t model, std::size_t moves, const std::string& bytes) const {
  const TensorFile file = parse_safetensors(bytes, "the model");
  file.require_checksum("the model");
  const auto said = [&](const char* key) {
    const auto found = file.metadata.find(key);
    if (found == file.metadata.end()) fail("it does not say its {}", key);
    return found->second;
  };
  if (said("run") != run_) fail("it is of another experiment");
  if (said("model") != std::to_string(model)) fail("it is another model");
  ClientRecord record;
  for (const auto& [name, tensor] : file.tensors) record[name] = tensor.values;
  Traveller traveller = hosting_.new_traveller(model, 0);
  require_lengths(record, traveller.state);
  traveller.restore(record, Json::parse(said("progress")), hosting_.schema());
  if (traveller.moves != moves) fail("it has made {} moves, and not {}", traveller.moves, moves);
  require_sense(traveller, experiment_, hosting_.options());
  return traveller;
}

void Shelf::hold(std::size_t model, const Traveller& newborn) {
  const std::lock_guard lock(mutex_);
  write(model, newborn);
  note(model, {.standing = Standing::held, .moves = newborn.moves});
}

bool Shelf::leave(std::size_t model, const Traveller& traveller) {
  const std::lock_guard lock(mutex_);
  if (entries_[model].standing != Standing::held) return false;
  write(model, traveller);
  note(model, {.standing = Standing::leaving, .moves = traveller.moves});
  return true;
}

bool Shelf::finish(std::size_t model, const Traveller& traveller, const std::string& self) {
  const std::lock_guard lock(mutex_);
  if (entries_[model].standing != Standing::held) return false;
  write(model, traveller);
  note(model, {.standing = Standing::final, .moves = traveller.moves, .peer = self});
  return true;
}

bool Shelf::promise(std::size_t model, const std::string& to) {
  const std::lock_guard lock(mutex_);
  if (entries_[model].standing != Standing::leaving) return false;
  note(model, {.standing = Standing::promised, .moves = entries_[model].moves, .peer = to});
  return true;
}

bool Shelf::take_back(std::size_t model) {
  const std::lock_guard lock(mutex_);
  if (entries_[model].standing != Standing::promised) return false;
  note(model, {.standing = Standing::leaving, .moves = entries_[model].moves});
  return true;
}

bool Shelf::let_go(std::size_t model) {
  const std::lock_guard lock(mutex_);
  if (entries_[model].standing == Standing::final) return false;
  note(model, {.standing = Standing::gone, .moves = entries_[model].moves});
  return true;
}

// --- What others ask ---

Receipt Shelf::judge(std::size_t model, std::size_t moves, std::size_t length, const std::string& from,
                     bool final) const {
  if (model >= entries_.size()) return {.refusal = fmt::format("there are {} models here", entries_.size())};
  if (length > longest_) return {.refusal = fmt::format("{} bytes are more than any model here has", length)};
  const ShelfEntry& entry = entries_[model];
  if (moves == 0 || moves > journey_ || final != (moves == journey_)) {
    return {.refusal = fmt::format("move {} is not on this model's journey of {}", moves, journey_)};
  }
  if (final) return {};
  const bool again = entry.standing == Standing::pending && entry.moves == moves && entry.peer == from;
  if (moves <= entry.moves && !again) {
    return {.refusal = fmt::format("this is move {} of model {}, and here move {} is known: it is stale", moves, model,
                                   entry.moves),
            .stale = true};
  }
  if (entry.standing == Standing::held || entry.standing == Standing::leaving) {
    return {.refusal = fmt::format("model {} is here, after move {}; it cannot be elsewhere", model, entry.moves)};
  }
  return {};
}

Receipt Shelf::would_take(std::size_t model, std::size_t moves, std::size_t length, const std::string& from,
                          bool final) const {
  const std::lock_guard lock(mutex_);
  return judge(model, moves, length, from, final);
}

Receipt Shelf::take_in(std::size_t model, std::size_t moves, const std::string& from, bool final,
                       const std::string& bytes) {
  const std::lock_guard lock(mutex_);
  if (Receipt judged = judge(model, moves, bytes.size(), from, final); !judged.refusal.empty()) return judged;
  if (entries_[model].standing == Standing::final) return {};  // it has heard
  try {
    write(model, unpack(model, moves, bytes));
    note(model, {.standing = final ? Standing::final : Standing::pending, .moves = moves, .peer = from});
    return {};
  } catch (const RunError& full) {
    return {.refusal = full.what()};
  } catch (const std::exception& error) {
    std::string why = error.what();  // which may quote what came; reasons go into logs and messages
    std::ranges::replace_if(
        why, [](char c) { return c < ' ' || c > '~'; }, '?');
    return {.refusal = fmt::format("what came is not model {}: {}", model, why)};
  }
}

Receipt Shelf::commit(std::size_t model, std::size_t moves, const std::string& from) {
  const std::lock_guard lock(mutex_);
  if (model >= entries_.size()) return {.refusal = fmt::format("there are {} models here", entries_.size())};
  const ShelfEntry& entry = entries_[model];
  const bool pending = entry.standing == Standing::pending;
  if (entry.moves > moves || (entry.moves == moves && !pending)) return {};  // it was heard before
  if (!pending || entry.moves != moves || entry.peer != from) {
    return {.refusal = fmt::format("model {} with move {} is not here", model, moves), .missing = true};
  }
  try {
    note(model, {.standing = Standing::held, .moves = moves});
    return {};
  } catch (const RunError& full) {
    return {.refusal = full.what()};
  }
}

}  // namespace parley::wire
