// Errands on the simulated machines and links of [network]. Training that has begun depends on nothing that happens
// meanwhile, so all who were sent to work train at once, on all threads; the clock says when each would have been done.
//
// Memory: one answer for each client that is at work.
#pragma once

#include <map>
#include <optional>

#include "parley/engine/errands.h"

namespace parley {

class SimulatedErrands final : public Errands {
 public:
  explicit SimulatedErrands(const ErrandTools& tools) : tools_(tools) {}

  void ask(const Invitation& invitation) override { asked_.push_back({invitation, now_}); }
  std::vector<Ready> await(std::size_t wanted) override;
  void hand_over(std::size_t round, std::span<const Ready> order, const Admit& admit, OrderedFold& fold) override;
  std::size_t window() const override { return 1; }  // one after the other

  double now() const override { return now_; }
  Json progress() const override;
  void restore(const Json& progress, const Invite& invite) override;

 private:
  struct Asked {
    Invitation invitation;
    double began;
  };
  struct Work {
    Broadcast answers;
    double began = 0.0, done = 0.0;
    std::unique_ptr<Answer> answer = std::make_unique<Answer>();
    std::optional<std::string> refusal = {};
  };

  void train();
  void train(ClientSide& side, const Asked& asked, Work& work) const;

  ErrandTools tools_;
  double now_ = 0.0;
  std::vector<Asked> asked_;          // not yet trained
  std::map<std::size_t, Work> work_;  // by client
};

}  // namespace parley
