#include "parley/data/read/hapt.h"

#include <algorithm>
#include <set>

#include "parley/base/errors.h"
#include "parley/data/read/numbers.h"
#include "parley/data/window_statistics.h"

namespace parley {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kAxesOfSensor = 3;
constexpr std::size_t kStep = 64;
constexpr std::int32_t kActivities = 12;

struct Segment {
  std::int32_t experiment, user, activity, first, last;  // a line of labels.txt
};

std::vector<Segment> read_segments(const fs::path& path) {
  constexpr std::size_t kColumns = 5;
  const std::vector<std::int32_t> numbers = read_number_table<std::int32_t>(path, kColumns);
  std::vector<Segment> segments;
  for (std::size_t i = 0; i < numbers.size(); i += kColumns) {
    segments.push_back({numbers[i], numbers[i + 1], numbers[i + 2], numbers[i + 3], numbers[i + 4]});
    const Segment& s = segments.back();
    if (s.activity < 1 || s.activity > kActivities || s.first < 1 || s.last < s.first) {
      fail("{}:{}: activity {}, samples {} to {}; expected an activity from 1 to {} and 1 ≤ first ≤ last",
           path.string(), segments.size(), s.activity, s.first, s.last, kActivities);
    }
  }
  return segments;
}

// The two sensors of one experiment, sample by sample.
struct Recording {
  std::vector<float> acc, gyro;
  std::size_t samples() const { return acc.size() / kAxesOfSensor; }
};

Recording read_recording(const fs::path& raw, const Segment& of) {
  const auto file = [&](const char* sensor) {
    return raw / fmt::format("{}_exp{:02}_user{:02}.txt", sensor, of.experiment, of.user);
  };
  Recording recording{read_number_table<float>(file("acc"), kAxesOfSensor),
                      read_number_table<float>(file("gyro"), kAxesOfSensor)};
  if (recording.gyro.size() != recording.acc.size()) {
    fail("{}: {} samples, but {} has {}; expected as many", file("gyro").string(),
         recording.gyro.size() / kAxesOfSensor, file("acc").string(), recording.samples());
  }
  return recording;
}

void append_window(const Recording& recording, std::size_t start, std::vector<float>& values) {
  for (const auto* sensor : {&recording.acc, &recording.gyro}) {
    for (std::size_t axis = 0; axis < kAxesOfSensor; ++axis) {
      for (std::size_t t = start; t < start + kMovementSamples; ++t)
        values.push_back((*sensor)[t * kAxesOfSensor + axis]);
    }
  }
}

}  // namespace

Dataset read_hapt_windows(const fs::path& folder) {
  const fs::path raw = folder / "RawData";
  const std::vector<Segment> segments = read_segments(raw / "labels.txt");
  Dataset data;
  data.shape = {kMovementAxes, 1, kMovementSamples};
  data.classes = kActivities;
  std::vector<float> values;
  Recording recording;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const Segment& s = segments[i];
    if (i == 0 || s.experiment != segments[i - 1].experiment || s.user != segments[i - 1].user) {
      recording = read_recording(raw, s);
    }
    const auto end = static_cast<std::size_t>(s.last);
    if (end > recording.samples()) {
      fail("{}:{}: samples up to {}, but experiment {} has {}", (raw / "labels.txt").string(), i + 1, end, s.experiment,
           recording.samples());
    }
    for (std::size_t start = static_cast<std::size_t>(s.first - 1); start + kMovementSamples <= end; start += kStep) {
      append_window(recording, start, values);
      data.labels.push_back(s.activity - 1);
      data.users.push_back(s.user);
    }
  }
  data.values = std::move(values);
  return data;
}

std::vector<std::uint32_t> published_rows(const Dataset& windows, const fs::path& folder, const std::string& part) {
  const fs::path where = folder / (part == "train" ? "Train" : "Test");
  const fs::path subject_file = where / fmt::format("subject_id_{}.txt", part);
  const fs::path label_file = where / fmt::format("y_{}.txt", part);
  const auto subjects = read_number_table<std::int32_t>(subject_file, 1);
  const auto labels = read_number_table<std::int32_t>(label_file, 1);
  const std::set<std::int32_t> members(subjects.begin(), subjects.end());
  std::vector<std::uint32_t> rows;
  for (std::uint32_t i = 0; i < windows.users.size(); ++i) {
    if (members.contains(windows.users[i])) rows.push_back(i);
  }
  if (subjects.size() != rows.size() || labels.size() != rows.size()) {
    fail("{} and {}: {} and {} lines, but the recordings of these subjects give {} windows; unpack the data set again",
         subject_file.string(), label_file.string(), subjects.size(), labels.size(), rows.size());
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::int32_t user = windows.users[rows[i]], activity = windows.labels[rows[i]] + 1;
    if (subjects[i] == user && labels[i] == activity) continue;
    fail(
        "{}:{}: subject {}, activity {}, but the window of the recordings is subject {}, activity {}; the files do not "
        "belong together",
        label_file.string(), i + 1, subjects[i], labels[i], user, activity);
  }
  return rows;
}

}  // namespace parley
