// SPDX-License-Identifier: Apache-2.0
//
// Messages that find no receive or the wrong one, receives that are flushed, and shared receive queues.
#include "verbs/soft/testing/peer.hpp"

#include <chrono>
#include <csignal>
#include <thread>

#include <sys/wait.h>

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

ibv_event_type next_event(end& e) {
  const auto event = e.ctx.next_async_event();
  REQUIRE((event && *event));
  return (*event)->type;
}

/// Replaces an end's queue pair by one with a shared receive queue.
ibv_srq* share(host& on, end& e, std::uint32_t wrs) {
  ibv_srq_init_attr init{};
  init.attr = {wrs, 1, 0};
  auto* const srq = on.verbs().create_srq(e.pd.get(), &init);
  REQUIRE(srq != nullptr);
  e.srq = srq;
  REQUIRE(e.qp.destroy());
  e.make_qp();
  return srq;
}

} // namespace

TEST_CASE("without a receive the sender waits for the receiver's time, and comes again") {
  for (const auto mode : {nic_mode::immediate, nic_mode::paced}) {
    qp_options options;
    options.rnr_timer = 14; // 1.28 ms
    device_options device;
    device.latency = 0ns;
    pair_rig rig{mode, true, options, device};
    REQUIRE(rig.a->send(1, 0, 64) == 0);
    REQUIRE(rig.a->write(2, rig.b->where(), 0, 0, 64) == 0);
    rig.run_for(1200us);
    REQUIRE(rig.b->receive(9, 0, 64) == 0);
    CHECK(rig.a->poll().empty()); // nor does anything behind it pass
    CHECK(rig.b->poll().empty());
    rig.run_for(200us);
    CHECK(rig.b->poll().size() == 1);
    CHECK(rig.a->poll().size() == 2);
    CHECK(rig.count(log_kind::receiver_not_ready) == 1);
  }
}

TEST_CASE("after rnr_retry answers the sender gives up, and with 7 it never does") {
  qp_options options;
  options.rnr_timer = 14;
  options.rnr_retry = 3;
  SUBCASE("three times") {
    pair_rig rig{nic_mode::immediate, true, options};
    REQUIRE(rig.a->send(1, 0, 64) == 0);
    REQUIRE(rig.a->send(2, 0, 64) == 0);
    rig.run_for(3800us);
    CHECK(rig.a->poll().empty());
    rig.run_for(100us);
    const auto wcs = rig.a->poll();
    REQUIRE(wcs.size() == 2);
    CHECK(wcs[0].status == IBV_WC_RNR_RETRY_EXC_ERR);
    CHECK(wcs[1].status == IBV_WC_WR_FLUSH_ERR);
    CHECK(rig.b->state() == IBV_QPS_RTS);
  }
  SUBCASE("at once") {
    options.rnr_retry = 0;
    pair_rig rig{nic_mode::immediate, true, options};
    REQUIRE(rig.a->write_imm(1, rig.b->where(), 0, 0, 64, 0) == 0);
    rig.run_for(1us);
    CHECK(rig.a->poll().at(0).status == IBV_WC_RNR_RETRY_EXC_ERR);
  }
  SUBCASE("never") {
    options.rnr_retry = 7;
    pair_rig rig{nic_mode::immediate, true, options};
    REQUIRE(rig.a->send(1, 0, 64) == 0);
    rig.run_for(2s);
    CHECK(rig.a->poll().empty());
    REQUIRE(rig.b->receive(9, 0, 64) == 0);
    rig.run_for(2ms);
    CHECK(rig.a->poll().at(0).status == IBV_WC_SUCCESS);
  }
}

