// SPDX-License-Identifier: Apache-2.0
//
// Atomic operations: what they do, what they refuse, and that they are atomic.
#include "verbs/soft/testing/rig.hpp"

#include <atomic>
#include <chrono>
#include <thread>

using namespace actor_rdma;
using namespace actor_rdma::verbs;
using namespace actor_rdma::verbs::soft;
using namespace actor_rdma::verbs::soft::testing;
using namespace std::chrono_literals;

namespace {

constexpr int atomic_access = all_access | IBV_ACCESS_REMOTE_ATOMIC;

struct atomic_rig : pair_rig {
  explicit atomic_rig(nic_mode mode, bool is_virtual = true) : pair_rig{mode, is_virtual, options()} {
    region = std::move(*memory_region::reg(b->pd, b->memory, 4096, atomic_access));
    to = b->where();
    to.rkey = region.rkey();
  }
  ~atomic_rig() { (void)region.destroy(); }
  static qp_options options() {
    qp_options o;
    o.access = atomic_access;
    return o;
  }
  int post(ibv_wr_opcode opcode, std::uint64_t remote, std::uint64_t compare_add, std::uint64_t swap = 0) {
    ibv_sge sge{reinterpret_cast<std::uintptr_t>(a->memory), 8, a->lkey};
    ibv_send_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = opcode;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.atomic.remote_addr = to.addr + remote;
    wr.wr.atomic.rkey = to.rkey;
    wr.wr.atomic.compare_add = compare_add;
    wr.wr.atomic.swap = swap;
    return a->post({&wr, 1});
  }
  static std::uint64_t word(const end& e, std::size_t at = 0) {
    std::uint64_t value = 0;
    std::memcpy(&value, e.memory + at, sizeof value);
    return value;
  }
  memory_region region;
  address to;
};

} // namespace

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
      CHECK(rig.word(*rig.a) == 0);
      CHECK(rig.word(*rig.b, 8) == 5);
      REQUIRE(rig.post(IBV_WR_ATOMIC_CMP_AND_SWP, 8, 4, 9) == 0);
      rig.run_for(20ms);
      wc = rig.a->poll().at(0);
      CHECK(wc.opcode == IBV_WC_COMP_SWAP);
      CHECK(rig.word(*rig.a) == 5);
      CHECK(rig.word(*rig.b, 8) == 5); // it was not 4
      REQUIRE(rig.post(IBV_WR_ATOMIC_CMP_AND_SWP, 8, 5, 9) == 0);
      rig.run_for(20ms);
      CHECK(rig.a->poll().size() == 1);
      CHECK(rig.word(*rig.a) == 5);
      CHECK(rig.word(*rig.b, 8) == 9);
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
  CHECK(rig.word(*rig.b) == 0);
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
  CHECK(rig.word(*rig.b) == 2 * rounds);
}
