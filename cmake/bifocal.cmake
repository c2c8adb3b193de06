# What every folder's CMakeLists.txt is written in: bifocal_module, bifocal_fuzz.
# Sources are found by pattern, so that adding a file is all it takes.

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
if(BIFOCAL_TESTS)
  find_package(GTest REQUIRED)
  include(GoogleTest)
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()

add_library(bifocal_flags INTERFACE)
target_include_directories(bifocal_flags INTERFACE ${PROJECT_SOURCE_DIR}/src
                                                   ${PROJECT_SOURCE_DIR}/include)
# Contraction is off so that dequantisation and references mean the same on every machine;
# kernels that want FMA say so with intrinsics.
target_compile_options(bifocal_flags INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion
                                               -ffp-contract=off)
if(BIFOCAL_WERROR)
  target_compile_options(bifocal_flags INTERFACE -Werror)
endif()
if(BIFOCAL_SANITIZE)
  target_compile_options(bifocal_flags INTERFACE -fsanitize=${BIFOCAL_SANITIZE}
                                                 -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(bifocal_flags INTERFACE -fsanitize=${BIFOCAL_SANITIZE})
endif()

# bifocal_module(NAME [DEPS targets...])
# Library bifocal_NAME of every *.cpp below this folder, and test program NAME_tests of every
# *_test.cpp (label: fast unless the file name ends in _slow_test.cpp).
function(bifocal_module name)
  cmake_parse_arguments(M "" "" "DEPS;TEST_DEPS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS *.cpp)
  set(tests ${sources})
  set(slow_tests ${sources})
  list(FILTER sources EXCLUDE REGEX "(_(test|fuzz|bench)|/main)\\.cpp$")
  list(FILTER tests INCLUDE REGEX "_test\\.cpp$")
  list(FILTER tests EXCLUDE REGEX "_slow_test\\.cpp$")
  list(FILTER slow_tests INCLUDE REGEX "_slow_test\\.cpp$")
  if(sources)
    add_library(bifocal_${name} STATIC ${sources})
    target_link_libraries(bifocal_${name} PUBLIC bifocal_flags ${M_DEPS})
  else()
    add_library(bifocal_${name} INTERFACE)
    target_link_libraries(bifocal_${name} INTERFACE bifocal_flags ${M_DEPS})
  endif()
  bifocal_tests(${name} fast "${tests}" bifocal_${name} ${M_TEST_DEPS})
  bifocal_tests(${name}_slow slow "${slow_tests}" bifocal_${name} ${M_TEST_DEPS})
endfunction()

# bifocal_tests(NAME LABEL "sources" deps...): one GoogleTest program NAME_tests. CTest runs it as one
# entry per test suite file group, not per case: a fork per case would cost more than the cases do.
function(bifocal_tests name label sources)
  if(NOT BIFOCAL_TESTS OR NOT sources)
    return()
  endif()
  add_executable(${name}_tests ${sources})
  target_link_libraries(${name}_tests PRIVATE ${ARGN} GTest::gtest GTest::gmock GTest::gtest_main)
  target_compile_definitions(${name}_tests
    PRIVATE BIFOCAL_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  add_test(NAME ${name} COMMAND ${name}_tests --gtest_brief=1)
  set(seconds 900)
  if(BIFOCAL_SANITIZE)
    set(seconds 3600)  # an order of magnitude slower
  endif()
  set_tests_properties(${name} PROPERTIES LABELS ${label} TIMEOUT ${seconds}
    ENVIRONMENT "GTEST_OUTPUT=json:${PROJECT_BINARY_DIR}/test-results/${name}.json")
endfunction()

# bifocal_fuzz(NAME source deps...): a libFuzzer program NAME_fuzz; needs clang and BIFOCAL_FUZZ.
function(bifocal_fuzz name source)
  if(NOT BIFOCAL_FUZZ)
    return()
  endif()
  add_executable(${name}_fuzz ${source})
  target_link_libraries(${name}_fuzz PRIVATE ${ARGN})
  target_link_options(${name}_fuzz PRIVATE -fsanitize=fuzzer)
endfunction()
