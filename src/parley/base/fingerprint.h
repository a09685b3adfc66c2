// Sixteen hexadecimal digits that tell these bytes from others: XXH3 with 64 bits, at the speed of memory. It guards
// against damage and mistakes, not against malice.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace parley {

// Of bytes that come in pieces; where the cuts are does not matter.
class Fingerprint {
 public:
  Fingerprint();
  ~Fingerprint();
  Fingerprint& add(std::string_view bytes);
  template <class Number>
  Fingerprint& add_all(std::span<const Number> numbers) {
    return add({reinterpret_cast<const char*>(numbers.data()), numbers.size_bytes()});
  }
  std::string text() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string fingerprint(std::string_view bytes);

}  // namespace parley
