#include "parley/wire/facts.h"

#include "parley/store/run_folder.h"

namespace parley::wire {
namespace {

std::string to_text(const DataMoments& moments) {
  const auto write = [](const std::vector<Moments>& given) {
    Json list = Json::array();
    for (const auto& m : given) list.push_back({m.mean, m.variance});
    return list;
  };
  return Json{{"inputs", write(moments.inputs)}, {"targets", write(moments.targets)}}.dump();
}

DataMoments moments_from(const std::string& text) {
  const Json json = Json::parse(text);
  const auto read = [](const Json& list) {
    std::vector<Moments> moments;
    for (const auto& pair : list) moments.push_back({pair.at(0).get<double>(), pair.at(1).get<double>()});
    return moments;
  };
  return {read(json.at("inputs")), read(json.at("targets"))};
}

}  // namespace

Agreement agreement_in(const v1::Facts& facts) {
  return {.layout = facts.layout(),
          .initial = facts.initial(),
          .settings = facts.settings(),
          .task = facts.task(),
          .classes = {facts.classes().begin(), facts.classes().end()},
          .columns = {facts.columns().begin(), facts.columns().end()}};
}

DataMoments moments_in(const v1::Facts& facts) {
  const auto read = [](const auto& given) {
    std::vector<Moments> moments;
    for (const auto& m : given) moments.push_back({m.mean(), m.variance()});
    return moments;
  };
  return {read(facts.inputs()), read(facts.targets())};
}

std::string to_text(const v1::Facts& facts) {
  if (facts.relayed().empty()) return to_text(moments_in(facts));
  Json said = Json::parse(to_text(moments_in(facts)));
  said["relayed"] = std::vector<std::size_t>(facts.relayed().begin(), facts.relayed().end());
  return said.dump();
}

std::vector<std::size_t> relayed_from(const std::string& text) {
  return Json::parse(text).value("relayed", std::vector<std::size_t>());
}

void fill(v1::Affine& to, const Affine& from) {
  to.mutable_scale()->Add(from.scale.begin(), from.scale.end());
  to.mutable_shift()->Add(from.shift.begin(), from.shift.end());
}

Scales agreed_scales(std::span<const Member> members, const WantedMoments& wanted, const Scales& given) {
  Scales scales = given;
  std::vector<MeasuredPart> inputs, targets;
  for (const Member& member : members) {
    DataMoments moments = moments_from(member.moments);
    inputs.push_back({member.examples, std::move(moments.inputs)});
    targets.push_back({member.examples, std::move(moments.targets)});
  }
  if (wanted.inputs > 0) scales.inputs = standardizer(inputs);
  if (wanted.targets > 0) scales.targets = standardizer(targets);
  return scales;
}

}  // namespace parley::wire