TEST_CASE("a message longer than its receive ends both queue pairs, each with its own words") {
  for (const auto mode : {nic_mode::immediate, nic_mode::paced}) {
    pair_rig rig{mode, true};
    REQUIRE(rig.b->receive(1, 0, 63) == 0);
    REQUIRE(rig.b->receive(2, 0, 64) == 0);
    REQUIRE(rig.a->send(1, 0, 64) == 0);
    rig.run_for(1ms);
    CHECK(rig.a->poll().at(0).status == IBV_WC_REM_INV_REQ_ERR);
    const auto got = rig.b->poll();
    REQUIRE(got.size() == 2);
    CHECK(got[0].wr_id == 1);
    CHECK(got[0].status == IBV_WC_LOC_LEN_ERR);
    CHECK(got[1].wr_id == 2);
    CHECK(got[1].status == IBV_WC_WR_FLUSH_ERR);
    CHECK(rig.b->state() == IBV_QPS_ERR);
    CHECK(!*rig.b->ctx.next_async_event()); // the completion said it
    CHECK(rig.b->memory[0] == std::byte{0});
  }
}

TEST_CASE("a receive into memory that is not the receiver's is a protection error there") {
  pair_rig rig{nic_mode::immediate, true};
  std::swap(rig.b->lkey, rig.a->lkey);
  REQUIRE(rig.b->receive(1, 0, 64) == 0);
  std::swap(rig.b->lkey, rig.a->lkey);
  REQUIRE(rig.a->send(1, 0, 64) == 0);
  rig.run_for(1ms);
  CHECK(rig.a->poll().at(0).status == IBV_WC_REM_OP_ERR);
  CHECK(rig.b->poll().at(0).status == IBV_WC_LOC_PROT_ERR);
}

TEST_CASE("receives are flushed in order, those that are posted in ERR too, and a reset drops them") {
  pair_rig rig{nic_mode::immediate, true};
  for (std::uint64_t i = 0; i < 10; ++i)
    REQUIRE(rig.b->receive(i, 0, 64) == 0);
  REQUIRE(rig.a->send(1, 0, 8) == 0);
  REQUIRE(set_state(*rig.b, IBV_QPS_ERR) == 0);
  REQUIRE(rig.b->receive(10, 0, 64) == 0);
  const auto got = rig.b->poll();
  REQUIRE(got.size() == 11);
  for (std::uint64_t i = 0; i < got.size(); ++i) {
    CHECK(got[i].wr_id == i);
    CHECK(got[i].status == (i == 0 ? IBV_WC_SUCCESS : IBV_WC_WR_FLUSH_ERR));
  }
  REQUIRE(set_state(*rig.b, IBV_QPS_RESET) == 0);
  CHECK(rig.b->receive(1, 0, 64) == EINVAL);
  REQUIRE(set_state(*rig.a, IBV_QPS_RESET) == 0);
  rig.connect();
  for (std::uint64_t i = 0; i < 64; ++i)
    REQUIRE(rig.b->receive(i, 0, 64) == 0);
  REQUIRE(set_state(*rig.b, IBV_QPS_RESET) == 0);
  CHECK(rig.b->poll().empty());
}

TEST_CASE("a shared receive queue serves several queue pairs, says when few are left, and outlives them") {
  pair_rig rig{nic_mode::immediate, true};
  auto a2 = end::open(*rig.host_a);
  const auto& verbs = rig.host_b->verbs();
  auto* const srq = share(*rig.host_b, *rig.b, 8);
  REQUIRE(set_state(*rig.a, IBV_QPS_RESET) == 0);
  rig.connect();
  auto first = std::move(rig.b->qp);
  rig.b->make_qp();
  a2->connect(rig.b->where());
  rig.b->connect(a2->where());
  for (std::uint64_t i = 0; i < 8; ++i)
    REQUIRE(rig.b->receive(i, i * 64, 64) == 0);
  CHECK(rig.b->receive(8, 0, 64) == ENOMEM);
  ibv_srq_attr attr{};
  attr.srq_limit = 9;
  CHECK(verbs.modify_srq(srq, &attr, IBV_SRQ_LIMIT) == EINVAL);
  attr.srq_limit = 6;
  CHECK(verbs.modify_srq(srq, &attr, IBV_SRQ_LIMIT) == 0);
  CHECK(verbs.destroy_srq(srq) == EBUSY);
  for (std::uint64_t i = 0; i < 2; ++i)
    REQUIRE(rig.a->send(i, 0, 8) == 0);
  rig.run_for(1ms);
  CHECK(!*rig.b->ctx.next_async_event());
  REQUIRE(a2->send(2, 0, 8) == 0);
  rig.run_for(1ms);
  CHECK(next_event(*rig.b) == IBV_EVENT_SRQ_LIMIT_REACHED);
  CHECK(verbs.query_srq(srq, &attr) == 0);
  CHECK(attr.srq_limit == 0); // once
  CHECK(attr.max_wr == 8);
  const auto got = rig.b->poll();
  REQUIRE(got.size() == 3);
  CHECK(got[1].qp_num == first.number());
  CHECK(got[2].qp_num == rig.b->qp.number());
  CHECK(got[2].wr_id == 2);
  REQUIRE(set_state(*rig.b, IBV_QPS_ERR) == 0);
  CHECK(rig.b->poll().empty()); // what is shared is not flushed
  CHECK(next_event(*rig.b) == IBV_EVENT_QP_LAST_WQE_REACHED);
  REQUIRE(rig.b->qp.destroy());
  CHECK(verbs.destroy_srq(srq) == EBUSY);
  REQUIRE(rig.a->send(3, 0, 8) == 0);
  CHECK(rig.b->poll().at(0).wr_id == 3); // the other goes on
  REQUIRE(first.destroy());
  CHECK(verbs.destroy_srq(srq) == 0);
}

