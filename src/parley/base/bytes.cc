#include "parley/base/bytes.h"

#include "parley/base/counted.h"
#include "parley/base/errors.h"

namespace parley {

std::span<const std::byte> ByteReader::raw(std::size_t count) {
  if (count > left_.size())
    fail("the message is cut off: {} left where {} announced", counted(left_.size(), "byte is", "bytes are"),
         counted(count, "is", "are"));
  const auto taken = left_.first(count);
  left_ = left_.subspan(count);
  return taken;
}

std::string ByteReader::take_text() {
  const auto from = raw(take<std::uint32_t>());
  return {reinterpret_cast<const char*>(from.data()), from.size()};
}

void ByteReader::finish() const {
  if (!left_.empty()) fail("the message is {} longer than what it announces", counted(left_.size(), "byte"));
}

}  // namespace parley
