// SPDX-License-Identifier: Apache-2.0
//
// Rules about how much a call gives and what it costs by length: half of the room that was asked for, and
// registrations that take longer the more they pin.
#include "verbs/soft/testing/ruled_rig.hpp"

#include <cerrno>
#include <chrono>

using namespace actor_rdma;
using namespace actor_rdma::verbs;
using namespace actor_rdma::verbs::soft;
using namespace actor_rdma::verbs::soft::testing;
using namespace std::chrono_literals;

TEST_CASE("a registration takes a time for each byte, on the devices that the rule names") {
  ruled_rig rig{nic_mode::immediate};
  rig.rule("dev=a verb=reg_mr do=delay:8ms/MiB");
  auto& a = *rig.a;
  (void)rig.net->take_verb_delay();
  CHECK(memory_region::reg(a.pd, a.memory, buffer_bytes, all_access));
  CHECK(rig.net->take_verb_delay() == 8ms);
  CHECK(memory_region::reg(a.pd, a.memory, buffer_bytes / 4, all_access));
  CHECK(rig.net->take_verb_delay() == 2ms);
  rig.rule("dev=a verb=reg_mr do=delay:1ms"); // for each call, whatever it pins
  CHECK(memory_region::reg(a.pd, a.memory, buffer_bytes / 2, all_access));
  CHECK(rig.net->take_verb_delay() == 5ms);
  CHECK(memory_region::reg(rig.b->pd, rig.b->memory, buffer_bytes, all_access));
  CHECK(rig.net->take_verb_delay() == 0ms);
}

TEST_CASE("a completion queue of half the size says so, and so does one that is resized") {
  ruled_rig rig;
  rig.rule("dev=a verb=create_cq,resize_cq do=half");
  auto& a = *rig.a;
  auto cq = completion_queue::create(a.ctx, 16, a.channel);
  REQUIRE(cq);
  CHECK(cq->capacity() == 8);
  CHECK(a.ctx.table().resize_cq(cq->get(), 24) == 0);
  CHECK(cq->capacity() == 12);
  CHECK(completion_queue::create(a.ctx, 1, a.channel)->capacity() == 1);
  CHECK(completion_queue::create(rig.b->ctx, 16, rig.b->channel)->capacity() == 16);
}

TEST_CASE("a queue pair with half of its room reports it where it was asked for, and takes no more") {
  ruled_rig rig;
  rig.rule("dev=a verb=create_qp do=half");
  auto& a = *rig.a;
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = a.cq.get();
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap = {8, 6, 3, 1, 32};
  auto made = queue_pair::create(a.pd, wanted);
  REQUIRE(made);
  CHECK(wanted.cap.max_send_wr == 4);
  CHECK(wanted.cap.max_recv_wr == 3);
  CHECK(wanted.cap.max_send_sge == 1);
  CHECK(wanted.cap.max_recv_sge == 1);
  CHECK(wanted.cap.max_inline_data == 16);
  rig.net->clear_rules();

  qp_options small;
  small.max_send_wr = 8;
  ruled_rig posting;
  posting.rule("dev=a verb=create_qp do=half");
  auto end = end::open(*posting.host_a, 0, small);
  end->connect(posting.b->where());
  for (std::uint64_t i = 0; i < 4; ++i)
    CHECK(end->write(i, posting.b->where(), 0, 0, 64) == 0);
  CHECK(end->write(4, posting.b->where(), 0, 0, 64) == ENOMEM);
}

TEST_CASE("a queue pair serves half of the reads that it was asked to, and only a query tells") {
  ruled_rig rig;
  rig.rule("dev=a verb=modify_qp do=half");
  auto end = end::open(*rig.host_a);
  end->connect(rig.b->where());
  ibv_qp_attr has{};
  ibv_qp_init_attr init{};
  REQUIRE(end->ctx.table().query_qp(end->qp.get(), &has, IBV_QP_STATE, &init) == 0);
  CHECK(has.max_dest_rd_atomic == 8);
  CHECK(has.max_rd_atomic == 8);
}
