#include "live.h"

#include <atomic>

#include "parley/report/report.h"
#include "parley/wire/monitor.h"

namespace parley::app {
namespace {

namespace fs = std::filesystem;

class MonitorPage final : public LivePage {
 public:
  MonitorPage(const std::string& address, const fs::path& folder)
      : host_(address.substr(0, address.rfind(':'))),
        monitor_(address, token_,
                 {.status = [this] { return status(); },
                  .report =
                      [folder] {
                        return render_report(read_runs({&folder, 1}));
                      }}) {}

  std::string address() const override { return fmt::format("http://{}:{}/?token={}", host_, monitor_.port(), token_); }
  void show(std::size_t round, std::size_t rounds) override {
    round_ = round;
    rounds_ = rounds;
  }

 private:
  // As a server says it, without nodes.
  Json status() const {
    return {{"round", round_.load()}, {"rounds", rounds_.load()}, {"simulated", true},     {"expected", 0},
            {"complete", true},       {"connections_refused", 0}, {"nodes", Json::array()}};
  }

  const std::string token_ = wire::new_token(), host_;
  std::atomic<std::size_t> round_ = 0, rounds_ = 0;
  wire::Monitor monitor_;  // the last: it asks the others
};

}  // namespace

std::unique_ptr<LivePage> open_live_page(const std::string& address, const fs::path& run_folder) {
  return std::make_unique<MonitorPage>(address, run_folder);
}

}  // namespace parley::app
