#include "parley/engine/mpi/shared_data.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "parley/base/errors.h"

namespace parley::mpi {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

// Null when it cannot be mapped.
std::shared_ptr<std::byte> map(const Descriptor& file, std::size_t size, int protection) {
  void* at = ::mmap(nullptr, size, protection, MAP_SHARED, file.number(), 0);
  if (at == MAP_FAILED) return nullptr;
  return {static_cast<std::byte*>(at), [size](std::byte* begin) { ::munmap(begin, size); }};
}

// --- A data set but for its values, which lie at `offset` of the room ---

template <class Number>
void put_vector(ByteBuffer& to, const std::vector<Number>& values) {
  put(to, static_cast<std::uint64_t>(values.size()));
  put_all(to, values);
}
void put_vector(ByteBuffer& to, const std::vector<std::string>& texts) {
  put(to, static_cast<std::uint64_t>(texts.size()));
  for (const auto& text : texts) put_text(to, text);
}
void put_vector(ByteBuffer& to, const Affine& affine) {
  put_vector(to, affine.scale);
  put_vector(to, affine.shift);
}

template <class Number>
void take_vector(ByteReader& from, std::vector<Number>& values) {
  values.resize(from.take<std::uint64_t>());
  from.take_all(std::span(values));
}
void take_vector(ByteReader& from, std::vector<std::string>& texts) {
  texts.resize(from.take<std::uint64_t>());
  for (auto& text : texts) text = from.take_text();
}
void take_vector(ByteReader& from, Affine& affine) {
  take_vector(from, affine.scale);
  take_vector(from, affine.shift);
}

void put_dataset(ByteBuffer& to, const Dataset& data, std::size_t offset) {
  // By name, so that a new member is not forgotten: this then no longer compiles.
  const auto& [name, shape, values, content, transform, labels, classes, targets, target_size, target_transform, users,
               class_names, columns] = data;
  put(to, static_cast<std::uint64_t>(values.index()));
  put(to, static_cast<std::uint64_t>(offset));
  put(to, static_cast<std::uint64_t>(std::visit([](const auto& v) { return v.size(); }, values)));
  put_text(to, name);
  put_vector(to, shape);
  put(to, static_cast<std::uint32_t>(content));
  put_vector(to, transform);
  put_vector(to, labels);
  put(to, static_cast<std::uint64_t>(classes));
  put_vector(to, targets);
  put(to, static_cast<std::uint64_t>(target_size));
  put_vector(to, target_transform);
  put_vector(to, users);
  put_vector(to, class_names);
  put_vector(to, columns);
}

template <class T>
Values<T> values_at(const std::shared_ptr<const std::byte>& room, std::size_t offset, std::size_t count) {
  return {std::span(reinterpret_cast<const T*>(room.get() + offset), count), room};
}

std::shared_ptr<const Dataset> take_dataset(ByteReader& from, const std::shared_ptr<const std::byte>& room) {
  Dataset data;
  const bool bytes = from.take<std::uint64_t>() == 0;
  const auto offset = from.take<std::uint64_t>();
  const auto count = from.take<std::uint64_t>();
  if (bytes) {
    data.values = values_at<std::uint8_t>(room, offset, count);
  } else {
    data.values = values_at<float>(room, offset, count);
  }
  data.name = from.take_text();
  take_vector(from, data.shape);
  data.content = static_cast<Content>(from.take<std::uint32_t>());
  take_vector(from, data.transform);
  take_vector(from, data.labels);
  data.classes = from.take<std::uint64_t>();
  take_vector(from, data.targets);
  data.target_size = from.take<std::uint64_t>();
  take_vector(from, data.target_transform);
  take_vector(from, data.users);
  take_vector(from, data.class_names);
  take_vector(from, data.columns);
  return std::make_shared<const Dataset>(std::move(data));
}

TrainTest take_both(ByteReader& from, const std::shared_ptr<const std::byte>& room) {
  auto train = take_dataset(from, room);
  auto test = take_dataset(from, room);
  from.finish();
  return {std::move(train), std::move(test)};
}

std::span<const std::byte> raw_values(const Dataset& data) {
  return std::visit([](const auto& values) { return std::as_bytes(std::span(values)); }, data.values);
}

}  // namespace

LaidOut lay_out(const TrainTest& data) {
  constexpr std::size_t kLine = 64;
  const auto train = raw_values(*data.train), test = raw_values(*data.test);
  const std::size_t second = (train.size() + kLine - 1) / kLine * kLine;
  const std::size_t size = std::max(second + test.size(), kLine);
  // Without a name: it is gone with the last process that uses it, however that ends.
  auto file = std::make_shared<const Descriptor>(::memfd_create("parley data", MFD_CLOEXEC));
  const int refused = file->number() < 0 ? errno : ::posix_fallocate(file->number(), 0, static_cast<off_t>(size));
  const auto room = refused == 0 ? map(*file, size, PROT_READ | PROT_WRITE) : nullptr;
  if (!room)
    fail<RunError>("no shared memory for {} bytes of data: {}", size, std::strerror(refused ? refused : errno));
  std::ranges::copy(train, room.get());
  std::ranges::copy(test, room.get() + second);
  ByteBuffer sets;
  put_dataset(sets, *data.train, 0);
  put_dataset(sets, *data.test, second);
  ByteBuffer message;
  put_text(message, fmt::format("/proc/{}/fd/{}", ::getpid(), file->number()));
  put(message, static_cast<std::uint64_t>(size));
  put_all(message, sets.bytes);
  ByteReader own(sets.bytes);
  return {take_both(own, room), std::move(message.bytes), std::move(file)};
}

std::optional<TrainTest> look_up(const Bytes& message) {
  ByteReader from(message);
  const Descriptor file(::open(from.take_text().c_str(), O_RDONLY | O_CLOEXEC));
  const auto size = from.take<std::uint64_t>();
  if (file.number() < 0) return {};
  const auto room = map(file, size, PROT_READ);
  if (!room) return {};
  return take_both(from, room);
}

}  // namespace parley::mpi
