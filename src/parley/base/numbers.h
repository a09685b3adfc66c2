// Numbers as files hold them, in this machine's byte order and at any address, as numbers of another type.
#pragma once

#include <cstring>
#include <span>

namespace parley {

// Reads to.size() numbers of type From; the bytes must be there.
template <class From, class To>
void convert_numbers(const char* from, std::span<To> to) {
  for (To& value : to) {
    From number;
    std::memcpy(&number, from, sizeof(From));
    value = static_cast<To>(number);
    from += sizeof(From);
  }
}

}  // namespace parley
