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

// Whatever is cut off or flipped, in the numbers or in the header, is found.
RC_GTEST_PROP(Safetensors, EveryDamageIsFound, ()) {
  const TempFolder folder;
  const Layout layout = two_layers();
  const Flat values = counting(layout.size());
  const std::string checksum = write_safetensors(real_files(), folder / "m", views_of(layout, values));
  std::string bytes = read_file(folder / "m");
  RC_ASSERT(parse_safetensors(bytes, "m").checksum == checksum);
  const auto at = *rc::gen::inRange<std::size_t>(0, bytes.size());
  if (*rc::gen::arbitrary<bool>()) {
    bytes.resize(at);
  } else {
    bytes[at] = static_cast<char>(bytes[at] ^ *rc::gen::inRange(1, 256));
  }
  RC_ASSERT_THROWS_AS(parse_safetensors(bytes, "damaged").require_checksum("damaged"), InputError);
}

std::string with_header(const std::string& header, std::size_t data) {
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(header.size());
  return bytes + header + std::string(data, '\0');
}

std::string refusal(const std::string& bytes) {
  try {
    parse_safetensors(bytes, "m");
    return "";
  } catch (const InputError& error) {
    return error.what();
  }
}

TEST(Safetensors, EveryByteBelongsToOneTensor) {
  const std::string a = R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  const auto b = [](int begin) {
    return fmt::format(R"("b":{{"dtype":"F32","shape":[1],"data_offsets":[{},{}]}})", begin, begin + 4);
  };
  EXPECT_EQ(refusal(with_header("{" + a + "," + b(4) + "}", 8)), "");
  EXPECT_EQ(refusal(with_header("{" + a + "," + b(0) + "}", 4)),
            "m: two tensors overlap at byte 0 of the data; the file is damaged or not safetensors");
  EXPECT_EQ(refusal(with_header("{" + a + "," + b(8) + "}", 12)),
            "m: a hole at byte 4 of the data; the file is damaged or not safetensors");
  EXPECT_EQ(refusal(with_header("{" + a + "}", 7)),
            "m: 3 bytes behind the last tensor; the file is damaged or not safetensors");
  EXPECT_EQ(refusal(with_header("{" + a + "," + a + "}", 4)),
            "m: \"a\" appears twice; the file is damaged or not safetensors");
}

TEST(Safetensors, RefusesWhatIsNotSafetensors) {
  for (const std::string& bytes :
       {std::string(), std::string("abc"), std::string(16, '\xff'), std::string(8, '\0') + "{}",
        with_header(std::string(120, '['), 0), std::string("\2\0\0\0\0\0\0\0[]", 10)}) {
    EXPECT_THROW(parse_safetensors(bytes, "x"), InputError);
  }
}

// A file of another program: one tensor of one number.
std::string one_number(const std::string& dtype, const std::string& bytes) {
  std::string header = fmt::format(R"({{"x":{{"dtype":"{}","shape":[],"data_offsets":[0,{}]}}}})", dtype, bytes.size());
  std::string length(8, '\0');
  length[0] = static_cast<char>(header.size());
  return length + header + bytes;
}

TEST(Safetensors, ReadsTheNumbersThatPyTorchWrites) {
  const auto number = [](const std::string& dtype, const std::string& bytes) {
    return parse_safetensors(one_number(dtype, bytes), "f").tensors.at("x").values.at(0);
  };
  EXPECT_EQ(number("F16", std::string("\0\x3e", 2)), 1.5f);
  EXPECT_EQ(number("BF16", std::string("\xc0\xbf", 2)), -1.5f);
  EXPECT_EQ(number("F64", std::string("\0\0\0\0\0\0\xf8\x3f", 8)), 1.5f);
  EXPECT_EQ(number("I64", std::string("\7\0\0\0\0\0\0\0", 8)), 7.0f);  // num_batches_tracked
  EXPECT_EQ(number("BOOL", "\1"), 1.0f);
  EXPECT_THROW(parse_safetensors(one_number("F8_E4M3", "a"), "f"), InputError);
  EXPECT_THROW(parse_safetensors(one_number("F64", "abcd"), "f"), InputError);
}

TEST(Safetensors, TiedWeightsStandUnderEachOfTheirNames) {
  const Layout tied({{.name = "a", .shape = {2}, .aliases = {"b"}}});
  const TempFolder folder;
  const Flat values{1, 2};
  write_safetensors(real_files(), folder / "f", views_of(tied, values));
  TensorFile file = read_safetensors(folder / "f");
  EXPECT_EQ(file.tensors.at("b").values, values);
  EXPECT_EQ(assemble(file, tied, "f"), values);
  file.tensors.at("b").values[0] = 5;
  EXPECT_THROW(assemble(file, tied, "f"), InputError) << "they differ";
  file.tensors.erase("a");
  EXPECT_EQ(assemble(file, tied, "f"), (Flat{5, 2})) << "one of its names is enough";
}

}  // namespace
}  // namespace parley
