#include "parley/methods/laplace/options.h"

#include "parley/base/errors.h"

namespace parley {
namespace {

// A prior precision is that of a weight before any data, so more examples leave less of it to each: on validation data
// 20 is good for 50,000 examples, and 10 for 10,000. Fewer would be ruled by it.
double default_prior(std::size_t examples) {
  return std::min(1e-3, 20.0 / static_cast<double>(examples));
}

}  // namespace

std::vector<Option> LaplaceOptions::declared() {
  const Range share{.low = 0.0, .high = 1.0, .high_excluded = true};
  return {
      {"secants", std::int64_t{3},
       "last steps along which the server corrects A ⊗ B by how the gradient changed (L-BFGS), when all clients take "
       "part; 0: momentum instead",
       at_least(0)},
      {"step", -1.0,
       "η: share of the natural gradient that a round goes; below 0: 1 with secants, else 0.25; times 2·participation "
       "below ½",
       at_least(-1.0)},
      {"momentum", 0.9, "m: share of the velocity that the next round keeps, without secants", share},
      {"damping", 0.01,
       "added to the curvature; halved when the loss fell and tripled when it rose, if all clients take part",
       at_least(0.0)},
      {"damping_floor", 1e-4, "least damping that falling losses lead to", at_least(0.0)},
      {"damping_cap", 10.0, "most damping that rising losses lead to", above(0.0)},
      {"prior", -1.0,
       "p: prior precision of every weight for each example, a weight decay; below 0: 0.001, or a precision of 20 "
       "shared by the examples of all clients where that is less",
       at_least(-1.0)},
      {"evidence",
       false,
       "choose p anew in every round that measures A and B: the one with the largest marginal likelihood; networks are "
       "then drawn with it too",
       {}},
      {"memory", -1.0, "share of A and B that is kept from round to round; below 0: 1 − participation, at least ½",
       Range{.low = -1.0, .high = 1.0, .high_excluded = true}},
      {"trust", 0.02,
       "longest step, as the KL divergence that the curvature predicts it to change predictions by; 0: no limit",
       at_least(0.0)},
      {"line_search",
       std::string("auto"),
       "measure a step's length by a round of its own, in which clients return only losses. auto: of the first step, "
       "in "
       "models with convolutions, if all clients take part; always: of every step",
       {},
       {"auto", "always", "never"}},
      {"warm", std::int64_t{1}, "rounds of local training and the structured product before the first step",
       at_least(0)},
      {"agreement", 0.8,
       "warm rounds go on while the square of the clients' mean step is more than this share of their steps' mean "
       "square, and the loss falls by a fifth; 1: no more than `warm`",
       Range{.low = 0.0, .high = 1.0}},
      {"ridge", 0.1, "warm rounds: precision in every direction of a layer's inputs, as a multiple of its mean",
       above(0.0)},
      {"curvature",
       std::string("kfac"),
       "kfac: A ⊗ B; input: A alone, with B's mean diagonal in place of B",
       {},
       {"kfac", "input"}},
      {"positions",
       std::string("mixed"),
       "convolutions: expand: A and B of single positions; reduce: of the mean input and the summed derivative of all; "
       "mixed: A of single positions, B of the summed derivative",
       {},
       {"expand", "reduce", "mixed"}},
      {"factors_every", std::int64_t{2}, "rounds between two measurements of A and B", at_least(1)},
      {"factor_bits", std::int64_t{16},
       "of a number of A and B on its way up: 8, 16, or 32 for floats; 8 sends A of warm rounds with 16",
       between(8, 32)},
      {"rank", std::int64_t{0},
       "random directions by whose products A is known where a layer has more inputs than that; 0: 256 where it has "
       "more "
       "than 1024",
       at_least(0)},
      {"local_steps", std::int64_t{1},
       "steps that a client takes in the metric of its own A and B before it answers (FedPM); 1: the exact product",
       at_least(1)},
      {"personal_steps", std::int64_t{0},
       "steps of the last layer on a client's own data, in the metric of the posterior, that make its own model; its A "
       "and B are then sent down",
       at_least(0)},
      {"fisher",
       std::string("sampled"),
       "labels of B: one drawn from the model for each example; exact: all of them, each with its probability, which "
       "takes a pass for each output; empirical: the data's own",
       {},
       {"sampled", "exact", "empirical"}},
      {"widest", std::int64_t{4096}, "layers of more inputs or outputs have a diagonal instead of A and B",
       at_least(1)},
  };
}

LaplaceOptions::LaplaceOptions(const Options& method, const Options& server, std::size_t examples)
    : step(method.real("step")),
      momentum(method.real("momentum")),
      damping(method.real("damping")),
      damping_floor(method.real("damping_floor")),
      damping_cap(method.real("damping_cap")),
      prior(method.real("prior") >= 0.0 ? method.real("prior") : default_prior(examples)),
      memory(method.real("memory")),
      trust(method.real("trust")),
      ridge(method.real("ridge")),
      agreement(method.real("agreement")),
      warm(static_cast<std::size_t>(method.integer("warm"))),
      factors_every(static_cast<std::size_t>(method.integer("factors_every"))),
      factor_bits(static_cast<std::size_t>(method.integer("factor_bits"))),
      rank(static_cast<std::size_t>(method.integer("rank"))),
      widest(static_cast<std::size_t>(method.integer("widest"))),
      secants(static_cast<std::size_t>(method.integer("secants"))),
      local_steps(static_cast<std::size_t>(method.integer("local_steps"))),
      personal_steps(static_cast<std::size_t>(method.integer("personal_steps"))),
      kfac(method.text("curvature") == "kfac"),
      evidence(method.flag("evidence")),
      participation(server.has("participation") ? server.real("participation") : 1.0) {
  const std::string& labels = method.text("fisher");
  fisher = labels == "sampled" ? FisherLabels::sampled
           : labels == "exact" ? FisherLabels::exact
                               : FisherLabels::empirical;
  const std::string& summed = method.text("positions");
  positions = summed == "expand" ? Positions::expand : summed == "reduce" ? Positions::reduce : Positions::mixed;
  const std::string& searched = method.text("line_search");
  line_search = searched == "auto"     ? LineSearchUse::automatic
                : searched == "always" ? LineSearchUse::always
                                       : LineSearchUse::never;
  if (line_search == LineSearchUse::always && (participation < 1.0 || local_steps > 1)) {
    fail("method.line_search = \"always\": {}; use \"auto\" or \"never\"",
         participation < 1.0 ? "the losses of another cohort (server.participation < 1) say little about a step"
                             : "clients that take steps of their own (method.local_steps) need none measured");
  }
  if (factor_bits != 8 && factor_bits != 16 && factor_bits != 32) {
    fail("method.factor_bits = {}: expected 8, 16 or 32", factor_bits);
  }
  if (local_steps > 1 && factors_every > 1) {
    fail("method.local_steps = {}: clients need A and B of their own in every round; set method.factors_every = 1",
         local_steps);
  }
  if (evidence && (local_steps > 1 || personal_steps > 0)) {
    fail("method.evidence = true: clients that take steps of their own (method.{}) would need the prior; set false",
         local_steps > 1 ? "local_steps" : "personal_steps");
  }
  if (damping_floor > damping_cap) {
    fail("method.damping_floor = {}: expected at most method.damping_cap = {}", damping_floor, damping_cap);
  }
}

}  // namespace parley