TEST_CASE("a late message takes its receive when it lands") {
  pair_rig rig{nic_mode::paced, true};
  fill(rig.a->memory, 64, 1);
  REQUIRE(rig.net->set_delay("a/soft0", 50ms));
  REQUIRE(rig.a->send(1, 0, 64) == 0);
  rig.run_for(40ms);
  CHECK(rig.b->poll().empty());
  SUBCASE("it is there") {
    REQUIRE(rig.b->receive(1, 0, 64) == 0);
    rig.run_for(20ms);
    CHECK(rig.b->poll().at(0).status == IBV_WC_SUCCESS);
    CHECK(rig.a->poll().at(0).status == IBV_WC_SUCCESS);
    CHECK(std::memcmp(rig.a->memory, rig.b->memory, 64) == 0);
  }
  SUBCASE("it is not, and the sender has gone") {
    REQUIRE(set_state(*rig.a, IBV_QPS_ERR) == 0);
    rig.run_for(20ms);
    CHECK(rig.count(log_kind::dropped_late) == 1);
    CHECK(rig.b->memory[1] == std::byte{0});
  }
}

TEST_CASE("a sender that is stopped anywhere delays neither destroying nor flushing the receiver") {
  for (int trial = 0; trial < 10; ++trial) {
    CAPTURE(trial);
    fabric_options f;
    f.name = unique_fabric();
    const auto net = *fabric::open(f);
    const auto on = std::move(*net->attach("own", {device_options{}}));
    auto e = end::open(*on);
    auto* const srq = share(*on, *e, 64);
    for (std::uint64_t i = 0; i < 64; ++i)
      REQUIRE(e->receive(i, 0, 64 << 10) == 0);
    peer_process peer{f.name, "peer", "immediate", "private"};
    const auto there = peer.where();
    peer.connect(e->where());
    e->connect(there);
    peer.send("sends");
    const auto until = base::mono_clock::now() + std::chrono::microseconds{3000 + 700 * trial};
    while (base::mono_clock::now() < until)
      for (const auto& wc : e->poll())
        if (wc.status == IBV_WC_SUCCESS)
          (void)e->receive(wc.wr_id, 0, 64 << 10);
    peer.signal(SIGSTOP);
    int status = 0;
    REQUIRE(::waitpid(peer.pid(), &status, WUNTRACED) == peer.pid());
    const auto start = base::mono_clock::now();
    auto destroyed = e->qp.destroy();
    CHECK(base::mono_clock::now() - start < 1s); // 200 ms of its own
    if (!destroyed) {
      CHECK(destroyed.error().sys_errno == EBUSY);
      CHECK(on->verbs().destroy_srq(srq) == EBUSY);
      peer.kill();
      CHECK(e->qp.destroy());
    }
    CHECK(on->verbs().destroy_srq(srq) == 0);
  }
}
