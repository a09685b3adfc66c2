#include "parley/base/config.h"

#include <gtest/gtest.h>

#include "parley/base/errors.h"

namespace parley {
namespace {

const std::vector<Option> kClient = {
    {"lr", 0.01, "learning rate", above(0.0)},
    {"epochs", std::int64_t{1}, "passes", at_least(1)},
    {"shuffle", true, "order"},
    {"optimizer", std::string("sgd"), "which", {}, {"sgd", "adam"}},
    {"hidden", std::vector<std::int64_t>{200}, "widths", at_least(1)},
};

// The message of the InputError that `act` throws.
template <class Act>
std::string refusal(Act act) {
  try {
    act();
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

std::string resolve_client(const std::string& text) {
  return refusal([&] {
    Config config = Config::parse(text, "exp.toml");
    config.resolve("client", kClient);
    config.refuse_unknown();
  });
}

TEST(Config, FillsDefaultsAndReadsValues) {
  Config config = Config::parse("[client]\nlr = 1\nhidden = [500, 300]\n");
  const Options client = config.resolve("client", kClient);
  EXPECT_EQ(client.real("lr"), 1.0);  // a whole number is a number
  EXPECT_EQ(client.integer("epochs"), 1);
  EXPECT_TRUE(client.flag("shuffle"));
  EXPECT_EQ(client.integers("hidden"), (std::vector<std::int64_t>{500, 300}));
  EXPECT_NO_THROW(config.refuse_unknown());
}

TEST(Config, EmptyListFitsEveryListType) {
  Config config = Config::parse("[client]\nhidden = []\n");
  EXPECT_TRUE(config.resolve("client", kClient).integers("hidden").empty());
}

TEST(Config, CommandLineOverridesTheFile) {
  Config config = Config::parse("[client]\nlr = 0.5\n");
  config.set("client.lr=0.25");
  config.set("client.optimizer=adam");  // a bare word needs no quotes
  config.set("client.hidden=[10, 20]");
  const Options client = config.resolve("client", kClient);
  EXPECT_EQ(client.real("lr"), 0.25);
  EXPECT_EQ(client.text("optimizer"), "adam");
  EXPECT_EQ(client.integers("hidden"), (std::vector<std::int64_t>{10, 20}));
}

TEST(Config, RefusalsNamePlaceKeyAndRemedy) {
  EXPECT_EQ(resolve_client("[client]\n\nlr = \"fast\"\n"), "exp.toml:3: client.lr: expected a number, got \"fast\"");
  EXPECT_EQ(resolve_client("[client]\nlr = 0\n"), "exp.toml:2: client.lr: expected a number > 0, got 0.0");
  EXPECT_EQ(resolve_client("[client]\nlr = nan\n"), "exp.toml:2: client.lr: expected a number > 0, got nan");
  EXPECT_EQ(resolve_client("[client]\nepochs = 0\n"), "exp.toml:2: client.epochs: expected a whole number >= 1, got 0");
  EXPECT_EQ(resolve_client("[client]\nepochs = 1.5\n"), "exp.toml:2: client.epochs: expected a whole number, got 1.5");
  EXPECT_EQ(resolve_client("[client]\nhidden = [10, 0]\n"),
            "exp.toml:2: client.hidden: expected a list of whole numbers >= 1, got [10, 0]");
  EXPECT_EQ(resolve_client("[client]\noptimizer = \"adan\"\n"),
            "exp.toml:2: client.optimizer: unknown value 'adan'; did you mean 'adam'? known: sgd, adam");
}

TEST(Config, UnknownKeysAndSectionsAreErrors) {
  EXPECT_TRUE(resolve_client("[client]\nepoch = 2\n")
                  .starts_with("exp.toml:2: unknown key 'client.epoch'; did you mean 'client.epochs'? known"));
  EXPECT_EQ(resolve_client("[cleint]\nlr = 2\n"),
            "exp.toml:2: unknown section 'cleint'; did you mean 'client'? known: client");
}

TEST(Config, BrokenTomlNamesItsLine) {
  EXPECT_TRUE(resolve_client("[client]\nlr = = 2\n").starts_with("exp.toml:2: not valid TOML"));
  EXPECT_TRUE(resolve_client("lr = 2\n").starts_with("exp.toml:1: key 'lr' stands outside a section"));
}

TEST(Config, MissingFileIsNamed) {
  EXPECT_EQ(refusal([] { Config::read("/nonexistent/x.toml"); }),
            "/nonexistent/x.toml: does not exist; expected an experiment file (.toml)");
}

TEST(Config, BadAssignmentsAreRefused) {
  Config config = Config::parse("[client]\nlr = 0.5\n");
  for (const char* bad : {"lr=1", "client.lr", ".lr=1", "client.=1", ""}) {
    EXPECT_TRUE(refusal([&] { config.set(bad); }).find("expected section.key=value") != std::string::npos) << bad;
  }
}

TEST(Options, WriteTomlThatReadsBack) {
  const Value values[] = {
      true, std::int64_t{7}, 1.0, 1e-8, 0.1, std::string("a \"b\"\n"), std::vector<double>{1.0, 2.5}};
  for (const auto& value : values) {
    Config config = Config::parse("[s]\nx = " + to_toml(value) + "\n");
    const Options options = config.resolve("s", {{"x", value, ""}});
    EXPECT_EQ(to_toml(options.values().at("x")), to_toml(value));
  }
}

// Not the user's doing: a key of ours that is misspelt or read as another type.
TEST(Options, MisreadKeysThrowAndNameTheNearest) {
  const Options options("client", {{"lr", 0.1, ""}, {"epochs", std::int64_t{1}, ""}});
  const auto message = [](auto&& read) -> std::string {
    try {
      read();
    } catch (const std::logic_error& bug) {
      return bug.what();
    }
    return "no std::logic_error";
  };
  EXPECT_EQ(message([&] { options.integer("epoch"); }),
            "unknown option of [client] 'epoch'; did you mean 'epochs'? known: epochs, lr");
  EXPECT_EQ(message([&] { options.real("epochs"); }),
            "option 'client.epochs' is a whole number, and was read as a number");
}

}  // namespace
}  // namespace parley
