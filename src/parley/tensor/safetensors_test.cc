#include "parley/tensor/safetensors.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "parley/base/errors.h"
#include "parley/base/temp_folder.h"

namespace parley {
namespace {

Layout two_layers() {
  return Layout({{"bn.running_mean", {2}, Role::running_mean}, {"fc.weight", {2, 3}}, {"fc.bias", {2}, Role::bias}});
}

Flat counting(std::size_t n) {
  Flat values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<float>(i) + 0.5f;
  return values;
}

TEST(Layout, PutsWhatIsTrainedFirst) {
  const Layout layout = two_layers();
  EXPECT_EQ(layout.size(), 10u);
  EXPECT_EQ(layout.trainable(), 8u);
  EXPECT_EQ(layout.entries().front().name, "fc.weight");
  EXPECT_EQ(layout.find("bn.running_mean")->offset, 8u);
  EXPECT_EQ(layout.find("nothing"), nullptr);
}

TEST(Layout, PairsRunningStatisticsByTheirLayer) {
  const Layout layout({{"b.running_var", {3}, Role::running_var},
                       {"a.running_mean", {2}, Role::running_mean},
                       {"a.weight", {2}, Role::norm_scale},
                       {"b.running_mean", {3}, Role::running_mean},
                       {"a.running_var", {2}, Role::running_var},
                       {"alone.running_var", {2}, Role::running_var},
                       {"measured", {2}, Role::running_mean}});
  const auto pairs = running_pairs(layout);
  ASSERT_EQ(pairs.size(), 2u);
  EXPECT_EQ(pairs[0].mean.name, "b.running_mean");
  EXPECT_EQ(pairs[0].var.name, "b.running_var");
  EXPECT_EQ(pairs[1].mean.name, "a.running_mean");
  EXPECT_EQ(pairs[1].var.offset, layout.find("a.running_var")->offset);
  EXPECT_TRUE(running_pairs(two_layers()).empty());
}

TEST(Safetensors, RoundTripsEveryBit) {
  const TempFolder folder;
  const Layout layout = two_layers();
  const Flat values = counting(layout.size());
  write_safetensors(real_files(), folder / "m", views_of(layout, values, "p/"), {{"k", "v"}});
  const TensorFile file = read_safetensors(folder / "m");
  EXPECT_EQ(assemble(file, layout, "m", "p/"), values);
  EXPECT_EQ(file.metadata.at("k"), "v");
}

TEST(Safetensors, AssembleNamesWhatIsMissingOrMisshapen) {
  const TempFolder folder;
  const Layout layout = two_layers();
  const Flat values = counting(layout.size());
  write_safetensors(real_files(), folder / "m", views_of(layout, values));
  const TensorFile file = read_safetensors(folder / "m");
  const auto message = [&](const Layout& wanted) {
    try {
      assemble(file, wanted, "init.safetensors");
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(message(Layout({{"fc.weight", {3, 2}}})),
            "init.safetensors: tensor 'fc.weight' has shape [2, 3]; the model expects [3, 2]");
  EXPECT_TRUE(
      message(Layout({{"fc2.weight", {3, 2}}})).starts_with("init.safetensors: tensor 'fc2.weight' is missing"));
}

// Whatever is cut off or flipped, the reader answers with an InputError or a file of the right form, never a crash.
RC_GTEST_PROP(Safetensors, SurvivesDamage, ()) {
  const TempFolder folder;
  const Layout layout = two_layers();
  const Flat values = counting(layout.size());
  write_safetensors(real_files(), folder / "m", views_of(layout, values));
  std::string bytes = read_file(folder / "m");
  const auto at = *rc::gen::inRange<std::size_t>(0, bytes.size());
  if (*rc::gen::arbitrary<bool>()) {
    bytes.resize(at);
  } else {
    bytes[at] = *rc::gen::arbitrary<char>();
  }
  try {
    const TensorFile file = parse_safetensors(bytes, "damaged");
    for (const auto& [name, tensor] : file.tensors) {
      std::size_t count = 1;
      for (const auto extent : tensor.shape) count *= static_cast<std::size_t>(extent);
      RC_ASSERT(count == tensor.values.size());
    }
  } catch (const InputError&) {
  }
}

TEST(Safetensors, RefusesWhatIsNotSafetensors) {
  for (const std::string& bytes : {std::string(), std::string("abc"), std::string(16, '\xff'),
                                   std::string(8, '\0') + "{}", std::string("\2\0\0\0\0\0\0\0[]", 10)}) {
    EXPECT_THROW(parse_safetensors(bytes, "x"), InputError);
  }
}

}  // namespace
}  // namespace parley
