// SPDX-License-Identifier: Apache-2.0
//
// States of a queue pair, and the errors that end one.
#include "verbs/soft/qp_transitions.hpp"
#include "verbs/soft/testing/rig.hpp"

#include <chrono>
#include <set>
#include <thread>
#include <utility>

using namespace actor_rdma;
using namespace actor_rdma::verbs;
using namespace actor_rdma::verbs::soft;
using namespace actor_rdma::verbs::soft::testing;
using namespace std::chrono_literals;

namespace {

int set_state(end& e, ibv_qp_state state) {
  ibv_qp_attr attr{};
  attr.qp_state = state;
  const auto done = e.qp.modify(attr, IBV_QP_STATE);
  return done ? 0 : done.error().sys_errno;
}

/// The status of one write, and how both ends are afterwards.
ibv_wc_status status_of_write(pair_rig& rig, const address& to, std::uint32_t length = 64,
                              std::uint64_t local = 0) {
  REQUIRE(rig.a->write(1, to, local, 0, length) == 0);
  REQUIRE(rig.a->write(2, rig.b->where(), 0, 0, 64, false) == 0);
  rig.run_for(1s);
  const auto wcs = rig.a->poll();
  REQUIRE(wcs.size() == 2);
  CHECK(wcs[0].wr_id == 1);
  CHECK(wcs[0].qp_num == rig.a->qp.number());
  CHECK(wcs[1].wr_id == 2);
  CHECK(wcs[1].status == IBV_WC_WR_FLUSH_ERR);
  CHECK(rig.a->state() == IBV_QPS_ERR);
  return wcs[0].status;
}

} // namespace

TEST_CASE("the transitions are those of the kernel's table") {
  constexpr int init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  constexpr int rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  constexpr int rts = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                      IBV_QP_MAX_QP_RD_ATOMIC;
  CHECK(check_transition(IBV_QPS_RESET, IBV_QPS_INIT, init) == 0);
  CHECK(check_transition(IBV_QPS_INIT, IBV_QPS_RTR, rtr) == 0);
  CHECK(check_transition(IBV_QPS_RTR, IBV_QPS_RTS, rts) == 0);
  for (int bit = 1; bit < IBV_QP_RATE_LIMIT; bit <<= 1) {
    if ((init & bit & ~IBV_QP_STATE) != 0)
      CHECK(check_transition(IBV_QPS_RESET, IBV_QPS_INIT, init & ~bit) == EINVAL);
    if ((rtr & bit & ~IBV_QP_STATE) != 0)
      CHECK(check_transition(IBV_QPS_INIT, IBV_QPS_RTR, rtr & ~bit) == EINVAL);
    if ((rts & bit & ~IBV_QP_STATE) != 0)
      CHECK(check_transition(IBV_QPS_RTR, IBV_QPS_RTS, rts & ~bit) == EINVAL);
  }
  CHECK(check_transition(IBV_QPS_RESET, IBV_QPS_INIT, init | IBV_QP_QKEY) == EINVAL);
  CHECK(check_transition(IBV_QPS_INIT, IBV_QPS_RTR, rtr | IBV_QP_TIMEOUT) == EINVAL);
  CHECK(check_transition(IBV_QPS_RESET, IBV_QPS_RTR, rtr) == EINVAL);
  CHECK(check_transition(IBV_QPS_INIT, IBV_QPS_RTS, rts) == EINVAL);
  CHECK(check_transition(IBV_QPS_RTS, IBV_QPS_INIT, init) == EINVAL);
  CHECK(check_transition(IBV_QPS_RTS, IBV_QPS_SQD, IBV_QP_STATE) == EINVAL);
  CHECK(check_transition(IBV_QPS_RESET, IBV_QPS_ERR, IBV_QP_STATE) == EINVAL);
  for (const auto from : {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_ERR}) {
    CHECK(check_transition(from, IBV_QPS_RESET, IBV_QP_STATE) == 0);
    if (from != IBV_QPS_RESET)
      CHECK(check_transition(from, IBV_QPS_ERR, IBV_QP_STATE) == 0);
  }
}

TEST_CASE("posts are refused below RTS, with the first request as the bad one") {
  pair_rig rig{nic_mode::immediate};
  auto fresh = end::open(*rig.host_a);
  CHECK(fresh->write(1, rig.b->where(), 0, 0, 8) == EINVAL);
  CHECK(fresh->to_init() == 0);
  CHECK(fresh->write(1, rig.b->where(), 0, 0, 8) == EINVAL);
  CHECK(fresh->to_rtr(rig.b->where()) == 0);
  CHECK(fresh->write(1, rig.b->where(), 0, 0, 8) == EINVAL);
  CHECK(fresh->state() == IBV_QPS_RTR);
  CHECK(fresh->to_rts() == 0);
  CHECK(fresh->state() == IBV_QPS_RTS);
  CHECK(set_state(*fresh, IBV_QPS_ERR) == 0);
  CHECK(fresh->write(1, rig.b->where(), 0, 0, 8) == 0);
  CHECK(fresh->poll().at(0).status == IBV_WC_WR_FLUSH_ERR);
}

