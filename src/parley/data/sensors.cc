// The named data sets that sensors have measured.
#include <algorithm>

#include "parley/base/errors.h"
#include "parley/data/formats.h"
#include "parley/data/locate.h"
#include "parley/data/read/eeg.h"
#include "parley/data/read/hapt.h"
#include "parley/data/read/labels.h"
#include "parley/data/read/vsn.h"
#include "parley/data/select.h"
#include "parley/data/split.h"
#include "parley/data/window_statistics.h"

namespace parley {
namespace {

namespace fs = std::filesystem;

// ── har ──

// Walking, sitting and so on, without the changes from one to another.
constexpr std::size_t kLastingActivities = 6;

const std::vector<std::string> kActivityNames = {"walking",  "upstairs", "downstairs", "sitting",
                                                 "standing", "lying",    "stand-sit",  "sit-stand",
                                                 "sit-lie",  "lie-sit",  "stand-lie",  "lie-stand"};

std::vector<std::uint32_t> rows_of_activities(const Dataset& windows, std::span<const std::uint32_t> rows,
                                              std::size_t activities) {
  std::vector<std::uint32_t> kept;
  for (const auto row : rows) {
    if (static_cast<std::size_t>(windows.labels[row]) < activities) kept.push_back(row);
  }
  return kept;
}

void replace_by_statistics(Dataset& data) {
  const auto& windows = std::get<Values<float>>(data.values);
  const std::size_t width = data.features();
  std::vector<float> values;
  values.reserve(data.size() * kWindowStatistics);
  for (std::size_t row = 0; row < data.size(); ++row) {
    const auto statistics = window_statistics(std::span(windows).subspan(row * width, width));
    values.insert(values.end(), statistics.begin(), statistics.end());
  }
  data.values = std::move(values);
  data.shape = {kWindowStatistics};
}

}  // namespace

TrainTest load_har(const Options& options, const DataRoots& roots) {
  const auto activities = static_cast<std::size_t>(options.integer("activities"));
  if (activities != kLastingActivities && activities != kActivityNames.size()) {
    fail("data.activities: {}; expected {} (walking to lying) or {} (also the changes between them)", activities,
         kLastingActivities, kActivityNames.size());
  }
  const fs::path folder = folder_with(roots, "har", "har_hapt", "RawData/labels.txt",
                                      "unpack HAPT there (UCI, Smartphone-Based Recognition of Human Activities and "
                                      "Postural Transitions)");
  Dataset windows = read_hapt_windows(folder);
  const auto train_rows = rows_of_activities(windows, published_rows(windows, folder, "train"), activities);
  const auto test_rows = rows_of_activities(windows, published_rows(windows, folder, "test"), activities);
  windows.content = Content::measurements;
  windows.classes = activities;
  windows.class_names.assign(kActivityNames.begin(), kActivityNames.begin() + static_cast<std::ptrdiff_t>(activities));
  if (options.text("features") == "statistics") replace_by_statistics(windows);
  if (options.text("split") == "publisher") {
    return share(select_rows(windows, train_rows), select_rows(windows, test_rows));
  }
  std::vector<std::uint32_t> everybody = train_rows;
  everybody.insert(everybody.end(), test_rows.begin(), test_rows.end());
  return split_each_user(select_rows(windows, everybody), options);
}

TrainTest load_vsn(const Options& options, const DataRoots& roots) {
  const fs::path folder = folder_with(roots, "vsn", "vsn", "aav3", "unpack the vehicle sensor network's runs there");
  return split_each_user(read_vsn(folder), options);
}

TrainTest load_eeg(const Options& options, const DataRoots& roots) {
  const auto channels = static_cast<std::size_t>(options.integer("channels"));
  const auto decimate = static_cast<std::size_t>(options.integer("decimate"));
  if (kEegSamples % decimate != 0) {
    fail("data.decimate: {} does not divide the {} samples of a trial; expected 1, 2, 4, …", decimate, kEegSamples);
  }
  const fs::path folder = folder_with(roots, "eeg", "eeg", "train.csv", "put the trials of UCI's EEG Database there");
  EegTrials train = read_eeg(folder / "train.csv", channels, decimate);
  EegTrials test = read_eeg(folder / "test.csv", channels, decimate);
  NumberedUsers users = number_users(train.subjects, test.subjects);
  train.data.users = std::move(users.train);
  test.data.users = std::move(users.test);
  return share(std::move(train.data), std::move(test.data));
}

}  // namespace parley
