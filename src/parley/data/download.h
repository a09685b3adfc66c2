// One file by its address, into memory; the one place that knows libcurl.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace parley {

// Follows redirects; https, http and file. Throws RunError "url: reason".
std::string download(const std::string& url,
                     const std::function<void(std::uint64_t done, std::uint64_t total)>& progress);

}  // namespace parley
