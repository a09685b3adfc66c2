#include "parley/store/run_folder.h"

#include <fstream>

#include "fuzz.h"
#include "parley/base/temp_folder.h"
#include "parley/store/client_store.h"

namespace {

parley::State one_number() {
  parley::State state;
  state.add("theta", std::make_shared<const parley::Layout>(std::vector<parley::LayoutEntry>{{"w", {1}}}), true,
            {1.0f});
  return state;
}

}  // namespace

// The first byte says which of a run's files the others are. A sound one stands beside it where it needs one.
PARLEY_FUZZ_TARGET([](std::string_view text) {
  using namespace parley;
  static const TempFolder temp;
  static RunFolder folder(temp / "run", real_files());
  static const bool begun = [] {
    folder.begin("config", {});
    folder.append_metrics({{"round", 1}});
    folder.write_checkpoint(1, one_number(), {});
    return true;
  }();
  if (text.empty() || !begun) return;
  const char which = text.front();
  const auto put = [&](const std::filesystem::path& file) {
    std::ofstream(temp / "run" / file, std::ios::binary) << text.substr(1);
  };
  State state = one_number();
  if (which == 'c') {
    put("checkpoint/checkpoint.json");
    folder.resume(state);
  } else if (which == 'm') {
    put("metrics.jsonl");
    folder.metrics();
    folder.metrics("0123456789abcdef");
  } else if (which == 'r') {
    put("run.json");
    RunFolder::read_info(temp / "run");
  } else if (which == 's') {
    state.restore(parse_safetensors(text.substr(1), "state"), "state");
  } else if (which == 'k') {
    put("checkpoint/clients/1.1.safetensors");
    ClientStore store(ClientStore::Keep::disk, folder.client_folder(), real_files(), "run");
    store.read_at(1);
    store.load(1);
  }
})
