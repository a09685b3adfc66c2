#include "parley/data/word_vectors.h"

#include <algorithm>
#include <unordered_set>

#include "parley/base/errors.h"
#include "parley/data/read/bytes.h"
#include "parley/data/read/numbers.h"

namespace parley {
namespace {

// The numbers behind a line's word, appended; how many.
std::size_t append_numbers(std::string_view text, const std::string& where, std::vector<float>& values) {
  std::size_t count = 0;
  for (; !text.empty(); ++count) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const auto number = finite_number(text.substr(0, end));
    if (!number) fail("{}: '{}' is no finite number; unpack the file again", where, text.substr(0, end));
    values.push_back(*number);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return count;
}

}  // namespace

WordVectors read_word_vectors(const std::filesystem::path& path, std::size_t most) {
  const std::string text = read_unpacked(path);
  WordVectors vectors;
  std::unordered_set<std::string_view> seen;
  for (std::size_t begin = 0, line_number = 1; begin < text.size() && seen.size() < most; ++line_number) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    const std::string where = fmt::format("{}:{}", path.string(), line_number);
    const std::size_t space = line.find(' ');
    if (space == 0 || space == line.npos) fail("{}: expected a word and its vector; unpack the file again", where);
    const std::size_t count = append_numbers(line.substr(space + 1), where, vectors.values);
    if (line_number == 1) vectors.width = count;
    if (count != vectors.width) {
      fail("{}: a vector of {} numbers; expected {}, as on the first line", where, count, vectors.width);
    }
    if (seen.insert(line.substr(0, space)).second) {
      vectors.words.emplace_back(line.substr(0, space));
    } else {
      vectors.values.resize(vectors.values.size() - count);
    }
    begin = end + 1;
  }
  return vectors;
}

}  // namespace parley
