// model.vectors: an embedding that begins with known vectors of words instead of drawn ones.
#pragma once

#include <span>

#include "parley/engine/settings.h"
#include "parley/tensor/layout.h"

namespace parley {

// Puts the vectors of the file that model.vectors names into the embedding's rows of their words. Padding, the unknown
// word and words without a vector keep what they have. Does nothing for a model without the option, or with an empty
// one. Throws InputError when widths, the vocabulary or the words do not fit.
void use_word_vectors(const Settings& settings, const Layout& layout, std::span<float> weights);
// Throws InputError when model.vectors is set.
void refuse_word_vectors(const Settings& settings);

}  // namespace parley
