// Why LibTorch would not load a script that a newer PyTorch wrote.
#pragma once

#include <string>

namespace parley {

// In words for the user, from LibTorch's own message; "" when the file's age is not the reason.
std::string newer_than(const std::string& version, const std::string& message);

}  // namespace parley
