// The instruction sets that GCC may use by itself: use(its name for __builtin_cpu_supports, its macro where it may).
#pragma once

#include <cstddef>

#define PARLEY_INSTRUCTION_SETS(use)                                                                                \
  use("sse3", __SSE3__) use("ssse3", __SSSE3__) use("sse4.1", __SSE4_1__) use("sse4.2", __SSE4_2__)                 \
      use("popcnt", __POPCNT__) use("avx", __AVX__) use("avx2", __AVX2__) use("fma", __FMA__) use("f16c", __F16C__) \
          use("bmi", __BMI__) use("bmi2", __BMI2__) use("lzcnt", __LZCNT__) use("movbe", __MOVBE__)                 \
              use("avx512f", __AVX512F__) use("avx512cd", __AVX512CD__) use("avx512bw", __AVX512BW__)               \
                  use("avx512dq", __AVX512DQ__) use("avx512vl", __AVX512VL__) use("avx512ifma", __AVX512IFMA__)     \
                      use("avx512vbmi", __AVX512VBMI__) use("avx512vbmi2", __AVX512VBMI2__)                         \
                          use("avx512vnni", __AVX512VNNI__) use("avx512bitalg", __AVX512BITALG__)                   \
                              use("avx512vpopcntdq", __AVX512VPOPCNTDQ__) use("avx512bf16", __AVX512BF16__)         \
                                  use("gfni", __GFNI__) use("avxvnni", __AVXVNNI__)

namespace parley::app {

// Which of them the rooms are compiled for, in this order.
extern const bool kBuiltFor[];

}  // namespace parley::app
