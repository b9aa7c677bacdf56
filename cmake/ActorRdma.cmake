# SPDX-License-Identifier: Apache-2.0
# The few functions with which every folder describes itself.
#
#   actor_rdma_module(base DEPS fmt::fmt)
#     a static library actor_rdma_base from this folder's *.cpp (and those of SUBDIRS), and an executable
#     base_tests from its *.test.cpp. Files named *.main.cpp belong to executables. A test in a file named
#     *.serial.test.cpp goes into base_serial_tests: ctest runs nothing beside it.
#   actor_rdma_executable(actor-rdma-bench SOURCES bench.main.cpp DEPS transport)
#     an executable in <build>/bin, built by the target actor_rdma_programs too: all programs, no tests.
#   actor_rdma_doctest(NAME SOURCES ... DEPS ... [PROPERTIES ...])
#     an executable of doctest cases, each of which is known to ctest.
#
# DEPS are names of modules (base, verbs, ...) or targets.

add_library(actor_rdma_options INTERFACE)
target_compile_features(actor_rdma_options INTERFACE cxx_std_20)
target_include_directories(actor_rdma_options INTERFACE "${PROJECT_SOURCE_DIR}")
target_link_libraries(actor_rdma_options INTERFACE Threads::Threads)
target_compile_options(actor_rdma_options INTERFACE
  -Wall -Wextra -Wconversion -Wshadow $<$<BOOL:${ACTOR_RDMA_WERROR}>:-Werror>)

add_custom_target(actor_rdma_programs)

function(actor_rdma_resolve out)
  set(targets "")
  foreach(dep IN LISTS ARGN)
    if(TARGET actor_rdma_${dep})
      list(APPEND targets actor_rdma_${dep})
    else()
      list(APPEND targets ${dep})
    endif()
  endforeach()
  set(${out} "${targets}" PARENT_SCOPE)
endfunction()

function(actor_rdma_pch target header)
  if(ACTOR_RDMA_PCH AND header)
    target_precompile_headers(${target} PRIVATE "${header}")
  endif()
endfunction()

function(actor_rdma_executable name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "TEST" "PCH" "SOURCES;DEPS")
  actor_rdma_resolve(deps ${arg_DEPS})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE actor_rdma_options ${deps})
  actor_rdma_pch(${name} "${arg_PCH}")
  if(NOT arg_TEST)
    add_dependencies(actor_rdma_programs ${name})
  endif()
endfunction()

function(actor_rdma_doctest name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "PCH;PREFIX" "SOURCES;DEPS;PROPERTIES")
  actor_rdma_executable(${name} TEST SOURCES ${arg_SOURCES} PCH "${arg_PCH}"
    DEPS actor_rdma_doctest_main doctest::doctest ${arg_DEPS})
  if(NOT arg_PREFIX)
    set(arg_PREFIX ${name})
  endif()
  # A name that the filter does not find runs zero cases, which doctest calls a success. The watchdog in the
  # shared main aborts a hung case before ctest's time-out, which could not say where it hung.
  doctest_discover_tests(${name} TEST_PREFIX "${arg_PREFIX}: "
    PROPERTIES FAIL_REGULAR_EXPRESSION "test cases: +0 " TIMEOUT 180 ${arg_PROPERTIES})
endfunction()

function(actor_rdma_module name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "PCH" "DEPS;SUBDIRS;TEST_DEPS")
  set(globs *.cpp)
  foreach(dir IN LISTS arg_SUBDIRS)
    list(APPEND globs ${dir}/*.cpp)
  endforeach()
  file(GLOB sources CONFIGURE_DEPENDS ${globs})
  list(FILTER sources EXCLUDE REGEX "\\.main\\.cpp$")
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "\\.test\\.cpp$")
  list(FILTER tests INCLUDE REGEX "\\.test\\.cpp$")
  set(serial_tests ${tests})
  list(FILTER serial_tests INCLUDE REGEX "\\.serial\\.test\\.cpp$")
  list(FILTER tests EXCLUDE REGEX "\\.serial\\.test\\.cpp$")

  actor_rdma_resolve(deps ${arg_DEPS})
  if(sources)
    add_library(actor_rdma_${name} STATIC ${sources})
    target_link_libraries(actor_rdma_${name} PUBLIC actor_rdma_options ${deps})
    actor_rdma_pch(actor_rdma_${name} "${arg_PCH}")
  else()
    add_library(actor_rdma_${name} INTERFACE)
    target_link_libraries(actor_rdma_${name} INTERFACE actor_rdma_options ${deps})
  endif()

  if(NOT BUILD_TESTING)
    return()
  endif()
  if(tests)
    actor_rdma_doctest(${name}_tests SOURCES ${tests} PCH "${arg_PCH}" PREFIX ${name}
      DEPS actor_rdma_${name} ${arg_TEST_DEPS})
  endif()
  if(serial_tests)
    actor_rdma_doctest(${name}_serial_tests SOURCES ${serial_tests} PCH "${arg_PCH}" PREFIX ${name}
      DEPS actor_rdma_${name} ${arg_TEST_DEPS} PROPERTIES RUN_SERIAL TRUE)
  endif()
endfunction()
