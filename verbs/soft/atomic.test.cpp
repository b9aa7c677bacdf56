// SPDX-License-Identifier: Apache-2.0
//
// Atomic operations: what they do, what they refuse, and that they are atomic.
#include "verbs/soft/testing/atomic_rig.hpp"

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

using namespace actor_rdma;
using namespace actor_rdma::verbs;
using namespace actor_rdma::verbs::soft;
using namespace actor_rdma::verbs::soft::testing;
using namespace std::chrono_literals;

TEST_CASE("atomics change the peer's word and bring back what it was") {
  for (const auto mode : {nic_mode::immediate, nic_mode::paced})
    for (const auto delay : {0ms, 5ms}) {
      atomic_rig rig{mode};
      REQUIRE(rig.net->set_delay("a/soft0", delay));
      REQUIRE(rig.post(IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 5) == 0);
      rig.run_for(20ms);
      auto wc = rig.a->poll().at(0);
      CHECK(wc.status == IBV_WC_SUCCESS);
      CHECK(wc.opcode == IBV_WC_FETCH_ADD);
      CHECK(wc.byte_len == 8);
      CHECK(word_at(*rig.a) == 0);
      CHECK(word_at(*rig.b, 8) == 5);
      REQUIRE(rig.post(IBV_WR_ATOMIC_CMP_AND_SWP, 8, 4, 9) == 0);
      rig.run_for(20ms);
      wc = rig.a->poll().at(0);
      CHECK(wc.opcode == IBV_WC_COMP_SWAP);
      CHECK(word_at(*rig.a) == 5);
      CHECK(word_at(*rig.b, 8) == 5); // it was not 4
      REQUIRE(rig.post(IBV_WR_ATOMIC_CMP_AND_SWP, 8, 5, 9) == 0);
      rig.run_for(20ms);
      CHECK(rig.a->poll().size() == 1);
      CHECK(word_at(*rig.a) == 5);
      CHECK(word_at(*rig.b, 8) == 9);
    }
}

TEST_CASE("atomics are refused where they may not be") {
  atomic_rig rig{nic_mode::immediate};
  SUBCASE("not aligned") {
    REQUIRE(rig.post(IBV_WR_ATOMIC_FETCH_AND_ADD, 4, 1) == 0);
    CHECK(rig.a->poll().at(0).status == IBV_WC_REM_INV_REQ_ERR);
    rig.run_for(1ms);
    CHECK((*rig.b->ctx.next_async_event())->type == IBV_EVENT_QP_REQ_ERR);
  }
  SUBCASE("past the end") {
    REQUIRE(rig.post(IBV_WR_ATOMIC_FETCH_AND_ADD, 4096, 1) == 0);
    CHECK(rig.a->poll().at(0).status == IBV_WC_REM_ACCESS_ERR);
  }
  SUBCASE("a region without the right") {
    rig.to.rkey = rig.b->rkey;
    REQUIRE(rig.post(IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 1) == 0);
    CHECK(rig.a->poll().at(0).status == IBV_WC_REM_ACCESS_ERR);
  }
  CHECK(word_at(*rig.b) == 0);
}

TEST_CASE("additions of the NIC and of the owner's own threads all count") {
  atomic_rig rig{nic_mode::immediate, false};
  constexpr std::uint64_t rounds = 20'000;
  std::thread owner{[&] {
    std::atomic_ref<std::uint64_t> cell{*reinterpret_cast<std::uint64_t*>(rig.b->memory)};
    for (std::uint64_t i = 0; i < rounds; ++i)
      cell.fetch_add(1);
  }};
  std::uint64_t done = 0;
  for (std::uint64_t i = 0; i < rounds; ++i) {
    REQUIRE(rig.post(IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 1) == 0);
    done += rig.a->poll().size();
  }
  owner.join();
  CHECK(done == rounds);
  CHECK(word_at(*rig.b) == 2 * rounds);
}

TEST_CASE("no more reads and atomics are taken than the responder has resources for") {
  for (const auto mode : {nic_mode::immediate, nic_mode::paced}) {
    CAPTURE(mode);
    pair_rig rig{mode, true};
    if (mode == nic_mode::paced) // else its queue pairs take turns on the wire, and never have many under way
      REQUIRE(rig.net->set_delay("a/soft0", 1us));
    auto few = atomic_rig::options();
    few.reads = 4;
    auto many = few;
    many.reads = 8;
    auto a = end::open(*rig.host_a, 0, many);
    auto b = end::open(*rig.host_b, 0, few);
    auto region = std::move(*memory_region::reg(b->pd, b->memory, 4096, atomic_access));
    a->connect(b->where());
    b->connect(a->where());
    auto to = b->where();
    to.rkey = region.rkey();
    const auto chain = [&](std::size_t n) {
      ibv_sge sge{reinterpret_cast<std::uintptr_t>(a->memory), 8, a->lkey};
      std::vector<ibv_send_wr> wrs(n);
      for (std::size_t i = 0; i < n; ++i) {
        wrs[i].wr_id = i;
        wrs[i].sg_list = &sge;
        wrs[i].num_sge = 1;
        wrs[i].opcode = i % 2 == 0 ? IBV_WR_RDMA_READ : IBV_WR_ATOMIC_FETCH_AND_ADD;
        wrs[i].send_flags = IBV_SEND_SIGNALED;
        if (i % 2 == 0) {
          wrs[i].wr.rdma.remote_addr = to.addr;
          wrs[i].wr.rdma.rkey = to.rkey;
        } else {
          wrs[i].wr.atomic.remote_addr = to.addr;
          wrs[i].wr.atomic.rkey = to.rkey;
          wrs[i].wr.atomic.compare_add = 1;
        }
      }
      REQUIRE(a->post(wrs) == 0);
      rig.run_for(10ms);
      return a->poll();
    };
    for (int round = 0; round < 3; ++round) // what is answered makes room
      for (const auto& wc : chain(4))
        CHECK(wc.status == IBV_WC_SUCCESS);
    const auto wcs = chain(6);
    REQUIRE(wcs.size() == 6);
    for (std::size_t i = 0; i < 4; ++i)
      CHECK(wcs[i].status == IBV_WC_SUCCESS);
    CHECK(wcs[4].status == IBV_WC_REM_INV_REQ_ERR);
    CHECK(wcs[5].status == IBV_WC_WR_FLUSH_ERR);
    CHECK(word_at(*b) == 8);
    CHECK(b->state() == IBV_QPS_ERR);
    CHECK((*b->ctx.next_async_event())->type == IBV_EVENT_QP_REQ_ERR);
    CHECK(region.destroy());
  }
}
