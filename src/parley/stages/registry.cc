#include "parley/stages/byzantine.h"
#include "parley/stages/clip.h"
#include "parley/stages/quantise.h"
#include "parley/stages/sparsify.h"
#include "parley/stages/stage.h"

namespace parley {

std::string stage_prefix(std::size_t position) {
  return "stage" + std::to_string(position) + "/";
}

StageRegistry stages() {
  StageRegistry registry("stage");
  add_byzantine(registry);
  add_clip(registry);
  add_quantise(registry);
  add_sparsify(registry);
  return registry;
}

}  // namespace parley
