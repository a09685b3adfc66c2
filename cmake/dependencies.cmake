# Everything comes from Debian packages; scripts/setup installs them.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(CLI11 REQUIRED)
find_package(ZLIB REQUIRED)
find_package(JPEG REQUIRED)
find_package(PNG REQUIRED)
find_package(CURL REQUIRED)
find_package(EXPAT REQUIRED)
find_package(Eigen3 REQUIRED NO_MODULE)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
find_path(PARLEY_DNNL_INCLUDE oneapi/dnnl/dnnl.h REQUIRED)
find_library(PARLEY_DNNL dnnl REQUIRED)
if(PARLEY_TORCH AND NOT PARLEY_LEVEL)
  if(PARLEY_TORCH_ROOT)
    # The folder of a PyTorch wheel or LibTorch archive. Its own CMake files ask for CUDA where it was built with it; what
    # we use of it is in two libraries, with products of their own.
    find_library(PARLEY_TORCH_CPU torch_cpu PATHS ${PARLEY_TORCH_ROOT}/lib NO_DEFAULT_PATH)
    find_library(PARLEY_TORCH_C10 c10 PATHS ${PARLEY_TORCH_ROOT}/lib NO_DEFAULT_PATH)
    if(NOT PARLEY_TORCH_CPU OR NOT PARLEY_TORCH_C10)
      message(FATAL_ERROR "PARLEY_TORCH_ROOT: ${PARLEY_TORCH_ROOT} has no lib/libtorch_cpu.so and lib/libc10.so; "
                          "expected the folder 'torch' of a PyTorch wheel (scripts/setup --torch current puts one in place)")
    endif()
    add_library(parley_libtorch INTERFACE)
    # A wheel's headers hold an fmt of their own, which must not take the place of the one that we link.
    file(GLOB entries ${PARLEY_TORCH_ROOT}/include/*)
    list(FILTER entries EXCLUDE REGEX "/fmt$")
    file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/torch_headers)
    foreach(entry ${entries})
      get_filename_component(name ${entry} NAME)
      file(CREATE_LINK ${entry} ${CMAKE_BINARY_DIR}/torch_headers/${name} SYMBOLIC)
    endforeach()
    target_include_directories(parley_libtorch SYSTEM INTERFACE ${CMAKE_BINARY_DIR}/torch_headers
                               ${CMAKE_BINARY_DIR}/torch_headers/torch/csrc/api/include)
    # What CUDA builds of the library need beyond these two is found by its own path, when it is loaded.
    target_link_options(parley_libtorch INTERFACE -Wl,--allow-shlib-undefined)
    target_link_libraries(parley_libtorch INTERFACE ${PARLEY_TORCH_CPU} ${PARLEY_TORCH_C10})
    set(TORCH_LIBRARIES parley_libtorch)
    set(PARLEY_OPENBLAS "")
  else()
    find_package(Torch REQUIRED)
  endif()
endif()
if(PARLEY_TORCH AND NOT PARLEY_LEVEL AND NOT PARLEY_TORCH_ROOT)
  # LibTorch's products.
  find_path(PARLEY_CBLAS_INCLUDE cblas.h PATH_SUFFIXES x86_64-linux-gnu/openblas-pthread openblas openblas-pthread
            x86_64-linux-gnu aarch64-linux-gnu/openblas-pthread REQUIRED)
  find_library(PARLEY_OPENBLAS openblas REQUIRED)
endif()
if(PARLEY_MPI)
  enable_language(C)
  find_package(MPI COMPONENTS C)
  if(NOT MPI_C_FOUND)
    message(STATUS "no MPI library: built without engine/mpi")
    set(PARLEY_MPI OFF)
  endif()
endif()
if(PARLEY_WIRE)
  find_package(PkgConfig)
  find_program(PARLEY_PROTOC protoc)
  find_program(PARLEY_GRPC_PLUGIN grpc_cpp_plugin)
  if(PkgConfig_FOUND)
    pkg_check_modules(PARLEY_GRPC IMPORTED_TARGET grpc++ protobuf)
    pkg_check_modules(PARLEY_SQLITE IMPORTED_TARGET sqlite3)
    pkg_check_modules(PARLEY_HTTP IMPORTED_TARGET cpp-httplib)
    pkg_check_modules(PARLEY_ZSTD IMPORTED_TARGET libzstd)
  endif()
  if(NOT (PARLEY_GRPC_FOUND AND PARLEY_SQLITE_FOUND AND PARLEY_HTTP_FOUND AND PARLEY_ZSTD_FOUND AND PARLEY_PROTOC AND PARLEY_GRPC_PLUGIN))
    message(STATUS "no gRPC, protobuf, SQLite, cpp-httplib or zstd: built without wire (parley serve, join)")
    set(PARLEY_WIRE OFF)
  endif()
endif()
if(PARLEY_TESTS)
  find_package(GTest REQUIRED)
  find_package(rapidcheck REQUIRED)
endif()
if(PARLEY_BENCH)
  find_package(benchmark REQUIRED)
endif()

# What every one of our own targets is compiled with.
add_library(parley_flags INTERFACE)
target_include_directories(parley_flags INTERFACE ${PROJECT_SOURCE_DIR}/src)
target_compile_options(parley_flags INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wno-missing-field-initializers -Werror
                                              -fno-math-errno -fno-trapping-math)
if(PARLEY_SANITIZE)
  target_compile_options(parley_flags INTERFACE -fsanitize=${PARLEY_SANITIZE} -fno-omit-frame-pointer
                                                -fno-sanitize-recover=all
                                                # GCC 12 mistakes the sanitizers' own code for uses of what is not set.
                                                $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>
                                                -Wno-uninitialized)
  target_link_options(parley_flags INTERFACE -fsanitize=${PARLEY_SANITIZE})
endif()

if(PARLEY_FUZZ)
  target_compile_options(parley_flags INTERFACE -Wno-error)  # our warnings are GCC's
endif()

# The instruction set; each room takes it for itself alone, because LibTorch's headers must not see it (model/torch).
add_library(parley_arch INTERFACE)
if(PARLEY_LEVEL)
  set(arch_flags -march=${PARLEY_LEVEL} -mprefer-vector-width=512)
elseif(PARLEY_NATIVE)
  set(arch_flags -march=native -mprefer-vector-width=512)
endif()
target_compile_options(parley_arch INTERFACE ${arch_flags})

# GCC 12's own AVX-512 header starts vectors from themselves (its bug 105593, mended in 13), and -Werror would end it.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  include(CheckCXXSourceCompiles)
  list(JOIN arch_flags " " CMAKE_REQUIRED_FLAGS)
  check_cxx_source_compiles("
    #ifndef __AVX512F__
    #error
    #endif
    int main() {}" PARLEY_AVX512)
  unset(CMAKE_REQUIRED_FLAGS)
  if(PARLEY_AVX512)
    target_compile_options(parley_arch INTERFACE -Wno-uninitialized -Wno-maybe-uninitialized)
  endif()
endif()
