#include "parley/engine/word_embedding.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <unordered_map>

#include "parley/base/errors.h"
#include "parley/data/locate.h"
#include "parley/data/word_vectors.h"

namespace parley {
namespace {

constexpr std::size_t kFirstWord = 2;        // behind padding and the unknown word
constexpr std::size_t kLeastFoundPart = 10;  // fewer than one word in so many: another language, or no words at all

std::string vectors_of(const Options& model) {
  return model.has("vectors") ? model.text("vectors") : "";
}

void require_sizes(const Options& model, const WordVectors& vectors, std::size_t words) {
  if (const std::int64_t width = model.integer("embedding"); width != static_cast<std::int64_t>(vectors.width)) {
    fail("model.embedding = {}: the vectors of {} have {} numbers; set {}", width, model.text("vectors"), vectors.width,
         vectors.width);
  }
  const auto needed = static_cast<std::int64_t>(words + kFirstWord);
  if (const std::int64_t vocabulary = model.integer("vocabulary"); vocabulary < needed) {
    fail("model.vocabulary = {}: the data know {} words; expected {} or more", vocabulary, words, needed);
  }
}

}  // namespace

void use_word_vectors(const Settings& settings, const Layout& layout, std::span<float> weights) {
  const std::string name = vectors_of(settings.model);
  if (name.empty()) return;
  const DataRoots roots = DataRoots::standard(settings.data.text("root"));
  const auto words = token_words(settings.data, roots);
  const WordVectors vectors =
      read_word_vectors(locate(roots, name, "model.vectors"), std::numeric_limits<std::size_t>::max());
  require_sizes(settings.model, vectors, words.size());
  std::unordered_map<std::string_view, std::size_t> row_of;
  for (std::size_t i = 0; i < vectors.words.size(); ++i) row_of[vectors.words[i]] = i;
  const auto embedding = layout.find("embedding.weight")->of(weights);
  std::size_t found = 0;
  for (std::size_t token = kFirstWord; token < words.size() + kFirstWord; ++token) {
    const auto row = row_of.find(words[token - kFirstWord]);
    if (row == row_of.end()) continue;
    const auto vector = std::span(vectors.values).subspan(row->second * vectors.width, vectors.width);
    std::ranges::copy(vector, embedding.subspan(token * vectors.width).begin());
    ++found;
  }
  if (found * kLeastFoundPart < words.size()) {
    fail("model.vectors = \"{}\": it has a vector for {} of the data's {} words; expected one in {} at least", name,
         found, words.size(), kLeastFoundPart);
  }
}

void refuse_word_vectors(const Settings& settings) {
  if (const std::string name = vectors_of(settings.model); !name.empty()) {
    fail("model.vectors = \"{}\": model.init gives all weights, the embedding's among them; set one of the two", name);
  }
}

}  // namespace parley
