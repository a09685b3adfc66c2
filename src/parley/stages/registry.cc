#include "parley/stages/clip.h"
#include "parley/stages/quantise.h"
#include "parley/stages/stage.h"

namespace parley {

StageRegistry stages() {
  StageRegistry registry("stage");
  add_clip(registry);
  add_quantise(registry);
  return registry;
}

}  // namespace parley