TEST_CASE("bad attributes are refused and change nothing") {
  pair_rig rig{nic_mode::immediate};
  auto fresh = end::open(*rig.host_a);
  CHECK(set_state(*fresh, IBV_QPS_ERR) == EINVAL);
  CHECK(fresh->to_init() == 0);
  auto bad = rig.b->where();
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_4096;
  attr.ah_attr.port_num = 1;
  const int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  CHECK(fresh->qp.modify(attr, mask).error().sys_errno == EINVAL); // no GID: this is RoCE
  attr.ah_attr.is_global = 1;
  attr.ah_attr.grh.sgid_index = 5; // an empty place
  CHECK(fresh->qp.modify(attr, mask).error().sys_errno == ENODATA);
  attr.ah_attr.grh.sgid_index = 3;
  attr.max_dest_rd_atomic = 17;
  CHECK(fresh->qp.modify(attr, mask).error().sys_errno == EINVAL);
  CHECK(fresh->state() == IBV_QPS_INIT);
  CHECK(fresh->to_rtr(bad) == 0);
  fresh->options.timeout = 32;
  CHECK(fresh->to_rts() == EINVAL);
  CHECK(fresh->state() == IBV_QPS_RTR);
}

TEST_CASE("a wrong key, range or right is a remote access error and ends both queue pairs") {
  for (const auto mode : {nic_mode::immediate, nic_mode::paced}) {
    pair_rig rig{mode, true};
    auto to = rig.b->where();
    memory_region other;
    SUBCASE("the local key") {
      to.rkey = rig.b->mr.lkey();
    }
    SUBCASE("a bit off") {
      to.rkey ^= 0x10000;
    }
    SUBCASE("past the end") {
      to.addr += buffer_bytes - 63;
    }
    SUBCASE("before the beginning") {
      to.addr -= 1;
    }
    SUBCASE("round the end of the address space") {
      to.addr = UINT64_MAX - 10;
    }
    SUBCASE("no right to write") {
      other = std::move(*memory_region::reg(rig.b->pd, rig.b->memory, 4096, IBV_ACCESS_REMOTE_READ));
      to.rkey = other.rkey();
    }
    SUBCASE("of another protection domain") {
      auto pd = std::move(*protection_domain::alloc(rig.b->ctx));
      other = std::move(*memory_region::reg(pd, rig.b->memory, 4096, all_access));
      to.rkey = other.rkey();
      CHECK(status_of_write(rig, to) == IBV_WC_REM_ACCESS_ERR);
      CHECK(other.destroy());
      CHECK(pd.destroy());
      continue;
    }
    SUBCASE("deregistered") {
      REQUIRE(rig.b->mr.destroy());
    }
    REQUIRE(rig.a->write(1, to, 0, 0, 64) == 0);
    REQUIRE(rig.a->write(2, to, 0, 0, 64, false) == 0);
    rig.run_for(1s);
    const auto wcs = rig.a->poll();
    REQUIRE(wcs.size() == 2);
    CHECK(wcs[0].status == IBV_WC_REM_ACCESS_ERR);
    CHECK(wcs[1].status == IBV_WC_WR_FLUSH_ERR);
    CHECK(rig.b->memory[0] == std::byte{0});
    CHECK(rig.a->state() == IBV_QPS_ERR);
    CHECK(rig.b->state() == IBV_QPS_ERR);
    const auto event = rig.b->ctx.next_async_event();
    REQUIRE((event && *event));
    CHECK((*event)->type == IBV_EVENT_QP_ACCESS_ERR);
    CHECK((*event)->qp_num == rig.b->qp.number());
    CHECK(rig.count(log_kind::remote_access_error) == 1);
    (void)other.destroy();
  }
}

