#include "parley/base/timeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

namespace parley {
namespace {

using namespace std::chrono_literals;

TEST(Timeline, KeepsNestedSpansOfEveryThread) {
  Timeline timeline;
  {
    const Span round("round", 3);
    {
      const Span fold("fold");
      std::this_thread::sleep_for(2ms);
    }
    std::jthread([] { const Span client("client", 7); });
    std::jthread([] { const Span client("client", 8); });
  }
  const auto json = nlohmann::json::parse(timeline.json());
  std::set<int> threads;
  std::size_t spans = 0;
  for (const auto& event : json["traceEvents"]) {
    if (event["ph"] != "X") continue;
    ++spans;
    threads.insert(event["tid"].get<int>());
    EXPECT_GE(event["dur"].get<double>(), 0.0);
    EXPECT_EQ(event.contains("args"), event["name"] != "fold");
    EXPECT_EQ(event["name"] == "round", event.contains("args") && event["args"]["number"] == 3);
  }
  EXPECT_EQ(spans, 4u);
  EXPECT_EQ(threads.size(), 2u) << "a thread that comes after another takes its lane";
  EXPECT_EQ(timeline.lanes(), 2u);
}

TEST(Timeline, WhatOthersDoIsNotCountedTwice) {
  Timeline timeline;
  {
    const Span outer("outer");
    for (int i = 0; i < 3; ++i) {
      const Span inner("inner");
      std::this_thread::sleep_for(5ms);
    }
  }
  const auto totals = timeline.totals();
  ASSERT_EQ(totals.size(), 2u);
  EXPECT_EQ(totals[0].name, "inner");
  EXPECT_EQ(totals[0].spans, 3u);
  EXPECT_GE(totals[0].seconds, 0.015);
  EXPECT_GE(totals[1].seconds, 0.0);
  EXPECT_LE(totals[0].seconds + totals[1].seconds, timeline.seconds());
}

TEST(Timeline, WithoutOneNothingIsKept) {
  { const Span before("before"); }
  const Timeline timeline;
  EXPECT_TRUE(timeline.totals().empty());
  EXPECT_TRUE(nlohmann::json::parse(timeline.json())["traceEvents"].empty());
}

}  // namespace
}  // namespace parley
