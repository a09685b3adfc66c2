#include "parley/data/read/npy.h"

#include <fmt/format.h>
#include <rapidcheck.h>
#include <cmath>

#include <cstring>

#include "parley/data/test_folder.h"

namespace parley {
namespace {

template <class T>
std::string raw(std::initializer_list<T> values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.begin(), bytes.size());
  return bytes;
}

std::string npy(const std::string& dtype, const std::string& shape, const std::string& values, int version = 1,
                const std::string& order = "False") {
  const std::string dict = fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': {}, }}\n", dtype, order, shape);
  std::string bytes = "\x93NUMPY";
  bytes += static_cast<char>(version);
  bytes += '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) bytes += static_cast<char>(dict.size() >> (8 * i));
  return bytes + dict + values;
}

TEST(Npy, ReadsEveryDtypeAndVersion) {
  for (const int version : {1, 2, 3}) {
    const NpyArray bytes = parse_npy(npy("|u1", "(2, 2)", "abcd", version), "x.npy");
    EXPECT_EQ(bytes.shape, (std::vector<std::int64_t>{2, 2}));
    EXPECT_EQ(std::get<0>(bytes.values), (std::vector<std::uint8_t>{'a', 'b', 'c', 'd'}));
  }
  const std::vector<float> floats{1.5f, -2.0f};
  EXPECT_EQ(std::get<1>(parse_npy(npy("<f4", "(2,)", raw({1.5f, -2.0f})), "x").values), floats);
  EXPECT_EQ(std::get<1>(parse_npy(npy("<f8", "(2,)", raw({1.5, -2.0})), "x").values), floats);
  const std::vector<std::int64_t> numbers{7, -1};
  EXPECT_EQ(std::get<2>(parse_npy(npy("<i4", "(2,)", raw<std::int32_t>({7, -1})), "x").values), numbers);
  EXPECT_EQ(std::get<2>(parse_npy(npy("<i8", "(2,)", raw<std::int64_t>({7, -1})), "x").values), numbers);
  EXPECT_EQ(parse_npy(npy("<f4", "()", raw({1.0f})), "x").shape.size(), 0u);
}

TEST(Npy, Refuses) {
  const auto refuse = [](const std::string& bytes, std::initializer_list<std::string_view> pieces) {
    expect_refusal([&] { parse_npy(bytes, "x.npy"); }, pieces);
  };
  refuse("", {"x.npy", "NUMPY"});
  refuse("not numpy at all", {"x.npy", "NUMPY"});
  refuse(npy("|u1", "(1,)", "a", 4), {"x.npy", "version 4"});
  refuse(npy(">f4", "(1,)", "abcd"), {"x.npy", "'>f4'", "newbyteorder"});
  refuse(npy("<c8", "(1,)", "abcdefgh"), {"x.npy", "'<c8'", "astype"});
  refuse(npy("", "(1,)", "a"), {"x.npy", "''", "astype"});
  refuse(npy("<f4", "(2, 2)", raw({1.f, 2.f, INFINITY, 4.f})), {"x.npy", "row 1 (from 0), value 0"});
  refuse(npy("<f4", "(3,)", raw({1.f, 2.f})), {"x.npy", "truncated", "3 values"});
  refuse(npy("<f4", "(1,)", raw({1.f, 2.f})), {"x.npy", "wrong length"});
  refuse(npy("<f4", "(x,)", raw({1.f})), {"x.npy", "'x' is no extent"});
  refuse(npy("<f4", "(-1,)", raw({1.f})), {"x.npy", "no extent"});
  refuse(npy("<f4", "7", raw({1.f})), {"x.npy", "no tuple"});
  refuse(npy("<f4", "(4611686018427387904, 8)", ""), {"x.npy", "too large"});
  refuse(npy("<f8", "(4611686018427387904,)", ""), {"x.npy", "expected"});
  refuse(npy("|u1", "(1,)", "a").substr(0, 30), {"x.npy", "longer than the file"});
}

TEST(Npy, NeverCrashes) {
  const std::string good = npy("<f4", "(2, 3)", raw({1.f, 2.f, 3.f, 4.f, 5.f, 6.f}));
  EXPECT_TRUE(rc::check("damaged npy", [&](std::size_t at, std::uint8_t byte, std::size_t length) {
    std::string bytes = good.substr(0, 1 + length % good.size());
    if (length % 2 == 0) bytes = good;
    bytes[at % bytes.size()] = static_cast<char>(byte);
    try {
      parse_npy(bytes, "f");
    } catch (const InputError&) {
    }
  }));
}

TEST(Npy, ReadsTruthValuesAndNumbersOfAnyWidth) {
  using Whole = std::vector<std::int64_t>;
  const auto values = [](const std::string& bytes) { return parse_npy(bytes, "x.npy").values; };
  EXPECT_EQ(std::get<Whole>(values(npy("|b1", "(3,)", std::string("\1\0\1", 3)))), (Whole{1, 0, 1}));
  EXPECT_EQ(std::get<Whole>(values(npy("<u2", "(2,)", std::string("\0\x80\1\0", 4)))), (Whole{32768, 1}));
  EXPECT_EQ(std::get<Whole>(values(npy("<i2", "(1,)", "\xff\xff"))), (Whole{-1}));
  EXPECT_EQ(std::get<Whole>(values(npy("|i1", "(1,)", "\xfe"))), (Whole{-2}));
  EXPECT_EQ(std::get<std::vector<float>>(values(npy("<f2", "(1,)", std::string("\0\x3e", 2)))),
            (std::vector<float>{1.5f}));
}

// x[i][j][k] = 100 i + 10 j + k, written with i running fastest.
TEST(Npy, FortranOrderIsTurnedIntoC) {
  std::vector<float> fortran, c;
  for (int k = 0; k < 4; ++k) {
    for (int j = 0; j < 3; ++j) {
      for (int i = 0; i < 2; ++i) fortran.push_back(static_cast<float>(100 * i + 10 * j + k));
    }
  }
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 3; ++j) {
      for (int k = 0; k < 4; ++k) c.push_back(static_cast<float>(100 * i + 10 * j + k));
    }
  }
  std::string bytes(reinterpret_cast<const char*>(fortran.data()), fortran.size() * sizeof(float));
  EXPECT_EQ(std::get<std::vector<float>>(parse_npy(npy("<f4", "(2, 3, 4)", bytes, 1, "True"), "x.npy").values), c);
}

}  // namespace
}  // namespace parley
