#include "parley/data/read/vsn.h"

#include <algorithm>

#include "parley/base/errors.h"
#include "parley/data/read/labels.h"
#include "parley/data/read/numbers.h"

namespace parley {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kFeatures = 50;  // of either sensor
constexpr std::size_t kAcousticColumns = 54, kSeismicColumns = 53;
const std::string kAcousticEnd = "_1_1.txt", kSeismicEnd = "_1_2.txt";

struct Recording {
  fs::path acoustic, seismic;
  std::int32_t node, vehicle;
};

// "aav3evfeat41_1_1.txt" is node 41 in the run aav3.
Recording recording_of(const fs::path& acoustic) {
  const std::string name = acoustic.filename().string();
  const std::string_view stem = std::string_view(name).substr(0, name.size() - kAcousticEnd.size());
  const std::size_t middle = stem.find("evfeat");
  const std::int32_t node = middle == stem.npos ? -1 : natural_number(stem.substr(middle + 6));
  const std::int32_t vehicle = stem.starts_with("aav") ? 0 : stem.starts_with("dw") ? 1 : -1;
  if (node < 0 || vehicle < 0) {
    fail("{}: expected a name like aav3evfeat41{} or dw12evfeat5{}", acoustic.string(), kAcousticEnd, kAcousticEnd);
  }
  return {acoustic, acoustic.parent_path() / fmt::format("{}{}", stem, kSeismicEnd), node, vehicle};
}

std::vector<Recording> find_recordings(const fs::path& folder) {
  std::vector<Recording> recordings;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().filename().string().ends_with(kAcousticEnd)) recordings.push_back(recording_of(entry.path()));
  }
  if (recordings.empty()) fail("{}: expected <run>/n<node>/*{}, found none", folder.string(), kAcousticEnd);
  std::sort(recordings.begin(), recordings.end(),
            [](const Recording& a, const Recording& b) { return a.acoustic < b.acoustic; });
  return recordings;
}

std::vector<float> read_sensor(const fs::path& path, std::size_t columns, std::int32_t vehicle) {
  std::vector<float> table = read_number_table<float>(path, columns);
  for (std::size_t row = 0; row < table.size(); row += columns) {
    if (table[row + kFeatures + static_cast<std::size_t>(vehicle)] == 1.0f) continue;
    fail("{}:{}: expected a 1 in column {}, as the run's name says; the file is damaged", path.string(),
         row / columns + 1, kFeatures + 1 + static_cast<std::size_t>(vehicle));
  }
  return table;
}

void append(const Recording& recording, std::vector<float>& values, Dataset& data) {
  const auto acoustic = read_sensor(recording.acoustic, kAcousticColumns, recording.vehicle);
  const auto seismic = read_sensor(recording.seismic, kSeismicColumns, recording.vehicle);
  const std::size_t rows = acoustic.size() / kAcousticColumns;
  if (seismic.size() / kSeismicColumns != rows) {
    fail("{}: {} rows, but {} has {}; expected as many", recording.seismic.string(), seismic.size() / kSeismicColumns,
         recording.acoustic.string(), rows);
  }
  for (std::size_t row = 0; row < rows; ++row) {
    const float *a = &acoustic[row * kAcousticColumns], *s = &seismic[row * kSeismicColumns];
    values.insert(values.end(), a, a + kFeatures);
    values.insert(values.end(), s, s + kFeatures);
  }
  data.labels.insert(data.labels.end(), rows, recording.vehicle);
  data.users.insert(data.users.end(), rows, recording.node);
}

}  // namespace

Dataset read_vsn(const fs::path& folder) {
  Dataset data;
  data.shape = {2 * kFeatures};
  data.content = Content::measurements;
  data.classes = 2;
  data.class_names = {"assault vehicle", "dragon wagon"};
  std::vector<float> values;
  for (const auto& recording : find_recordings(folder)) append(recording, values, data);
  data.values = std::move(values);
  return data;
}

}  // namespace parley
