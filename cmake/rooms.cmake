# Headers of others that most of our files include, read once for all files of the same flags: more than half of a clean
# build went into reading them.
function(parley_read_once name link headers)
  file(WRITE ${CMAKE_BINARY_DIR}/${name}.cc "")
  add_library(${name} STATIC EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/${name}.cc)
  target_link_libraries(${name} PRIVATE ${link})
  target_precompile_headers(${name} PRIVATE ${headers})
endfunction()

function(parley_use_headers target from)
  if(PARLEY_PCH)
    target_precompile_headers(${target} REUSE_FROM ${from})
  endif()
endfunction()

# What a test program is compiled with: the instruction set of the rooms, because two alignments of the same Eigen
# templates must not meet; little optimisation, because it is compiled more often than it runs.
add_library(parley_test_flags INTERFACE)
target_link_libraries(parley_test_flags INTERFACE parley_flags parley_arch fmt::fmt nlohmann_json::nlohmann_json)
# GCC 12 warns at -O1 of strings and optionals within its own library.
target_compile_options(parley_test_flags INTERFACE $<$<CONFIG:Release>:-O1> -Wno-maybe-uninitialized
                                                   $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds -Wno-stringop-overflow -Wno-restrict>)

if(PARLEY_PCH)
  set(headers <algorithm> <filesystem> <functional> <map> <memory> <optional> <set> <span> <sstream> <string> <vector>
              <fmt/format.h>)
  parley_read_once(parley_headers "parley_flags;parley_arch;fmt::fmt;nlohmann_json::nlohmann_json" "${headers}")
  set_target_properties(parley_headers PROPERTIES POSITION_INDEPENDENT_CODE ON)
  if(PARLEY_TESTS)
    parley_read_once(parley_test_headers "parley_test_flags;GTest::gtest"
                     "${headers};<gtest/gtest.h>")
  endif()
endif()

# One target a room. Sources are the room's own *.cc; files that end in _test.cc sit beside the code and become
# one test program a room.
#   parley_room(NAME [LINKS targets…] [TEST_LINKS targets…])
function(parley_room name)
  cmake_parse_arguments(ROOM "" "" "LINKS;TEST_LINKS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  list(FILTER sources EXCLUDE REGEX "/(model/torch/|engine/mpi/|engine/test_bed.cc|wire/rogue_test.cc)")
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  if(sources)
    add_library(parley_${name} STATIC ${sources})
    target_link_libraries(parley_${name} PUBLIC parley_flags ${ROOM_LINKS} PRIVATE parley_arch)
    set_target_properties(parley_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    parley_use_headers(parley_${name} parley_headers)
  else()
    add_library(parley_${name} INTERFACE)
    target_link_libraries(parley_${name} INTERFACE parley_flags ${ROOM_LINKS})
  endif()
  if(PARLEY_TESTS AND tests)
    parley_test(${name}_test SOURCES ${tests} LINKS parley_${name} ${ROOM_TEST_LINKS})
  endif()
endfunction()

# Tests write their folders to memory where there is enough of it: half of the suite's time was waiting for the disk.
set(test_environment "")
execute_process(COMMAND df --output=avail --block-size=1M /dev/shm OUTPUT_VARIABLE room ERROR_QUIET)
if(room MATCHES "([0-9]+)[ \n]*$" AND CMAKE_MATCH_1 GREATER 2000)
  set(test_environment ENVIRONMENT TMPDIR=/dev/shm)
endif()

#   parley_test(NAME SOURCES files… LINKS targets… [LABEL slow] [WITH_TORCH])
# WITH_TORCH: it includes LibTorch's headers.
function(parley_test name)
  cmake_parse_arguments(T "WITH_TORCH" "LABEL" "SOURCES;LINKS" ${ARGN})
  add_executable(${name} ${T_SOURCES})
  target_link_libraries(${name} PRIVATE ${T_LINKS} GTest::gtest_main rapidcheck)
  if(T_WITH_TORCH)
    target_link_libraries(${name} PRIVATE parley_flags)
  else()
    target_link_libraries(${name} PRIVATE parley_test_flags)
    parley_use_headers(${name} parley_test_headers)
  endif()
  include(GoogleTest)
  if(T_LABEL)
    gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 PROPERTIES LABELS ${T_LABEL} TIMEOUT 900 ${test_environment})
  else()
    gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 300 ${test_environment})
  endif()
endfunction()
