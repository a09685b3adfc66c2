#include "parley/wire/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "parley/base/errors.h"
#include "parley/base/files.h"
#include "parley/tensor/safetensors.h"
#include "parley/update/broadcast.h"

namespace parley::wire {
namespace {

namespace fs = std::filesystem;
namespace pb = parley::wire::v1;

State state_of(const Flat& values, const std::shared_ptr<const Layout>& layout) {
  State state;
  state.add("theta", layout, /*broadcast=*/true, values);
  return state;
}

void require_weights(std::span<const float> values, const Layout& model) {
  if (values.size() != model.size()) fail("{} weights, and this model has {}", values.size(), model.size());
  if (!std::ranges::all_of(values, [](float value) { return std::isfinite(value); })) fail("a weight is not finite");
}

// No weights of this model need more: a number, a name, a length each.
std::size_t longest(const Layout& model) {
  return model.size() * sizeof(float) + 256;
}

fs::path made(fs::path folder) {
  make_folder(folder);
  return folder;
}

}  // namespace

Bytes encode(const Weights& weights, const std::shared_ptr<const Layout>& layout) {
  return Broadcast(state_of(weights.values, layout), weights.number).encode();
}

void Incoming::add(const pb::PeerWeights& part) {
  if (assembly_) {
    assembly_->add(offset_, part.chunk());
    offset_ += part.chunk().size();
    return;
  }
  if (!part.refusal().empty()) fail("{}", part.refusal());
  if (!part.chunk().empty()) fail("weights must be announced before they are sent");
  if (part.length() > longest(model_)) fail("{} bytes are more than this model's weights have", part.length());
  if (!pb::PeerWeights::Kind_IsValid(part.kind())) fail("what comes is of kind {}, which is unknown", part.kind());
  kind_ = part.kind();
  length_ = part.length();
  assembly_.emplace(length_);
}

std::optional<Weights> Incoming::take() {
  if (!assembly_) fail("nothing came");
  if (!assembly_->complete()) fail("the weights were cut off after {} of {} bytes", offset_, length_);
  const bool expected = kind_ == pb::PeerWeights::OFFER || kind_ == pb::PeerWeights::START;
  if (expected != (length_ > 0))
    fail("{} bytes came where {} expected", length_, expected ? "weights were" : "none was");
  if (!expected) return {};
  const Broadcast broadcast = Broadcast::decode(assembly_->take());
  std::span<const float> theta;
  try {
    theta = broadcast.at("theta");
  } catch (const std::logic_error&) {
    fail("what came holds no weights");
  }
  require_weights(theta, model_);
  return Weights{.number = broadcast.number(), .values = Flat(theta.begin(), theta.end())};
}

HomeFile::HomeFile(fs::path folder, std::string run, const Layout& model)
    : folder_(made(std::move(folder))),
      file_(folder_ / "own.safetensors"),
      run_(std::move(run)),
      model_(model),
      lock_(folder_) {}

void HomeFile::save(const Home& home) const {
  const auto tensor = [](const char* name, const Flat& values) {
    return TensorView{name, {static_cast<std::int64_t>(values.size())}, values};
  };
  std::vector<TensorView> tensors = {tensor("theta", home.theta)};
  if (!home.offered.empty()) tensors.push_back(tensor("offered", home.offered));
  write_safetensors(real_files(), file_, tensors,
                    {{"run", run_},
                     {"done", std::to_string(home.done)},
                     {"age", std::to_string(home.age)},
                     {"sent", std::to_string(home.sent)}});
}

std::optional<Home> HomeFile::load() const {
  if (!fs::exists(file_)) return {};
  const TensorFile file = parse_safetensors(read_file(file_), file_.string());
  file.require_checksum(file_.string());
  const auto said = [&](const char* key) {
    const auto found = file.metadata.find(key);
    if (found == file.metadata.end()) fail("{}: it does not say '{}'; restore it", file_.string(), key);
    return found->second;
  };
  if (said("run") != run_) {
    fail("{}: this peer's folder is of another experiment, or of another list of peers; use another --out",
         folder_.string());
  }
  const auto number = [&](const char* key) {
    const std::string text = said(key);
    std::size_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) {
      fail("{}: '{}' is \"{}\"; expected a number; restore it", file_.string(), key, text);
    }
    return value;
  };
  Home home{.done = number("done"), .age = number("age"), .sent = number("sent")};
  for (const auto& [name, tensor] : file.tensors) {
    if (name != "theta" && name != "offered") continue;
    require_weights(tensor.values, model_);
    (name == "theta" ? home.theta : home.offered) = tensor.values;
  }
  if (home.theta.empty()) fail("{}: it holds no weights; restore it", file_.string());
  return home;
}

}  // namespace parley::wire
