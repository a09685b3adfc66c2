// For tests: a folder to write small data files into, and refusals with their messages.
#pragma once

#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "parley/base/errors.h"
#include "parley/base/temp_folder.h"

namespace parley {

class TestFolder : public TempFolder {
 public:
  std::filesystem::path write(const std::string& name, std::string_view bytes) const {
    const auto file = path() / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return file;
  }
  // As gzip; `name` should end in .gz.
  std::filesystem::path write_gz(const std::string& name, std::string_view bytes) const {
    const auto file = write(name, "");
    const gzFile out = gzopen(file.c_str(), "wb1");
    gzwrite(out, bytes.data(), static_cast<unsigned>(bytes.size()));
    gzclose(out);
    return file;
  }
};

// The call must throw Kind with every one of the pieces in its one-line message.
template <class Kind = InputError, class Call>
void expect_refusal(Call call, std::initializer_list<std::string_view> pieces) {
  try {
    call();
    ADD_FAILURE() << "not refused; expected a message with '" << *pieces.begin() << "'";
  } catch (const Kind& error) {
    const std::string message = error.what();
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    for (const auto piece : pieces) EXPECT_NE(message.find(piece), std::string::npos) << message << " lacks " << piece;
  }
}

}  // namespace parley
