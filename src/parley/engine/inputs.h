// What a run has read, by content: a run that is resumed with other data would be neither the old one nor a new one.
#pragma once

#include <filesystem>

#include "parley/engine/experiment.h"
#include "parley/store/run_folder.h"

namespace parley {

// The fingerprint of each input, by the settings that name it: {"[data], training examples": "9f2c…", …}. Of what was
// read, not of the files: where they lie, or how they are packed, does not matter.
Json fingerprints_of_inputs(const Experiment& experiment);

// Throws InputError when an input is not the one that the run in `folder` began with, naming it. `now` and `before` are
// what fingerprints_of_inputs says and said then; what it did not speak of is not compared.
void require_same_inputs(const Json& now, const Json& before, const std::filesystem::path& folder);

}  // namespace parley
