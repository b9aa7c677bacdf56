// SPDX-License-Identifier: Apache-2.0
// What the owners over verbs objects promise beyond the calls that they wrap.
#include "verbs/soft/testing/ruled_rig.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <sys/resource.h>

using namespace actor_rdma;
using namespace actor_rdma::verbs;
using namespace actor_rdma::verbs::soft::testing;
using namespace std::chrono_literals;

TEST_CASE("an async event is acknowledged when it is handed out, so that its queue pair can be destroyed") {
  pair_rig rig{soft::nic_mode::immediate};
  const auto number = rig.a->qp.number();
  const auto raw = rig.a->qp.get();
  REQUIRE(rig.net->raise_event("a/soft0", "QP_FATAL", 1, number));
  auto event = rig.a->ctx.next_async_event();
  for (const auto until = base::mono_clock::now() + 10s;
       event && !event->has_value() && base::mono_clock::now() < until; event = rig.a->ctx.next_async_event())
    std::this_thread::sleep_for(1ms); // the NIC's engine thread raises it
  REQUIRE(event);
  REQUIRE(event->has_value());
  CHECK((*event)->type == IBV_EVENT_QP_FATAL);
  CHECK((*event)->qp_num == number);
  // ibv_destroy_qp waits for events that were fetched and not acknowledged, for ever.
  auto destroyed = std::async(std::launch::async, [&] { return rig.a->qp.destroy().has_value(); });
  const bool in_time = destroyed.wait_for(2s) == std::future_status::ready;
  CHECK(in_time);
  if (!in_time) {
    ibv_async_event late{};
    late.event_type = IBV_EVENT_QP_FATAL;
    late.element.qp = raw;
    rig.host_a->verbs().ack_async_event(&late);
  }
  CHECK(destroyed.get());
}

TEST_CASE("what refuses to be destroyed is proven gone by the end of its context, and by no error") {
  ruled_rig rig;
  auto& a = *rig.a;
  rig.rule("dev=a/soft0 verb=any do=errno:EIO");
  a.ctx.mark_gone();
  CHECK(a.qp.destroy().error().sys_errno == EIO);
  CHECK(a.mr.destroy().error().sys_errno == EIO);
  CHECK(a.cq.destroy().error().sys_errno == EIO);
  CHECK_FALSE(a.channel.destroy());
  CHECK_FALSE(a.pd.destroy());
  CHECK(a.qp);
  a.channel.abandon();
  CHECK_FALSE(a.channel);
  REQUIRE(a.ctx.destroy());
  ibv_qp_attr to_error{};
  to_error.qp_state = IBV_QPS_ERR;
  CHECK(a.qp.modify(to_error, IBV_QP_STATE).error().sys_errno == ENODEV);
  CHECK(a.qp.query_state().error().sys_errno == ENODEV);
  CHECK(a.qp.destroy());
  CHECK(a.mr.destroy());
  CHECK(a.cq.destroy());
  CHECK(a.pd.destroy());
  CHECK_FALSE(a.qp);
  for (const auto& d : rig.net->devices())
    if (d.name == "a/soft0")
      CHECK(d.open_qps + d.open_mrs == 0);
}

TEST_CASE("E-08: what locks memory names the limit when there is no memory, and only then") {
  pair_rig rig{soft::nic_mode::immediate};
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_MEMLOCK, &before) == 0);
  const auto limited = [&](rlim_t bytes) {
    rlimit l = before;
    l.rlim_cur = bytes;
    return setrlimit(RLIMIT_MEMLOCK, &l) == 0;
  };
  std::vector<std::byte> block(4096);
  const auto refused = [&](const char* error) {
    REQUIRE(rig.net->add_rule(std::string("dev=a/soft0 verb=reg_mr,create_cq,create_qp count=3 do=errno:") +
                              error));
    const auto region = memory_region::reg(rig.a->pd, block.data(), block.size(), IBV_ACCESS_LOCAL_WRITE);
    const auto cq = completion_queue::create(rig.a->ctx, 16, rig.a->channel);
    ibv_qp_init_attr init{};
    const auto qp = queue_pair::create(rig.a->pd, init);
    REQUIRE_FALSE((region || cq || qp));
    return region.error().to_string() + cq.error().to_string() + qp.error().to_string();
  };
  REQUIRE(limited(std::min<rlim_t>(before.rlim_max, 64 * 1024)));
  const auto said = refused("ENOMEM");
  std::size_t named = 0;
  for (auto at = said.find("64 KiB of memory in all, RLIMIT_MEMLOCK"); at != std::string::npos;
       at = said.find("64 KiB of memory in all, RLIMIT_MEMLOCK", at + 1))
    ++named;
  CHECK(named == 3);
  CHECK(refused("EINVAL").find("MEMLOCK") == std::string::npos);
  CHECK(setrlimit(RLIMIT_MEMLOCK, &before) == 0);
}
