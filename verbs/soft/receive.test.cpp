// SPDX-License-Identifier: Apache-2.0
//
// Messages that go well: SEND and RECEIVE, immediate data, pieces, order, notification.
#include "verbs/soft/testing/rig.hpp"

#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include <poll.h>

using namespace actor_rdma;
using namespace actor_rdma::verbs;
using namespace actor_rdma::verbs::soft;
using namespace actor_rdma::verbs::soft::testing;
using namespace std::chrono_literals;

namespace {

bool same_bytes(const end& a, std::size_t at_a, const end& b, std::size_t at_b, std::size_t length) {
  return std::memcmp(a.memory + at_a, b.memory + at_b, length) == 0;
}

bool has_event(const end& e) {
  pollfd fd{e.channel.fd(), POLLIN, 0};
  return ::poll(&fd, 1, 0) == 1;
}

} // namespace

TEST_CASE("a message lands in the oldest receive, and both sides hear of it") {
  for (const auto mode : {nic_mode::immediate, nic_mode::paced}) {
    pair_rig rig{mode, true};
    fill(rig.a->memory, 5000, 1);
    REQUIRE(rig.b->receive(100, 10'000, 8192) == 0);
    REQUIRE(rig.b->receive(101, 20'000, 8192) == 0);
    REQUIRE(rig.a->send(1, 0, 5000) == 0);
    rig.run_for(1ms);
    const auto sent = rig.a->poll();
    REQUIRE(sent.size() == 1);
    CHECK(sent[0].wr_id == 1);
    CHECK(sent[0].status == IBV_WC_SUCCESS);
    CHECK(sent[0].opcode == IBV_WC_SEND);
    const auto got = rig.b->poll();
    REQUIRE(got.size() == 1);
    CHECK(got[0].wr_id == 100);
    CHECK(got[0].status == IBV_WC_SUCCESS);
    CHECK(got[0].opcode == IBV_WC_RECV);
    CHECK(got[0].byte_len == 5000);
    CHECK(got[0].wc_flags == 0);
    CHECK(got[0].qp_num == rig.b->qp.number());
    CHECK(got[0].src_qp == rig.a->qp.number());
    CHECK(same_bytes(*rig.a, 0, *rig.b, 10'000, 5000));
    CHECK(rig.b->memory[15'000] == std::byte{0});
    CHECK(rig.b->memory[20'000] == std::byte{0});
  }
}

TEST_CASE("immediate data arrives with a message and after a write") {
  for (const auto mode : {nic_mode::immediate, nic_mode::paced}) {
    pair_rig rig{mode, true};
    fill(rig.a->memory, 4096, 1);
    for (std::uint64_t i = 0; i < 3; ++i)
      REQUIRE(rig.b->receive(i, 0, 64) == 0);
    REQUIRE(rig.a->send(1, 0, 64, IBV_WR_SEND_WITH_IMM, 0x11223344) == 0);
    REQUIRE(rig.a->write_imm(2, rig.b->where(), 0, 8192, 4096, 0x55667788) == 0);
    REQUIRE(rig.a->write_imm(3, rig.b->where(), 0, 0, 0, 9) == 0);
    rig.run_for(1ms);
    const auto sent = rig.a->poll();
    REQUIRE(sent.size() == 3);
    CHECK(sent[0].opcode == IBV_WC_SEND);
    CHECK(sent[1].opcode == IBV_WC_RDMA_WRITE);
    const auto got = rig.b->poll();
    REQUIRE(got.size() == 3);
    CHECK(got[0].opcode == IBV_WC_RECV);
    CHECK(got[0].wc_flags == IBV_WC_WITH_IMM);
    CHECK(got[0].imm_data == 0x11223344);
    CHECK(got[1].opcode == IBV_WC_RECV_RDMA_WITH_IMM);
    CHECK(got[1].wc_flags == IBV_WC_WITH_IMM);
    CHECK(got[1].imm_data == 0x55667788);
    CHECK(got[1].byte_len == 4096);
    CHECK(got[2].byte_len == 0);
    CHECK(got[2].imm_data == 9);
    CHECK(same_bytes(*rig.a, 0, *rig.b, 8192, 4096));
    CHECK(same_bytes(*rig.a, 0, *rig.b, 0, 64)); // and the write did not use the receive's memory
  }
}

TEST_CASE("a message is gathered from pieces and scattered into others") {
  pair_rig rig{nic_mode::immediate};
  fill(rig.a->memory, 300'000, 3);
  const auto from = reinterpret_cast<std::uintptr_t>(rig.a->memory);
  const auto to = reinterpret_cast<std::uintptr_t>(rig.b->memory);
  ibv_sge sources[3] = {{from, 1000, rig.a->lkey}, {from + 1000, 0, 0}, {from + 1000, 199'000, rig.a->lkey}};
  ibv_sge targets[4] = {{to, 70'000, rig.b->lkey},
                        {to + 100'000, 1, rig.b->lkey},
                        {to + 200'000, 99'999, rig.b->lkey},
                        {to + 400'000, 500'000, rig.b->lkey}};
  ibv_recv_wr receive{};
  receive.wr_id = 7;
  receive.sg_list = targets;
  receive.num_sge = 4;
  ibv_recv_wr* bad_receive = nullptr;
  REQUIRE(ibv_post_recv(rig.b->qp.get(), &receive, &bad_receive) == 0);
  ibv_send_wr wr{};
  wr.sg_list = sources;
  wr.num_sge = 3;
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = IBV_SEND_SIGNALED;
  REQUIRE(rig.a->post({&wr, 1}) == 0);
  REQUIRE(rig.a->poll_for(1).size() == 1);
  const auto got = rig.b->poll_for(1);
  REQUIRE(got.size() == 1);
  CHECK(got[0].byte_len == 200'000);
  CHECK(same_bytes(*rig.a, 0, *rig.b, 0, 70'000));
  CHECK(same_bytes(*rig.a, 70'000, *rig.b, 100'000, 1));
  CHECK(same_bytes(*rig.a, 70'001, *rig.b, 200'000, 99'999));
  CHECK(same_bytes(*rig.a, 170'000, *rig.b, 400'000, 30'000));
  CHECK(rig.b->memory[430'000] == std::byte{0});
}

TEST_CASE("a message longer than a copy budget goes on where it was, in the same receive") {
  pair_rig rig{nic_mode::immediate};
  fill(rig.a->memory, buffer_bytes, 5);
  REQUIRE(rig.b->receive(1, 0, buffer_bytes) == 0);
  REQUIRE(rig.b->receive(2, 0, 64) == 0);
  REQUIRE(rig.a->send(1, 0, buffer_bytes) == 0);
  CHECK(rig.b->poll().empty()); // 256 KiB a call
  REQUIRE(rig.a->poll_for(1).size() == 1);
  const auto got = rig.b->poll();
  REQUIRE(got.size() == 1);
  CHECK(got[0].wr_id == 1);
  CHECK(same_bytes(*rig.a, 0, *rig.b, 0, buffer_bytes));
}

TEST_CASE("inline messages, and empty ones, need no key") {
  pair_rig rig{nic_mode::paced, true};
  ibv_recv_wr empty{};
  empty.wr_id = 2;
  ibv_recv_wr* bad = nullptr;
  REQUIRE(rig.b->receive(1, 0, 64) == 0);
  REQUIRE(ibv_post_recv(rig.b->qp.get(), &empty, &bad) == 0);
  const auto key = std::exchange(rig.a->lkey, 0U);
  fill(rig.a->memory, 64, 9);
  REQUIRE(rig.a->send(1, 0, 64, IBV_WR_SEND, 0, IBV_SEND_INLINE | IBV_SEND_SIGNALED) == 0);
  REQUIRE(rig.a->send(2, 0, 0) == 0);
  rig.a->lkey = key;
  rig.run_for(1ms);
  CHECK(rig.a->poll().size() == 2);
  const auto got = rig.b->poll();
  REQUIRE(got.size() == 2);
  CHECK(got[1].byte_len == 0);
  CHECK(same_bytes(*rig.a, 0, *rig.b, 0, 64));
}

TEST_CASE("messages and writes of one queue pair keep their order, for many rounds of both queues") {
  for (const auto mode : {nic_mode::immediate, nic_mode::paced}) {
    pair_rig rig{mode, true};
    std::uint64_t posted = 0;
    for (; posted < 64; ++posted)
      REQUIRE(rig.b->receive(posted, posted * 64, 64) == 0);
    CHECK(rig.b->receive(999, 0, 64) == ENOMEM); // the queue is full
    std::uint64_t next = 0;
    for (std::uint64_t i = 0; i < 1000; ++i) {
      std::memset(rig.a->memory, static_cast<int>(i & 0xff), 64);
      REQUIRE(rig.a->send(i, 0, 64) == 0);
      rig.run_for(100us);
      REQUIRE(rig.a->poll().size() == 1);
      for (const auto& wc : rig.b->poll()) {
        CHECK(wc.wr_id == next);
        CHECK(rig.b->memory[(next % 64) * 64] == static_cast<std::byte>(next & 0xff));
        ++next;
        REQUIRE(rig.b->receive(posted, (posted % 64) * 64, 64) == 0);
        ++posted;
      }
    }
    CHECK(next == 1000);
  }
}

TEST_CASE("a receive is not free before its completion was polled") {
  pair_rig rig{nic_mode::immediate};
  for (std::uint64_t i = 0; i < 64; ++i)
    REQUIRE(rig.b->receive(i, 0, 64) == 0);
  REQUIRE(rig.a->send(1, 0, 8) == 0);
  CHECK(rig.b->receive(64, 0, 64) == ENOMEM);
  CHECK(rig.b->poll().size() == 1);
  CHECK(rig.b->receive(64, 0, 64) == 0);
}

TEST_CASE("an armed queue wakes for messages, and for solicited ones only if it was asked to") {
  for (const bool is_virtual : {true, false}) {
    pair_rig rig{nic_mode::immediate, is_virtual};
    const auto wait = [&] {
      if (is_virtual)
        rig.run_for(1ms);
      for (int i = 0; i < 1000 && !is_virtual && !has_event(*rig.b); ++i)
        std::this_thread::sleep_for(1ms);
    };
    for (std::uint64_t i = 0; i < 6; ++i)
      REQUIRE(rig.b->receive(i, 0, 64) == 0);
    REQUIRE(rig.a->send(0, 0, 8) == 0);
    REQUIRE(ibv_req_notify_cq(rig.b->cq.get(), 0) == 0); // what was there before does not count
    CHECK(!has_event(*rig.b));
    REQUIRE(rig.a->send(1, 0, 8) == 0);
    wait();
    CHECK(rig.b->channel.drain() == 1);
    REQUIRE(rig.a->send(2, 0, 8) == 0); // not armed any more
    if (is_virtual)
      rig.run_for(1ms);
    CHECK(!has_event(*rig.b));
    REQUIRE(ibv_req_notify_cq(rig.b->cq.get(), 1) == 0);
    REQUIRE(rig.a->send(3, 0, 8) == 0);
    if (is_virtual)
      rig.run_for(1ms);
    else
      std::this_thread::sleep_for(5ms);
    CHECK(!has_event(*rig.b));
    REQUIRE(rig.a->send(4, 0, 8, IBV_WR_SEND, 0, IBV_SEND_SIGNALED | IBV_SEND_SOLICITED) == 0);
    wait();
    CHECK(rig.b->channel.drain() == 1);
    CHECK(rig.b->poll().size() == 5);
  }
}

TEST_CASE("the first message in RTR establishes the communication, which is said once") {
  pair_rig rig{nic_mode::immediate, true};
  auto late = end::open(*rig.host_b);
  REQUIRE(late->to_init() == 0);
  REQUIRE(late->receive(1, 0, 64) == 0);
  REQUIRE(late->receive(2, 0, 64) == 0);
  auto early = end::open(*rig.host_a);
  REQUIRE(late->to_rtr(early->where()) == 0);
  early->connect(late->where());
  REQUIRE(early->send(1, 0, 8) == 0);
  REQUIRE(early->send(2, 0, 8) == 0);
  rig.run_for(1ms);
  const auto event = late->ctx.next_async_event();
  REQUIRE((event && *event));
  CHECK((*event)->type == IBV_EVENT_COMM_EST);
  CHECK((*event)->qp_num == late->qp.number());
  CHECK(!*late->ctx.next_async_event());
  CHECK(late->poll().size() == 2);
  CHECK(late->to_rts() == 0);
}

TEST_CASE("a completion queue grows and shrinks with what is in it") {
  pair_rig rig{nic_mode::immediate};
  auto* const cq = rig.b->cq.get();
  const auto resize = [&](int n) { return rig.host_b->verbs().resize_cq(cq, n); };
  for (std::uint64_t i = 0; i < 20; ++i) {
    REQUIRE(rig.b->receive(i, 0, 64) == 0);
    REQUIRE(rig.a->send(i, 0, 8) == 0);
  }
  CHECK(resize(19) == EINVAL);
  CHECK(resize(0) == EINVAL);
  CHECK(resize(20) == 0);
  CHECK(cq->cqe == 20);
  CHECK(rig.b->poll(5).size() == 5);
  CHECK(resize(4000) == 0);
  const auto rest = rig.b->poll();
  REQUIRE(rest.size() == 15);
  for (std::uint64_t i = 0; i < rest.size(); ++i)
    CHECK(rest[i].wr_id == i + 5);
}