TEST_CASE("an operation that the responder's queue pair does not allow is a remote invalid request") {
  SUBCASE("no write on the queue pair") {
    qp_options options;
    options.access = IBV_ACCESS_REMOTE_READ;
    pair_rig rig{nic_mode::paced, true, options};
    CHECK(status_of_write(rig, rig.b->where()) == IBV_WC_REM_INV_REQ_ERR);
  }
  SUBCASE("no reads to serve") {
    qp_options options;
    options.reads = 0;
    pair_rig rig{nic_mode::paced, true, options};
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RESET;
    REQUIRE(rig.a->qp.modify(attr, IBV_QP_STATE));
    rig.a->options.reads = 16;
    rig.a->connect(rig.b->where());
    CHECK(rig.a->read(1, rig.b->where(), 0, 0, 64) == 0);
    rig.run_for(1s);
    CHECK(rig.a->poll().at(0).status == IBV_WC_REM_INV_REQ_ERR);
  }
  SUBCASE("packets longer than the responder takes") {
    pair_rig rig{nic_mode::paced, true};
    REQUIRE(set_state(*rig.b, IBV_QPS_RESET) == 0);
    rig.b->options.mtu = IBV_MTU_1024;
    rig.b->connect(rig.a->where());
    CHECK(rig.a->write(1, rig.b->where(), 0, 0, 1024) == 0);
    rig.run_for(1ms);
    CHECK(rig.a->poll().at(0).status == IBV_WC_SUCCESS);
    CHECK(status_of_write(rig, rig.b->where(), 1025) == IBV_WC_REM_INV_REQ_ERR);
  }
}

TEST_CASE("a wrong local key or range is a local protection error, and the peer knows nothing") {
  for (const auto mode : {nic_mode::immediate, nic_mode::paced}) {
    pair_rig rig{mode, true};
    CHECK(rig.a->write(7, rig.b->where(), 0, 0, 8, false) == 0);
    CHECK(status_of_write(rig, rig.b->where(), 64, buffer_bytes - 63) == IBV_WC_LOC_PROT_ERR);
    CHECK(rig.b->state() == IBV_QPS_RTS);
    CHECK(rig.count(log_kind::local_protection_error) == 1);
  }
  pair_rig rig{nic_mode::immediate, true};
  const auto read_only = memory_region::reg(rig.a->pd, rig.a->memory, 4096, 0);
  ibv_sge sge{reinterpret_cast<std::uintptr_t>(rig.a->memory), 64, read_only->lkey()};
  ibv_send_wr wr{};
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_RDMA_READ;
  wr.wr.rdma.remote_addr = rig.b->where().addr;
  wr.wr.rdma.rkey = rig.b->where().rkey;
  CHECK(rig.a->post({&wr, 1}) == 0);
  CHECK(rig.a->poll().at(0).status == IBV_WC_LOC_PROT_ERR);
}

TEST_CASE("a message longer than the port's maximum is a local length error") {
  pair_rig rig{nic_mode::null, true};
  CHECK(status_of_write(rig, rig.b->where(), (1U << 30) + 1) == IBV_WC_LOC_LEN_ERR);
}

TEST_CASE("the fields of an error completion that mean nothing are garbage") {
  std::set<std::uint32_t> lengths;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    pair_rig rig{nic_mode::immediate, true, {}, {}, seed};
    auto to = rig.b->where();
    to.rkey ^= 0x10000;
    CHECK(rig.a->write(5, to, 0, 0, 64) == 0);
    const auto wc = rig.a->poll().at(0);
    CHECK(wc.wr_id == 5);
    CHECK(wc.qp_num == rig.a->qp.number());
    lengths.insert(wc.byte_len);
  }
  CHECK(lengths.size() == 20);
}

TEST_CASE("a peer that is not connected to us, or by another sequence number, does not answer") {
  for (const auto mode : {nic_mode::immediate, nic_mode::paced}) {
    pair_rig rig{mode, true};
    auto to = rig.b->where();
    SUBCASE("still in INIT") {
      REQUIRE(set_state(*rig.b, IBV_QPS_RESET) == 0);
      REQUIRE(rig.b->to_init() == 0);
    }
    SUBCASE("connected to somebody else") {
      REQUIRE(set_state(*rig.b, IBV_QPS_RESET) == 0);
      auto other = rig.a->where();
      other.qpn ^= 1;
      rig.b->connect(other);
    }
    SUBCASE("another start") {
      REQUIRE(set_state(*rig.b, IBV_QPS_RESET) == 0);
      auto other = rig.a->where();
      other.psn -= 1;
      rig.b->connect(other);
    }
    SUBCASE("destroyed") {
      REQUIRE(rig.b->qp.destroy());
    }
    if (!rig.b->qp)
      rig.b->make_qp();
    CHECK(rig.a->write(1, to, 0, 0, 64) == 0);
    rig.run_for(133ms);
    CHECK(rig.a->poll().empty());
    rig.run_for(2ms);
    CHECK(rig.a->poll().at(0).status == IBV_WC_RETRY_EXC_ERR);
  }
}

TEST_CASE("a peer that becomes ready late is found by a retry") {
  pair_rig rig{nic_mode::immediate, true};
  REQUIRE(set_state(*rig.b, IBV_QPS_RESET) == 0);
  CHECK(rig.a->write(1, rig.b->where(), 0, 0, 64) == 0);
  rig.run_for(10ms);
  rig.b->connect(rig.a->where());
  rig.run_for(10ms);
  CHECK(rig.a->poll().empty()); // the packet was dropped: only the timer brings another
  rig.run_for(60ms);
  CHECK(rig.a->poll().at(0).status == IBV_WC_SUCCESS);
}

