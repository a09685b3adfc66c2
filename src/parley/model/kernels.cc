#include "parley/model/kernels.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <oneapi/dnnl/dnnl.h>

#include "parley/base/errors.h"

// Of libgomp, which oneDNN brings along. omp.h is the compiler's, and clang, which fuzzes us, has none here.
extern "C" void omp_set_num_threads(int);

namespace parley {
namespace {

dnnl_dim_t dimension(std::size_t n) {
  return static_cast<dnnl_dim_t>(n);
}

char letter(Form form) {
  return form == Form::plain ? 'N' : 'T';
}

std::string instruction_set() {
  switch (dnnl_get_effective_cpu_isa()) {
    case dnnl_cpu_isa_sse41: return "sse41";
    case dnnl_cpu_isa_avx: return "avx";
    case dnnl_cpu_isa_avx2: return "avx2";
    case dnnl_cpu_isa_avx2_vnni: return "avx2_vnni";
    case dnnl_cpu_isa_avx512_core: return "avx512_core";
    case dnnl_cpu_isa_avx512_core_vnni: return "avx512_core_vnni";
    case dnnl_cpu_isa_avx512_core_bf16: return "avx512_core_bf16";
    case dnnl_cpu_isa_avx512_core_amx: return "avx512_core_amx";
    default: return "generic";
  }
}

// What this file, and so every loop of ours, is built for.
constexpr const char* kOwnLoops =
#if defined(__AVX512F__)
    "avx512";
#elif defined(__AVX2__)
    "avx2";
#else
    "baseline";
#endif

// The core whose kernels OpenBLAS uses, if it is in this process; only LibTorch brings it.
std::string openblas_core() {
  void* const library = dlopen("libopenblas.so.0", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return "";
  auto* const name = reinterpret_cast<char* (*)()>(dlsym(library, "openblas_get_corename"));
  const std::string core = name == nullptr ? "" : name();
  dlclose(library);
  return core;
}

}  // namespace

void use_one_openmp_thread() {
  thread_local const bool done = (omp_set_num_threads(1), true);
  static_cast<void>(done);
}

namespace {

// For a batch of a few rows times transposed weights, oneDNN 2.6 has AVX-512 kernels of twice the speed of those that
// it takes from 13 rows on (64 rows of 3136 × 512: 95 against 68 GFLOP/s; 20 of 784 × 100: 94 against 47).
std::size_t pieces(std::size_t rows, const Operand& a, const Operand& b) {
  constexpr std::size_t kFewRows = 12, kBatch = 64;
  static const bool avx512 = (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core) == dnnl_cpu_isa_avx512_core;
  const bool batch = a.form == Form::plain && b.form == Form::transposed && rows > kFewRows && rows <= kBatch;
  return avx512 && batch ? (rows + kFewRows - 1) / kFewRows : 1;
}

void multiply_at_once(std::size_t rows, std::size_t columns, std::size_t inner, Operand a, Operand b, float* c,
                      std::size_t stride, float scale, float keep) {
  const dnnl_status_t status =
      dnnl_sgemm(letter(a.form), letter(b.form), dimension(rows), dimension(columns), dimension(inner), scale, a.data,
                 dimension(a.stride), b.data, dimension(b.stride), keep, c, dimension(stride));
  if (status != dnnl_success) {
    fail<RunError>("oneDNN cannot multiply {} x {} by {} x {} (status {}): is memory exhausted?", rows, inner, inner,
                   columns, static_cast<int>(status));
  }
}

}  // namespace

void multiply(std::size_t rows, std::size_t columns, std::size_t inner, Operand a, Operand b, float* c,
              std::size_t stride, float scale, float keep) {
  use_one_openmp_thread();
  const std::size_t count = pieces(rows, a, b);
  for (std::size_t piece = 0; piece < count; ++piece) {
    const std::size_t first = rows * piece / count, last = rows * (piece + 1) / count;
    multiply_at_once(last - first, columns, inner, {a.data + first * a.stride, a.stride, a.form}, b, c + first * stride,
                     stride, scale, keep);
  }
}

std::string kernels_in_use() {
  const dnnl_version_t& version = *dnnl_version();
  std::string text = fmt::format("oneDNN {}.{}.{} {}, own loops {}", version.major, version.minor, version.patch,
                                 instruction_set(), kOwnLoops);
  if (const std::string core = openblas_core(); !core.empty()) text += ", OpenBLAS " + core;
  return text;
}

std::string openblas_core_of_this_cpu() {
#ifdef __x86_64__
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    return "SkylakeX";
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    return __builtin_cpu_is("amd") ? "Zen" : "Haswell";
  }
  if (__builtin_cpu_supports("avx")) return "Sandybridge";
#endif
  return "";
}

}  // namespace parley
