// A flat vector of floats, aligned for the widest vector unit.
#pragma once

#include <cstddef>
#include <new>
#include <span>
#include <vector>

namespace parley {

template <class T>
struct AlignedAllocator {
  using value_type = T;
  static constexpr std::align_val_t kAlignment{64};
  AlignedAllocator() = default;
  template <class U>
  AlignedAllocator(const AlignedAllocator<U>&) {}
  T* allocate(std::size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), kAlignment)); }
  void deallocate(T* p, std::size_t) { ::operator delete(p, kAlignment); }
  bool operator==(const AlignedAllocator&) const { return true; }
};

using Flat = std::vector<float, AlignedAllocator<float>>;
using FlatDouble = std::vector<double, AlignedAllocator<double>>;

}  // namespace parley
