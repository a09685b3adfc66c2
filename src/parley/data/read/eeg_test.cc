#include "parley/data/read/eeg.h"

#include "parley/data/test_folder.h"

namespace parley {
namespace {

// Sample t of a channel is 1000·channel + t.
std::string line(const std::string& trial, char group, std::size_t channel) {
  std::string text = fmt::format("{},co2{}0000364,{},S1 obj,0,{},FP1", trial, group, group, channel);
  for (std::size_t t = 0; t < kEegSamples; ++t) text += fmt::format(",{}", 1000 * channel + t);
  return text + "\n";
}
std::string trial(const std::string& name, char group) {
  std::string text;
  for (std::size_t channel = 0; channel < kEegChannels; ++channel) text += line(name, group, channel);
  return text;
}

TEST(Eeg, ReadsTrialsChannelByChannel) {
  const EegTrials trials = parse_eeg(trial("Data1", 'a') + trial("Data2", 'c'), 64, 1, "t");
  EXPECT_EQ(trials.data.shape, (std::vector<std::int64_t>{1, 64, 256}));
  EXPECT_EQ(trials.data.labels, (std::vector<std::int32_t>{0, 1}));
  EXPECT_EQ(trials.subjects, (std::vector<std::string>{"co2a0000364", "co2c0000364"}));
  const auto& values = std::get<Values<float>>(trials.data.values);
  ASSERT_EQ(values.size(), 2u * 64 * 256);
  EXPECT_EQ(values[3 * 256 + 17], 3017.0f);
}

TEST(Eeg, TakesFewerElectrodesAndAveragesSamples) {
  const EegTrials trials = parse_eeg(trial("Data1", 'a') + trial("Data2", 'c'), 2, 4, "t");
  EXPECT_EQ(trials.data.shape, (std::vector<std::int64_t>{1, 2, 64}));
  const auto& values = std::get<Values<float>>(trials.data.values);
  ASSERT_EQ(values.size(), 2u * 2 * 64);
  EXPECT_EQ(values[1], 5.5f);      // of samples 4 to 7
  EXPECT_EQ(values[64], 1001.5f);  // the second electrode
}

TEST(Eeg, Refuses) {
  const auto refuse = [](const std::string& text, std::initializer_list<std::string_view> pieces) {
    expect_refusal([&] { parse_eeg(text, 64, 1, "t"); }, pieces);
  };
  const std::string first = line("Data1", 'a', 0);
  refuse(first + line("Data1", 'a', 2), {"t:2", "expected channel 1 of Data1", "found channel 2"});
  refuse(first + line("Data2", 'a', 1), {"t:2", "expected channel 1 of Data1", "of Data2"});
  refuse(line("Data1", 'a', 5), {"t:1", "expected channel 0"});
  refuse(first + "Data1,s,a\n", {"t:2", "expected 263 fields, found 3"});
  refuse(line("Data1", 'x', 0), {"t:1", "column 3", "'x'"});
  refuse(first, {"t: ends after channel 0 of Data1"});
  std::string spoilt = first;
  spoilt.replace(spoilt.find(",77,"), 4, ",7z,");
  refuse(spoilt, {"t:1", "column 85", "'7z'"});
}

}  // namespace
}  // namespace parley
