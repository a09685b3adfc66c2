#include "parley/data/read/eeg.h"

#include <cassert>

#include "parley/base/errors.h"
#include "parley/data/read/bytes.h"
#include "parley/data/read/csv_records.h"
#include "parley/data/read/labels.h"
#include "parley/data/read/numbers.h"

namespace parley {
namespace {

enum Column : std::size_t { kFile, kSubject, kGroup, kCondition, kTrial, kChannel, kElectrode, kFirstSample };
using Fields = std::vector<std::string_view>;

struct Place {
  const std::string& name;
  std::size_t line;
};

std::int32_t label_of(std::string_view group, const Place& place) {
  if (group == "a") return 0;
  if (group == "c") return 1;
  fail("{}:{}: expected a (alcoholic) or c (control) in column {}, found '{}'", place.name, place.line, kGroup + 1,
       group);
}

float sample(const Fields& fields, std::size_t i, const Place& place) {
  const std::string_view field = fields[kFirstSample + i];
  if (const auto value = finite_number(field)) return *value;
  fail("{}:{}: expected a finite number in column {}, found '{}'", place.name, place.line, kFirstSample + i + 1, field);
}

void check_line(const Fields& fields, std::size_t channel, const std::string& trial, const Place& place) {
  if (fields.size() != kFirstSample + kEegSamples) {
    fail("{}:{}: expected {} fields, found {}; unpack the file again", place.name, place.line,
         kFirstSample + kEegSamples, fields.size());
  }
  const bool same_trial = channel == 0 || fields[kFile] == trial;
  if (!same_trial || natural_number(fields[kChannel]) != static_cast<std::int32_t>(channel)) {
    fail("{}:{}: expected channel {}{}, found channel {} of {}; a line is missing", place.name, place.line, channel,
         channel == 0 ? "" : " of " + trial, fields[kChannel], fields[kFile]);
  }
}

void append_samples(const Fields& fields, std::size_t decimate, const Place& place, std::vector<float>& values) {
  for (std::size_t begin = 0; begin < kEegSamples; begin += decimate) {
    float sum = 0;
    for (std::size_t i = begin; i < begin + decimate; ++i) sum += sample(fields, i, place);
    values.push_back(sum / static_cast<float>(decimate));
  }
}

}  // namespace

EegTrials parse_eeg(std::string_view text, std::size_t channels, std::size_t decimate, const std::string& name) {
  assert(channels >= 1 && channels <= kEegChannels && decimate >= 1 && kEegSamples % decimate == 0);
  EegTrials trials;
  trials.data.shape = {1, static_cast<std::int64_t>(channels), static_cast<std::int64_t>(kEegSamples / decimate)};
  trials.data.content = Content::measurements;
  trials.data.classes = 2;
  trials.data.class_names = {"alcoholic", "control"};
  CsvRecords records(text, name);
  Fields fields;
  std::vector<float> values;
  std::string trial;
  std::size_t channel = 0;  // that the next line must have
  while (records.next(fields)) {
    const Place place{name, records.line()};
    check_line(fields, channel, trial, place);
    if (channel == 0) {
      trial = fields[kFile];
      trials.data.labels.push_back(label_of(fields[kGroup], place));
      trials.subjects.emplace_back(fields[kSubject]);
    }
    if (channel < channels) append_samples(fields, decimate, place, values);
    channel = (channel + 1) % kEegChannels;
  }
  if (channel != 0) fail("{}: ends after channel {} of {}; unpack the file again", name, channel - 1, trial);
  trials.data.values = std::move(values);
  return trials;
}

EegTrials read_eeg(const std::filesystem::path& path, std::size_t channels, std::size_t decimate) {
  return parse_eeg(read_unpacked(path), channels, decimate, path.string());
}

}  // namespace parley
