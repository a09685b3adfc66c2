// HAPT (Reyes-Ortiz et al. 2016): recordings of a telephone's accelerometer and gyroscope at 50 Hz while 30 people
// walk, climb, sit, stand, lie and change between these. RawData/{acc,gyro}_expXX_userYY.txt, three axes a line, and
// RawData/labels.txt with one segment a line: experiment, user, activity, first and last sample (from 1, both
// included).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "parley/data/dataset.h"

namespace parley {

// All windows of 128 samples, 64 apart, inside each segment, in the order of labels.txt: shape {6, 1, 128}, the
// activity from 0 as label, the subject as user. `folder` holds RawData. Throws InputError with file and line (a
// segment that the recording has not, axes that do not belong together, damaged numbers).
Dataset read_hapt_windows(const std::filesystem::path& folder);

// Whose windows the publisher put into a part, "train" or "test" (Train/subject_id_train.txt, …): the rows of `windows`
// of these subjects. Throws InputError with file and line unless the published labels are theirs, one by one.
std::vector<std::uint32_t> published_rows(const Dataset& windows, const std::filesystem::path& folder,
                                          const std::string& part);

}  // namespace parley
