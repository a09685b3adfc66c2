// EEG of alcoholic and control subjects (UCI): one line for a trial's channel, comma-separated: file, subject, a or c,
// condition, trial, channel from 0, electrode, 256 samples (one second). A trial's 64 channels follow each other.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "parley/data/dataset.h"

namespace parley {

inline constexpr std::size_t kEegChannels = 64, kEegSamples = 256;

struct EegTrials {
  Dataset data;                       // shape {1, channels, samples}; label 0 alcoholic, 1 control; no users
  std::vector<std::string> subjects;  // of each row
};

// The first `channels` electrodes of each trial, each `decimate` samples averaged to one; `decimate` divides 256.
// Throws InputError "name:line: …" (a short row, a bad number, a channel that is missing).
EegTrials parse_eeg(std::string_view text, std::size_t channels, std::size_t decimate, const std::string& name);
EegTrials read_eeg(const std::filesystem::path& path, std::size_t channels, std::size_t decimate);

}  // namespace parley
