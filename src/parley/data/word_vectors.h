// Vectors of words, as GloVe's text files have them: a word and its numbers on each line, one blank between.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "parley/data/source.h"

namespace parley {

struct WordVectors {
  std::vector<std::string> words;  // in the file's order
  std::size_t width = 0;
  std::vector<float> values;  // words × width
};

// The first `most` words; of a word that comes twice the first vector counts. Throws InputError "file:line: …" for one
// without a word, or whose vector is not finite numbers as many as the first line's.
WordVectors read_word_vectors(const std::filesystem::path& path, std::size_t most);

// The words that tokens 2, 3, … of a data set stand for, by the resolved keys of [data]. Throws InputError when its
// tokens are no words.
std::vector<std::string> token_words(const Options& data, const DataRoots& roots);

}  // namespace parley
