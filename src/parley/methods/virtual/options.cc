#include "parley/methods/virtual/options.h"

#include "parley/base/errors.h"

namespace parley {

VirtualOptions::VirtualOptions(const Options& options)
    : beta(options.real("beta")),
      prior_precision(1.0 / (options.real("prior_scale") * options.real("prior_scale"))),
      rho(options.real("rho")),
      rate(options.real("rate")),
      prune(options.real("prune")),
      precision_tolerance(options.real("precision_tolerance")),
      ivon_curvature(options.real("ivon_curvature")),
      consistent(options.text("damping") == "consistent"),
      with_private(options.flag("private")),
      from_server(options.flag("fedavg_init")),
      by_examples(options.text("prior_share") == "examples"),
      literal_snr(options.text("prune_noise") == "update"),
      ivon(options.text("local") == "ivon"),
      snr(options.flag("snr")),
      ivon_decay{static_cast<float>(options.real("ivon_beta1")), static_cast<float>(options.real("ivon_beta2"))},
      draws(static_cast<std::size_t>(options.integer("draws"))),
      own_networks(static_cast<std::size_t>(options.integer("own_networks"))) {
  if (!consistent && rate == 1.0) {
    fail("method.rate = 1: with damping = \"reference\" clients keep and send Δ^(1 − rate), nothing; use less");
  }
}

std::vector<Option> VirtualOptions::declared() {
  const Range below_one{.low = 0.0, .high = 1.0, .high_excluded = true};
  std::vector<Option> options{
      {"beta", 1e-5, "weight of the KL divergences in the free energy; 1 is Bayes' rule", at_least(0.0)},
      {"private", true, "a network of each client's own, fed by the shared one at every layer"},
      {"prior_scale", 1.0, "standard deviation of every weight before any data", above(0.0)},
      {"prior_share",
       std::string("equal"),
       "of the shared prior, in each client's free energy: 1/K of it, or as many as it has of the examples",
       {},
       {"equal", "examples"}},
      {"rho", -5.0, "ln σ of every weight at the start", Range{.low = -20.0, .high = 5.0}},
      {"damping",
       std::string("consistent"),
       "consistent: server and client both take Δ^rate, so the factors' product stays the posterior; reference: as "
       "published, clients keep and send Δ^(1 − rate), of which the server takes the power rate",
       {},
       {"consistent", "reference"}},
      {"rate", 0.0, "power of the deltas that are taken in; 0: one divided by the size of the cohort",
       Range{.low = 0.0, .high = 1.0}},
      {"fedavg_init", true, "clients start from the server's posterior in every round, not from their own last one"},
      {"draws", std::int64_t{1}, "of the noise for every gradient", at_least(1)},
      {"own_networks", std::int64_t{10}, "drawn from a client's posterior when its own model is evaluated",
       at_least(1)},
      {"prune", 0.0,
       "share of each tensor, but the output layer's, with the least signal to noise, that is not sent; by size alone "
       "while precisions hardly move, as with local = \"gradient\"",
       below_one},
      {"precision_tolerance", 1e-5,
       "a precision that moved by no more than this part of itself is taken for unmoved and not sent; less than "
       "1e-6 is rounding",
       below_one},
      {"prune_noise",
       std::string("posterior"),
       "noise that the signal is measured by: 1/√ξ of the client's posterior, or as published of the update itself, "
       "which says little while precisions hardly move",
       {},
       {"posterior", "update"}},
      {"snr", false, "count the clients' signal-to-noise ratios by tensor, for tools/plot_snr"},
      {"local",
       std::string("gradient"),
       "gradient: client.optimizer on means and ln σ; ivon: variational online Newton, which learns the precision "
       "(begin with beta = 0.001, client.lr = 0.001)",
       {},
       {"gradient", "ivon"}},
  };
  const auto ivon = only_with({"local", {"ivon"}}, {{"ivon_curvature", 0.005,
                                                     "curvature that the first step assumes, which is client.lr "
                                                     "divided by it for a client of mean size, whatever that is; it "
                                                     "decides the first precision in place of rho; 0: rho does",
                                                     at_least(0.0)},
                                                    {"ivon_beta1", 0.9, "decay of the mean gradient", below_one},
                                                    {"ivon_beta2", 0.999, "decay of the curvature", below_one}});
  options.insert(options.end(), ivon.begin(), ivon.end());
  return options;
}

}  // namespace parley
