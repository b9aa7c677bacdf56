# SPDX-License-Identifier: Apache-2.0
# Every library from outside, looked up once. Where the name of a package differs between Debian 12 and 13, or
# where only a part of a package may be used, an interface target actor_rdma_<thing> hides it.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(doctest REQUIRED)
include(doctest)  # doctest_discover_tests
find_package(tl-expected REQUIRED)
find_package(rapidcheck REQUIRED)
if(NOT ACTOR_RDMA_ONLY_CAF_FREE)
  find_package(CAF 0.17.6 MODULE REQUIRED)
  find_package(benchmark REQUIRED)
endif()
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)

# `#include <rapidcheck.h>`. Our own target, because those headers are not clean under our warnings.
add_library(actor_rdma_rapidcheck INTERFACE)
target_link_libraries(actor_rdma_rapidcheck INTERFACE rapidcheck)
if(NOT TARGET rapidcheck::rapidcheck)
  add_library(rapidcheck::rapidcheck ALIAS actor_rdma_rapidcheck)
endif()

# Debian 13 names it msgpack-cxx, Debian 12 msgpack with the target msgpackc-cxx. The headers are all we take.
add_library(actor_rdma_msgpack INTERFACE)
find_path(ACTOR_RDMA_MSGPACK_INCLUDE_DIR msgpack.hpp REQUIRED)
mark_as_advanced(ACTOR_RDMA_MSGPACK_INCLUDE_DIR)
target_include_directories(actor_rdma_msgpack SYSTEM INTERFACE "${ACTOR_RDMA_MSGPACK_INCLUDE_DIR}")
target_compile_definitions(actor_rdma_msgpack INTERFACE MSGPACK_NO_BOOST)

# The header of libibverbs only. The library is loaded at run time through a provider table: linking it would
# make a call round that table succeed silently, and would let our software NIC's names clash with it.
add_library(actor_rdma_verbs_headers INTERFACE)
find_path(ACTOR_RDMA_VERBS_INCLUDE_DIR infiniband/verbs.h REQUIRED)
mark_as_advanced(ACTOR_RDMA_VERBS_INCLUDE_DIR)
target_include_directories(actor_rdma_verbs_headers SYSTEM INTERFACE "${ACTOR_RDMA_VERBS_INCLUDE_DIR}")
target_link_libraries(actor_rdma_verbs_headers INTERFACE ${CMAKE_DL_LIBS})
