// Where a party's keys are.
#pragma once

#include <filesystem>

namespace parley::wire {

struct TlsFiles {
  std::filesystem::path authority;    // the federation's certificate
  std::filesystem::path certificate;  // our own
  std::filesystem::path key;
};

}  // namespace parley::wire