TEST_CASE("a write that repeats a sequence number is acknowledged and not executed") {
  pair_rig rig{nic_mode::immediate, true};
  CHECK(rig.a->write(1, rig.b->where(), 0, 0, 64) == 0);
  CHECK(rig.a->poll().size() == 1);
  REQUIRE(set_state(*rig.a, IBV_QPS_RESET) == 0);
  rig.a->connect(rig.b->where()); // only one side begins again: its numbers are behind
  fill(rig.a->memory, 64, 3);
  CHECK(rig.a->write(2, rig.b->where(), 0, 0, 64) == 0);
  CHECK(rig.a->poll().at(0).status == IBV_WC_SUCCESS);
  CHECK(rig.b->memory[1] == std::byte{0});
}

TEST_CASE("a reset queue pair forgets its work without a word and can begin again") {
  pair_rig rig{nic_mode::paced, true};
  for (std::uint64_t i = 0; i < 10; ++i)
    CHECK(rig.a->write(i, rig.b->where(), 0, 0, 64) == 0);
  rig.run_for(6us);
  REQUIRE(set_state(*rig.a, IBV_QPS_RESET) == 0);
  REQUIRE(set_state(*rig.b, IBV_QPS_RESET) == 0);
  rig.run_for(1s);
  CHECK(rig.a->poll().empty());
  rig.connect();
  for (std::uint64_t i = 0; i < 256; ++i) // every slot is free again
    CHECK(rig.a->write(i, rig.b->where(), 0, 0, 64) == 0);
  rig.run_for(1s);
  CHECK(rig.a->poll().size() == 256);
}

TEST_CASE("completions that nobody polled go with their queue pair, those of others stay") {
  for (const bool is_reset : {true, false}) {
    pair_rig rig{nic_mode::immediate, true};
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = rig.a->cq.get();
    init.cap = {16, 1, 1, 1, 0};
    auto second = std::move(*queue_pair::create(rig.a->pd, init));
    const auto first_number = rig.a->qp.number();
    CHECK(rig.a->write(1, rig.b->where(), 0, 0, 8) == 0);
    std::swap(rig.a->qp, second);
    auto b2 = end::open(*rig.host_b);
    rig.a->connect(b2->where());
    b2->connect(rig.a->where());
    CHECK(rig.a->write(2, b2->where(), 0, 0, 8) == 0);
    std::swap(rig.a->qp, second);
    CHECK(rig.a->write(3, rig.b->where(), 0, 0, 8) == 0);
    if (is_reset)
      CHECK(set_state(*rig.a, IBV_QPS_RESET) == 0);
    else
      CHECK(rig.a->qp.destroy());
    const auto wcs = rig.a->poll();
    REQUIRE(wcs.size() == 1);
    CHECK(wcs[0].wr_id == 2);
    CHECK(wcs[0].qp_num != first_number);
  }
}

TEST_CASE("a completion queue that overflows says so and takes its queue pair to ERR") {
  qp_options options;
  options.cq_entries = 4;
  pair_rig rig{nic_mode::immediate, true, options};
  for (std::uint64_t i = 0; i < 5; ++i)
    CHECK(rig.a->write(i, rig.b->where(), 0, 0, 8) == 0);
  CHECK(rig.a->poll().size() == 4);
  CHECK(rig.a->state() == IBV_QPS_ERR);
  const auto first = rig.a->ctx.next_async_event();
  REQUIRE((first && *first));
  CHECK((*first)->type == IBV_EVENT_CQ_ERR);
  CHECK((*first)->cq == rig.a->cq.get());
  const auto second = rig.a->ctx.next_async_event();
  REQUIRE((second && *second));
  CHECK((*second)->type == IBV_EVENT_QP_FATAL);
}

TEST_CASE("reads in flight are limited, and a fence waits for them") {
  qp_options options;
  options.reads = 2;
  device_options device;
  device.latency = 1ms;
  pair_rig rig{nic_mode::paced, true, options, device};
  for (std::uint64_t i = 0; i < 6; ++i)
    CHECK(rig.a->read(i, rig.b->where(), 0, 0, 8) == 0);
  rig.run_for(2100us);
  CHECK(rig.a->poll().size() == 2);
  rig.run_for(2100us);
  CHECK(rig.a->poll().size() == 2);
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.send_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE;
  CHECK(rig.a->post({&wr, 1}) == 0);
  rig.run_for(2100us);
  CHECK(rig.a->poll().size() == 2);
  rig.run_for(2100us);
  CHECK(rig.a->poll().size() == 1);
}
