// SPDX-License-Identifier: Apache-2.0
//
// A device that is taken out of its host and put back: what was made of it is dead and stays so, and no byte
// of it moves.
#include "verbs/soft/testing/ruled_rig.hpp"

#include <atomic>
#include <cerrno>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <poll.h>

using namespace actor_rdma;
using namespace actor_rdma::verbs;
using namespace actor_rdma::verbs::soft;
using namespace actor_rdma::verbs::soft::testing;
using namespace std::chrono_literals;

namespace {

device_state state_of(const pair_rig& rig, const std::string& device) {
  for (const auto& d : rig.net->devices())
    if (d.name == device)
      return d;
  return {};
}

std::size_t listed(const host& on) {
  return on.verbs().list_devices()->size();
}

} // namespace

TEST_CASE("a lost device says DEVICE_FATAL, and every call on what was made of it is EIO for ever") {
  ruled_rig rig;
  REQUIRE(rig.net->set_lost("a/soft0", true));
  rig.run_for(1ms);
  auto& a = *rig.a;
  pollfd readable{a.ctx.async_fd(), POLLIN, 0};
  CHECK(::poll(&readable, 1, 0) == 1);
  const auto said = a.ctx.next_async_event();
  REQUIRE(said);
  REQUIRE(*said);
  CHECK((*said)->type == IBV_EVENT_DEVICE_FATAL);
  for (const bool is_back : {false, true}) {
    CAPTURE(is_back);
    if (is_back)
      REQUIRE(rig.net->set_lost("a/soft0", false));
    rig.run_for(1ms);
    CHECK(a.ctx.next_async_event().error().sys_errno == EIO);
    CHECK(a.ctx.query_port(1).error().sys_errno == EIO);
    CHECK(memory_region::reg(a.pd, a.memory, 4096, all_access).error().sys_errno == EIO);
    CHECK(a.write(1, rig.b->where(), 0, 0, 64) == EIO);
    ibv_wc wc{};
    CHECK(ibv_poll_cq(a.cq.get(), 1, &wc) == -EIO);
    CHECK(a.qp.destroy().error().sys_errno == EIO);
    CHECK(a.mr.destroy().error().sys_errno == EIO);
  }
  CHECK(a.ctx.destroy()); // which is the end of what was made of it
  CHECK(a.qp.destroy());
  CHECK(a.mr.destroy());
  CHECK(a.cq.destroy());
  CHECK(a.channel.destroy());
  CHECK(a.pd.destroy());
}

TEST_CASE("a lost device is out of its host with all its objects, and a new context works when it is back") {
  ruled_rig rig;
  const auto before = listed(*rig.host_a);
  CHECK(state_of(rig, "a/soft0").open_qps == 1);
  auto* const device = rig.host_a->verbs().list_devices()->front();
  REQUIRE(rig.net->set_lost("a/soft0", true));
  rig.run_for(1ms);
  CHECK(state_of(rig, "a/soft0").lost);
  CHECK(state_of(rig, "a/soft0").open_qps == 0);
  CHECK(state_of(rig, "a/soft0").open_mrs == 0);
  CHECK(listed(*rig.host_a) == before - 1);
  CHECK(context::open(rig.host_a->verbs(), device).error().sys_errno == ENODEV);
  REQUIRE(rig.net->set_lost("a/soft0", false));
  rig.run_for(1ms);
  CHECK(listed(*rig.host_a) == before);
  auto again = end::open(*rig.host_a);
  again->connect(rig.b->where());
  CHECK(again->state() == IBV_QPS_RTS);
  CHECK(again->ctx.query_port(1));
  CHECK(state_of(rig, "a/soft0").open_qps == 1);
  CHECK(rig.a->ctx.destroy());
}

TEST_CASE("no byte lands in the memory of a lost device, and what was sent to it fails") {
  ruled_rig rig;
  rig.rule("dev=a dir=request do=delay:5ms");
  rig.write(1);
  rig.write(2);
  rig.run_for(1ms);
  REQUIRE(rig.net->set_lost("b/soft0", true));
  rig.run_for(1s);
  CHECK_FALSE(rig.landed(1));
  CHECK_FALSE(rig.landed(2));
  const auto ended = rig.a->poll();
  REQUIRE(ended.size() == 2);
  CHECK(ended[0].status == IBV_WC_RETRY_EXC_ERR);
  CHECK(ended[1].status == IBV_WC_WR_FLUSH_ERR);
  CHECK(rig.b->ctx.destroy());
}

TEST_CASE("a lost device sends nothing more") {
  ruled_rig rig;
  constexpr std::uint32_t piece = 16384; // 5 us on the wire
  for (std::uint64_t i = 0; i < 32; ++i)
    CHECK(rig.a->write(i, rig.b->where(), piece * i, piece * i, piece) == 0);
  rig.run_for(50us);
  REQUIRE(rig.net->set_lost("a/soft0", true));
  rig.run_for(1s);
  CHECK(arrived(*rig.a, *rig.b, 0, piece));
  CHECK_FALSE(arrived(*rig.a, *rig.b, 31 * piece, piece));
  CHECK(rig.a->ctx.destroy());
}

TEST_CASE("an event of a lost device reaches who waits for it, and then the waiting is over") {
  for (int round = 0; round < 100; ++round) { // the device dies anywhere in the call
    pair_rig rig{nic_mode::immediate};
    auto& a = *rig.a;
    const bool blocks = round % 2 == 0;
    const int flags = ::fcntl(a.ctx.async_fd(), F_GETFL);
    ::fcntl(a.ctx.async_fd(), F_SETFL, blocks ? flags & ~O_NONBLOCK : flags | O_NONBLOCK);
    std::atomic<bool> is_asking = false;
    std::vector<int> seen;
    std::thread waits{[&] {
      while (seen.size() < 2) {
        is_asking = true;
        const auto event = a.ctx.next_async_event();
        if (!event || *event)
          seen.push_back(event ? static_cast<int>((*event)->type) : event.error().sys_errno);
      }
    }};
    while (!is_asking)
      std::this_thread::yield();
    CHECK(rig.net->set_lost("a/soft0", true));
    waits.join();
    INFO("round " << round);
    REQUIRE(seen.size() == 2);
    CHECK(seen[0] == IBV_EVENT_DEVICE_FATAL);
    CHECK(seen[1] == EIO);
    CHECK(a.ctx.destroy());
  }
}
