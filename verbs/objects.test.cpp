// SPDX-License-Identifier: Apache-2.0
// What the owners over verbs objects promise beyond the calls that they wrap.
#include "verbs/soft/testing/rig.hpp"

#include <chrono>
#include <future>
#include <thread>

#include <doctest/doctest.h>

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
