// SPDX-License-Identifier: Apache-2.0
//
// Slots and numbers.
#include "verbs/soft/tables.hpp"

#include "verbs/soft/segment.hpp"

#include <cstring>
#include <set>

#include <doctest/doctest.h>

using namespace actor_rdma::verbs::soft;

TEST_CASE("a number leads back to its slot, and keys are never each other") {
  auto memory = *segment::make_private(7);
  auto& t = memory.get();
  std::set<std::uint32_t> seen;
  for (int i = 0; i < 20'000; ++i) {
    const auto mr = *claim_memory_region(t, 0);
    const auto lkey = new_lkey(t, mr);
    const auto rkey = new_rkey(t, mr);
    CHECK(index_of_key(t, lkey) == mr);
    CHECK(index_of_key(t, rkey) == mr);
    CHECK(seen.insert(lkey).second);
    CHECK(seen.insert(rkey).second);
    release_memory_region(t, mr);
  }
  seen.clear();
  for (int i = 0; i < 20'000; ++i) {
    const auto qp = *claim_queue_pair(t, 0);
    const auto qpn = t.qps[qp].qpn.load();
    CHECK(index_of_qp_number(t, qpn) == qp);
    CHECK(qpn > 1);
    CHECK(qpn < 1U << 24);
    CHECK(seen.insert(qpn).second);
    release_queue_pair(t, qp);
  }
}

TEST_CASE("a slot's keys change each time it is used, for a long time") {
  auto memory = *segment::make_private(7);
  auto& t = memory.get();
  std::set<std::uint32_t> seen;
  for (int i = 0; i < 65'536; ++i) {
    t.mrs[5].generation.fetch_add(1);
    CHECK(seen.insert(new_rkey(t, 5)).second);
  }
}

TEST_CASE("a full table refuses, and one free slot is found") {
  auto memory = *segment::make_private(1);
  auto& t = memory.get();
  for (std::uint32_t i = 0; i < layout::max_mrs; ++i)
    REQUIRE(claim_memory_region(t, 3));
  CHECK(!claim_memory_region(t, 3));
  release_memory_region(t, 777);
  CHECK(claim_memory_region(t, 3) == 777U);
  CHECK(!claim_memory_region(t, 3));
  release_process(t, 3);
  CHECK(claim_memory_region(t, 4));
}

TEST_CASE("another seed gives other numbers") {
  auto one = *segment::make_private(1);
  auto two = *segment::make_private(2);
  int same = 0;
  for (std::uint32_t i = 0; i < 100; ++i)
    same += new_lkey(one.get(), i) == new_lkey(two.get(), i) ? 1 : 0;
  CHECK(same < 5);
}

TEST_CASE("states are told apart, and only two of them respond") {
  for (const auto state : {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_ERR}) {
    const auto word = qp_word(99, state);
    CHECK(qp_generation(word) == 99);
    CHECK(qp_is(word, state));
    CHECK(qp_responds(word) == (state == IBV_QPS_RTR || state == IBV_QPS_RTS));
  }
  CHECK(!qp_is(std::uint64_t{99} << 8, IBV_QPS_RESET)); // absent
}
