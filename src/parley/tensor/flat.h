// A flat vector of floats, aligned for the widest vector unit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <vector>

namespace parley {

template <class T>
struct AlignedAllocator {
  using value_type = T;
  static constexpr std::size_t kAlignment = 64;
  static_assert(__STDCPP_DEFAULT_NEW_ALIGNMENT__ >= sizeof(void*));
  AlignedAllocator() = default;
  template <class U>
  AlignedAllocator(const AlignedAllocator<U>&) {}

  // Aligned by hand: glibc before 2.38 hardly ever gives a freed block out again for an aligned request, and a run
  // whose clients each need a vector for a while would grow with the number of clients. What malloc gave stands before
  // the floats; there is always room, because malloc itself aligns to more than a pointer.
  T* allocate(std::size_t n) {
    void* const given = ::operator new(n * sizeof(T) + kAlignment);
    const auto address = reinterpret_cast<std::uintptr_t>(given);
    void** const floats = reinterpret_cast<void**>((address / kAlignment + 1) * kAlignment);
    floats[-1] = given;
    return reinterpret_cast<T*>(floats);
  }
  void deallocate(T* floats, std::size_t) { ::operator delete(reinterpret_cast<void**>(floats)[-1]); }
  bool operator==(const AlignedAllocator&) const { return true; }
};

using Flat = std::vector<float, AlignedAllocator<float>>;
using FlatDouble = std::vector<double, AlignedAllocator<double>>;

}  // namespace parley
