#include "parley/base/nesting.h"

#include <gtest/gtest.h>

#include "parley/base/errors.h"

namespace parley {
namespace {

std::string refusal(void (*check)(std::string_view, const std::string&), const std::string& text) {
  try {
    check(text, "file");
    return "";
  } catch (const InputError& error) {
    return error.what();
  }
}

TEST(Nesting, JsonIsCountedOutsideItsTexts) {
  EXPECT_EQ(refusal(refuse_deep_json, std::string(64, '[') + std::string(64, ']')), "");
  EXPECT_NE(refusal(refuse_deep_json, std::string(65, '[')), "");
  EXPECT_NE(refusal(refuse_deep_json, std::string(100'000, '{')), "");
  EXPECT_EQ(refusal(refuse_deep_json, "\"\\\"" + std::string(100, '[') + "\""), "");
  EXPECT_NE(refusal(refuse_deep_json, "\"\\\\\"" + std::string(100, '[')), "");
}

TEST(Nesting, TomlKeysHaveFewParts) {
  std::string key = "a";
  for (int i = 0; i < 50'000; ++i) key += ".a";
  EXPECT_EQ(refusal(refuse_deep_toml, "[run]\n" + key + " = 1\n"),
            "file:2: a key of more than 16 parts; expected section.key = value");
  EXPECT_NE(refusal(refuse_deep_toml, "[" + key + "]\n"), "");
  EXPECT_NE(refusal(refuse_deep_toml, "x = " + std::string(100, '[')), "");
  EXPECT_EQ(refusal(refuse_deep_toml, "x = '" + std::string(100, '.') + "' # " + std::string(100, '.')), "");
  EXPECT_EQ(refusal(refuse_deep_toml, "x = \"\"\"\n\"" + std::string(100, '.') + "\"\"\"\n"), "");
  EXPECT_EQ(refusal(refuse_deep_toml,
                    "x = [1.5, 2.5, 3.5, 4.5, 1.5, 2.5, 3.5, 4.5, 1.5, 2.5, 3.5, 4.5, 1.5, 2.5, 3.5, 4.5, 1.5]"),
            "");
}

}  // namespace
}  // namespace parley
