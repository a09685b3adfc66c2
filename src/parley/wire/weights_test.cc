// Weights that other peers send, and the file that a peer keeps its own in: what is taken, and every refusal.
#include "parley/wire/weights.h"

#include <gtest/gtest.h>

#include <limits>
#include <memory>

#include "parley/base/errors.h"
#include "parley/base/files.h"
#include "parley/base/temp_folder.h"

namespace parley::wire {
namespace {

namespace pb = parley::wire::v1;

std::shared_ptr<const Layout> layout_of(std::int64_t size) {
  return std::make_shared<const Layout>(std::vector<LayoutEntry>{{.name = "w", .shape = {size}}});
}

class IncomingWeights : public testing::Test {
 protected:
  pb::PeerWeights first(std::size_t length, pb::PeerWeights::Kind kind = pb::PeerWeights::OFFER) const {
    pb::PeerWeights part;
    part.set_kind(kind);
    part.set_length(length);
    return part;
  }
  pb::PeerWeights chunk(const std::string& bytes) const {
    pb::PeerWeights part;
    part.set_chunk(bytes);
    return part;
  }
  std::string bytes_of(const Weights& weights) const {
    const Bytes bytes = encode(weights, layout_of(static_cast<std::int64_t>(weights.values.size())));
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  // Why these are not taken.
  std::string refusal(const std::vector<pb::PeerWeights>& parts) const {
    try {
      Incoming incoming(*model);
      for (const auto& part : parts) incoming.add(part);
      incoming.take();
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  }
  std::string refusal(const Weights& weights) const {
    const std::string bytes = bytes_of(weights);
    return refusal({first(bytes.size()), chunk(bytes)});
  }

  std::shared_ptr<const Layout> model = layout_of(3);
  Weights good{.number = 7, .values = {1.0f, -2.0f, 0.5f}};
};

TEST_F(IncomingWeights, ArriveAsTheyWereSentInWhateverChunks) {
  const std::string bytes = bytes_of(good);
  for (const std::size_t cut : {std::size_t{1}, bytes.size() / 2, bytes.size() - 1}) {
    Incoming incoming(*model);
    for (const auto& part : {first(bytes.size()), chunk(bytes.substr(0, cut)), chunk(bytes.substr(cut))})
      incoming.add(part);
    const auto weights = incoming.take();
    ASSERT_TRUE(weights.has_value());
    EXPECT_EQ(weights->number, good.number);
    EXPECT_EQ(weights->values, good.values);
  }
}

TEST_F(IncomingWeights, MayBeNone) {
  Incoming incoming(*model);
  incoming.add(first(0, pb::PeerWeights::PENDING));
  EXPECT_FALSE(incoming.take().has_value());
}

TEST_F(IncomingWeights, OfAnotherModelOrNotFiniteAreRefused) {
  EXPECT_NE(refusal({.number = 1, .values = {1.0f}}).find("1 weights, and this model has 3"), std::string::npos);
  EXPECT_NE(refusal({.values = {1.0f, std::numeric_limits<float>::infinity(), 0.0f}}).find("not finite"),
            std::string::npos);
}

TEST_F(IncomingWeights, CutOffOrTooLongAreRefused) {
  const std::string bytes = bytes_of(good);
  EXPECT_NE(refusal(std::vector<pb::PeerWeights>{}).find("nothing came"), std::string::npos);
  EXPECT_NE(refusal({chunk(bytes)}).find("announced before"), std::string::npos);
  EXPECT_NE(refusal({first(bytes.size()), chunk(bytes.substr(1))}).find("cut off"), std::string::npos);
  EXPECT_NE(refusal({first(bytes.size() - 1), chunk(bytes)}).find("beyond the announced length"), std::string::npos);
  EXPECT_NE(refusal({first(std::size_t{1} << 40)}).find("more than this model's weights"), std::string::npos);
  EXPECT_NE(refusal({first(bytes.size(), pb::PeerWeights::NONE), chunk(bytes)}).find("none was"), std::string::npos);
  EXPECT_NE(refusal({first(0)}).find("weights were"), std::string::npos);
  EXPECT_NE(refusal({first(0, static_cast<pb::PeerWeights::Kind>(9))}).find("kind 9"), std::string::npos);
}

class Homes : public testing::Test {
 protected:
  TempFolder folder;
  std::shared_ptr<const Layout> model = layout_of(2);
};

TEST_F(Homes, AreReadBackAsTheyWereKept) {
  const HomeFile file(folder.path(), "run", *model);
  EXPECT_FALSE(file.load().has_value());
  file.save({.theta = {1.0f, 2.0f}, .offered = {3.0f, 4.0f}, .done = 5, .age = 6, .sent = 7});
  const auto home = file.load();
  ASSERT_TRUE(home.has_value());
  EXPECT_EQ(home->theta, (Flat{1.0f, 2.0f}));
  EXPECT_EQ(home->offered, (Flat{3.0f, 4.0f}));
  EXPECT_EQ(home->done, 5u);
  EXPECT_EQ(home->age, 6u);
  EXPECT_EQ(home->sent, 7u);
}

TEST_F(Homes, OfAnotherRunOrDamagedAreRefused) {
  {
    const HomeFile file(folder.path(), "run", *model);
    file.save({.theta = {1.0f, 2.0f}});
    EXPECT_THROW(HomeFile(folder.path(), "run", *model), InputError);  // one peer at a time
  }
  EXPECT_THROW(HomeFile(folder.path(), "another run", *model).load(), InputError);
  const auto larger = layout_of(3);
  EXPECT_THROW(HomeFile(folder.path(), "run", *larger).load(), InputError);
  std::string bytes = read_file(folder / "own.safetensors");
  bytes.back() ^= 1;
  real_files().replace(folder / "own.safetensors", bytes);
  EXPECT_THROW(HomeFile(folder.path(), "run", *model).load(), InputError);
}

}  // namespace
}  // namespace parley::wire
