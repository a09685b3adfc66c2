#include "parley/data/partition.h"

#include <algorithm>

#include "parley/base/errors.h"
#include "parley/data/deal/deal.h"

namespace parley {
namespace {

Option alpha_option(const std::string& of) {
  return {"alpha", 0.5, "concentration of the Dirichlet draw over " + of + "; small = strong skew", above(0)};
}
Option min_size_option(const std::string& how) {
  return {"min_size", std::int64_t{0}, "least rows of a client; " + how, at_least(0)};
}

void add_label_skews(PartitionRegistry& registry) {
  registry.add({"dirichlet",
                "Each class is divided among the clients by proportions from Dir(alpha).",
                "Hsu et al. 2019; Liu & Zheng 2021",
                {alpha_option("clients"), min_size_option("drawn again until every client has as many")}},
               deal::dirichlet);
  registry.add({"dirichlet_client",
                "Equal sizes; each client's class mix is a draw from Dir(alpha · p), p being the class "
                "frequencies.",
                "Hsu et al. 2019; Liu & Zheng 2021",
                {alpha_option("classes"), min_size_option("sizes are equal, so this is only a check")}},
               deal::dirichlet_client);
  registry.add({"shards",
                "Rows sorted by label, cut into shards; each client gets a few at random.",
                "McMahan et al. 2017",
                {{"shards_per_client", std::int64_t{2}, "shards of each client", at_least(1)}}},
               deal::shards);
  registry.add({"single_class",
                "Client k has rows of one class only, k mod C; with fewer clients than classes "
                "some classes are left out.",
                "",
                {}},
               deal::single_class);
  registry.add({"mixed_class",
                "Mostly one class per client, the rest drawn from all classes.",
                "",
                {{"fraction", 0.99, "part of a client's rows that is of its own class", between(0, 1)}}},
               deal::mixed_class);
  registry.add(
      {"eta_skew",
       "Each client draws rows for itself: mass eta of one class, the rest by clipped |N(0.5, 1)| weights; "
       "two may hold the same row.",
       "FeDEC's setting",
       {{"eta", 0.8, "mass of the dominant class", Range{.low = 0.0, .high = 1.0, .low_excluded = true}},
        {"dominant",
         std::string("random"),
         "a client's dominant class: drawn; or k mod C with all rows dealt out in equal sizes, which makes the "
         "pool uniform and leaves weights by class nothing to correct",
         {},
         {"random", "cycle"}},
        {"size_sigma", 0.0, "standard deviation of the logarithm of the sizes, with dominant = \"random\"",
         at_least(0)}}},
      deal::eta_skew);
}

void add_others(PartitionRegistry& registry) {
  registry.add({"iid", "Rows dealt at random, equal sizes.", "", {}}, deal::iid);
  registry.add({"lognormal",
                "Rows dealt at random; sizes are log-normal.",
                "",
                {{"sigma", 1.0, "standard deviation of the logarithm of the sizes", at_least(0)}}},
               deal::lognormal);
  registry.add({"permuted",
                "As iid, and each client sees the features in an order of its own.",
                "Corinzia et al. 2019 (PMNIST)",
                {}},
               deal::permuted);
  registry.add({"by_user",
                "One client a natural user; clients = 0 takes all, fewer are chosen at random.",
                "",
                {{"min_rows", std::int64_t{1}, "leave out users with fewer rows", at_least(1)},
                 {"users_per_client", std::int64_t{1}, "users that one client holds together", at_least(1)}}},
               deal::by_user);
  registry.add({"file",
                "Rows of each client from a JSON file: {\"0\": [rows…], …} or a list of lists; it "
                "sets the number of clients.",
                "",
                {{"path", std::string(), "the file", {}, {}, true},
                 {"allow_shared", false, "whether a row may be held more than once"}}},
               deal::from_file);
}

}  // namespace

View Partition::view(const Dataset& data, std::size_t client) const {
  View view{.data = &data, .rows = clients[client]};
  if (!permutations.empty()) view.permutation = permutations[client];
  return view;
}

PartitionRegistry partitions() {
  PartitionRegistry registry("partition");
  add_label_skews(registry);
  add_others(registry);
  return registry;
}

std::vector<Option> common_partition_options() {
  return {
      {"kind", std::string("iid"), "how rows are dealt to clients; `parley list partitions` shows the kinds"},
      {"clients", std::int64_t{0}, "number of clients; 0: every user of by_user, otherwise 10", between(0, 1e7)},
      {"holdout", 0.0, "part of each client's rows that it keeps as test data of its own and does not train on",
       between(0, 0.9)},
      {"seed", std::int64_t{-1}, "seed of the deal; -1 = run.seed", at_least(-1)},
  };
}

Partition pooled(const Partition& partition) {
  if (!partition.permutations.empty()) {
    fail(
        "partition.kind = \"permuted\": clients see the features in orders of their own, and their rows together are "
        "no data set; choose another kind");
  }
  deal::Rows all;
  for (const auto rows : partition.clients) all.insert(all.end(), rows.begin(), rows.end());
  std::ranges::sort(all);
  return {.clients = RowLists({all}), .permutations = {}};
}

std::vector<std::size_t> label_counts(const Dataset& data, RowLists::List rows) {
  std::vector<std::size_t> counts(data.classes);
  if (data.classes == 0) return counts;
  for (const auto row : rows) ++counts[static_cast<std::size_t>(data.labels[row])];
  return counts;
}

std::vector<std::vector<std::size_t>> label_histogram(const Dataset& data, const Partition& partition) {
  std::vector<std::vector<std::size_t>> histogram;
  for (const auto rows : partition.clients) histogram.push_back(label_counts(data, rows));
  return histogram;
}

}  // namespace parley
