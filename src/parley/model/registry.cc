#include "parley/model/model.h"

namespace parley {

ModelRegistry native_models() {
  ModelRegistry registry("model");
  return registry;
}

}  // namespace parley
