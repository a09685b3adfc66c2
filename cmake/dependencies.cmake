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
  find_package(Torch REQUIRED)
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
                                                -Wno-maybe-uninitialized -Wno-uninitialized)
  target_link_options(parley_flags INTERFACE -fsanitize=${PARLEY_SANITIZE})
endif()

# The instruction set; each room takes it for itself alone, because LibTorch's headers must not see it (model/torch).
add_library(parley_arch INTERFACE)
if(PARLEY_LEVEL)
  target_compile_options(parley_arch INTERFACE -march=${PARLEY_LEVEL} -mprefer-vector-width=512)
elseif(PARLEY_NATIVE)
  target_compile_options(parley_arch INTERFACE -march=native -mprefer-vector-width=512)
endif()
