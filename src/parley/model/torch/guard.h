// LibTorch's exceptions become ours here, and nowhere else.
#pragma once

#include <exception>
#include <string>

#include "parley/base/errors.h"

namespace parley {

// The one line of a LibTorch message that says what is wrong, without its stack traces.
std::string essence(const std::string& message);

// Runs `work`; what LibTorch throws becomes a `Kind` that starts with `what`.
template <class Kind, class Work>
auto guarded(const std::string& what, Work work) {
  try {
    return work();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Kind(what + ": " + essence(error.what()));
  }
}

}  // namespace parley
