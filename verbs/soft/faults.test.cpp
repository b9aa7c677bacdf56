// SPDX-License-Identifier: Apache-2.0
//
// Links and hangs in virtual time, and what they do to work requests on both sides; the log; repeatability.
#include "verbs/soft/testing/rig.hpp"

#include <algorithm>
#include <chrono>

using namespace actor_rdma;
using namespace actor_rdma::verbs;
using namespace actor_rdma::verbs::soft;
using namespace actor_rdma::verbs::soft::testing;
using namespace std::chrono_literals;

namespace {

/// 4.096 us * 2^14 * (1 + 1), as the rig's queue pairs are set up.
constexpr auto retry_time = 134'217'728ns;

std::vector<ibv_event_type> async_events(end& e) {
  std::vector<ibv_event_type> all;
  for (auto event = e.ctx.next_async_event(); event && *event; event = e.ctx.next_async_event())
    all.push_back((*event)->type);
  return all;
}

bool arrived(const end& from, const end& to, std::size_t offset, std::size_t length) {
  return std::memcmp(from.memory + offset, to.memory + offset, length) == 0;
}

} // namespace

TEST_CASE("work waits while a link is down and completes when it is back in time") {
  for (const auto mode : {nic_mode::immediate, nic_mode::paced})
    for (const char* const device : {"a/soft0", "b/soft0"}) {
      CAPTURE(device);
      pair_rig rig{mode, true};
      fill(rig.a->memory, 4096, 1);
      REQUIRE(rig.net->set_link(device, false));
      rig.run_for(1ms);
      for (std::uint64_t i = 0; i < 5; ++i)
        CHECK(rig.a->write(i, rig.b->where(), 0, 0, 4096) == 0);
      rig.run_for(100ms);
      CHECK(rig.a->poll().empty());
      CHECK(!arrived(*rig.a, *rig.b, 0, 4096));
      REQUIRE(rig.net->set_link(device, true));
      rig.run_for(1ms); // at once, not at the next retry
      const auto wcs = rig.a->poll();
      REQUIRE(wcs.size() == 5);
      for (std::uint64_t i = 0; i < 5; ++i) {
        CHECK(wcs[i].status == IBV_WC_SUCCESS);
        CHECK(wcs[i].wr_id == i);
      }
      CHECK(arrived(*rig.a, *rig.b, 0, 4096));
      CHECK(rig.a->state() == IBV_QPS_RTS);
    }
}

TEST_CASE("a link that stays down ends in retry-exceeded and flushes the rest") {
  for (const char* const device : {"a/soft0", "b/soft0"}) {
    pair_rig rig{nic_mode::paced, true};
    REQUIRE(rig.net->set_link(device, false));
    const auto start = rig.clock.now();
    for (std::uint64_t i = 0; i < 5; ++i)
      CHECK(rig.a->write(i, rig.b->where(), 0, 0, 4096, i == 4) == 0);
    rig.run_until(start + retry_time - 1us);
    CHECK(rig.a->poll().empty());
    rig.run_until(start + retry_time + 1us);
    const auto wcs = rig.a->poll();
    REQUIRE(wcs.size() == 5); // unsignaled ones too
    CHECK(wcs[0].status == IBV_WC_RETRY_EXC_ERR);
    for (std::uint64_t i = 1; i < 5; ++i) {
      CHECK(wcs[i].status == IBV_WC_WR_FLUSH_ERR);
      CHECK(wcs[i].wr_id == i);
    }
    CHECK(rig.a->state() == IBV_QPS_ERR);
    CHECK(rig.count(log_kind::retry_exceeded) == 1);
    CHECK(rig.count(log_kind::flushed) == 4);
    CHECK(rig.b->state() == IBV_QPS_RTS); // nobody told it
    CHECK(rig.a->write(9, rig.b->where(), 0, 0, 8) == 0);
    const auto late = rig.a->poll();
    REQUIRE(late.size() == 1);
    CHECK(late[0].status == IBV_WC_WR_FLUSH_ERR);
  }
}

TEST_CASE("a link that fails under way stalls what is in flight") {
  pair_rig rig{nic_mode::paced, true};
  for (std::uint64_t i = 0; i < 50; ++i)
    CHECK(rig.a->write(i, rig.b->where(), 0, 0, 50'000) == 0);
  rig.run_for(100us);
  REQUIRE(rig.net->set_link("b/soft0", false));
  rig.run_for(50ms);
  const auto before = rig.a->poll().size();
  CHECK(before > 0);
  CHECK(before < 50);
  REQUIRE(rig.net->set_link("b/soft0", true));
  rig.run_for(10ms);
  CHECK(rig.a->poll().size() == 50 - before);
}

TEST_CASE("time-out 0 waits for ever, until the next request shows the peer the gap") {
  qp_options options;
  options.timeout = 0;
  pair_rig rig{nic_mode::paced, true, options};
  REQUIRE(rig.net->set_link("b/soft0", false));
  CHECK(rig.a->write(1, rig.b->where(), 0, 0, 4096) == 0);
  rig.run_for(10h);
  CHECK(rig.a->poll().empty());
  CHECK(!rig.net->next_event());
  REQUIRE(rig.net->set_link("b/soft0", true));
  rig.run_for(10h);
  CHECK(rig.a->poll().empty());
  CHECK(rig.a->write(2, rig.b->where(), 0, 0, 4096) == 0);
  rig.run_for(1ms);
  CHECK(rig.a->poll().size() == 2);
}

TEST_CASE("every open context of a device gets each port event, and the port says its state") {
  pair_rig rig{nic_mode::paced, true};
  auto second = end::open(*rig.host_a);
  CHECK(rig.a->ctx.query_port(1)->state == IBV_PORT_ACTIVE);
  REQUIRE(rig.net->set_link("a/soft0", false));
  CHECK(rig.a->ctx.query_port(1)->state == IBV_PORT_DOWN);
  REQUIRE(rig.net->set_link("a/soft0", false)); // no change, no event
  REQUIRE(rig.net->set_link("a/soft0", true));
  rig.run_for(1us);
  const std::vector<ibv_event_type> expected{IBV_EVENT_PORT_ERR, IBV_EVENT_PORT_ACTIVE};
  CHECK(async_events(*rig.a) == expected);
  CHECK(async_events(*second) == expected);
  CHECK(async_events(*rig.b).empty());
  REQUIRE(rig.net->set_link("a/soft0", false));
  const auto third =
      end::open(*rig.host_a); // opened while it is down: the state is known, the event is not news
  rig.run_for(1us);
  CHECK(async_events(*third).empty());
  CHECK(third->ctx.query_port(1)->state == IBV_PORT_DOWN);
}

TEST_CASE("work that meets a hang is swallowed for good, also after the hang and a link cycle") {
  for (const auto mode : {nic_mode::immediate, nic_mode::paced}) {
    pair_rig rig{mode, true};
    auto a2 = end::open(*rig.host_a);
    auto b2 = end::open(*rig.host_b);
    a2->connect(b2->where());
    b2->connect(a2->where());
    fill(rig.a->memory, 64, 4);
    CHECK(rig.a->write(1, rig.b->where(), 0, 0, 8) == 0);
    rig.run_for(1ms);
    CHECK(rig.a->poll().size() == 1);
    REQUIRE(rig.net->set_hang("a/soft0", true));
    CHECK(rig.a->write(2, rig.b->where(), 16, 16, 16) == 0);
    rig.run_for(10s);
    REQUIRE(rig.net->set_hang("a/soft0", false));
    REQUIRE(rig.net->set_link("a/soft0", false));
    rig.run_for(1s);
    REQUIRE(rig.net->set_link("a/soft0", true));
    CHECK(rig.a->write(3, rig.b->where(), 32, 32, 16) == 0);
    rig.run_for(10s);
    CHECK(rig.a->poll().empty());
    CHECK(!arrived(*rig.a, *rig.b, 16, 32));
    CHECK(rig.a->state() == IBV_QPS_RTS);
    CHECK(rig.net->devices()[0].stuck_wrs == 2);
    CHECK(rig.count(log_kind::swallowed) == 2);
    // A queue pair that posted nothing while the hang was on never met it, and the peer's direction is its
    // own.
    CHECK(a2->write(1, b2->where(), 0, 0, 8) == 0);
    CHECK(rig.b->write(1, rig.a->where(), 0, 0, 8) == 0);
    rig.run_for(1ms);
    CHECK(a2->poll().size() == 1);
    CHECK(rig.b->poll().size() == 1);

    SUBCASE("ERR flushes it") {
      ibv_qp_attr attr{};
      attr.qp_state = IBV_QPS_ERR;
      REQUIRE(rig.a->qp.modify(attr, IBV_QP_STATE));
      const auto wcs = rig.a->poll();
      REQUIRE(wcs.size() == 2);
      CHECK(wcs[0].wr_id == 2);
      CHECK(wcs[0].status == IBV_WC_WR_FLUSH_ERR);
      CHECK(wcs[1].wr_id == 3);
    }
    SUBCASE("RESET drops it silently and ends it") {
      ibv_qp_attr attr{};
      attr.qp_state = IBV_QPS_RESET;
      REQUIRE(rig.a->qp.modify(attr, IBV_QP_STATE));
      REQUIRE(rig.b->qp.modify(attr, IBV_QP_STATE));
      CHECK(rig.a->poll().empty());
      rig.connect();
      CHECK(rig.a->write(4, rig.b->where(), 0, 0, 8) == 0);
      rig.run_for(1ms);
      CHECK(rig.a->poll().size() == 1);
    }
    SUBCASE("destroying drops it silently") {
      REQUIRE(rig.a->qp.destroy());
      CHECK(rig.a->poll().empty());
    }
    CHECK(rig.net->devices()[0].stuck_wrs == 0);
  }
}

TEST_CASE("what was in flight when the hang began is swallowed too") {
  pair_rig rig{nic_mode::paced, true};
  for (std::uint64_t i = 0; i < 32; ++i)
    CHECK(rig.a->write(i, rig.b->where(), 0, 0, 60'000) == 0);
  rig.run_for(200us);
  const auto done = rig.a->poll().size();
  CHECK(done > 0);
  CHECK(done < 32);
  REQUIRE(rig.net->set_hang("a/soft0", true));
  rig.run_for(10s);
  const auto acknowledged = rig.a->poll().size(); // had landed before
  CHECK(acknowledged <= 2);
  CHECK(rig.net->devices()[0].stuck_wrs == 32 - done - acknowledged);
}

TEST_CASE("the log has each post around a fault, and none without") {
  pair_rig rig{nic_mode::paced, true};
  CHECK(rig.a->write(1, rig.b->where(), 0, 0, 64) == 0);
  rig.run_for(1ms);
  CHECK(rig.count(log_kind::posted) == 0);
  REQUIRE(rig.net->set_hang("b/soft0", true));
  CHECK(rig.a->write(2, rig.b->where(), 0, 0, 64) == 0);
  REQUIRE(rig.net->set_hang("b/soft0", false));
  rig.run_for(900ms);
  CHECK(rig.a->write(3, rig.b->where(), 0, 8, 64) == 0);
  rig.run_for(200ms);
  CHECK(rig.a->write(4, rig.b->where(), 0, 0, 64) == 0);
  CHECK(rig.count(log_kind::posted) == 2);
  const auto log = rig.log();
  const auto third = std::find_if(log.begin(), log.end(), [](const log_entry& e) { return e.wr_id == 3; });
  REQUIRE(third != log.end());
  CHECK(third->device == "a/soft0");
  CHECK(third->qp_num == rig.a->qp.number());
  CHECK(third->remote_addr == rig.b->where().addr + 8);
  CHECK(third->length == 64);
}

TEST_CASE("the same seed gives the same numbers and the same log, another seed others") {
  const auto trace = [](std::uint64_t seed) {
    pair_rig rig{nic_mode::paced, true, {}, {}, seed};
    REQUIRE(rig.net->set_delay("b/soft0", 3ms));
    for (std::uint64_t i = 0; i < 40; ++i) {
      CHECK(rig.a->write(i, rig.b->where(), 0, 0, static_cast<std::uint32_t>(i * 1000)) == 0);
      CHECK(rig.b->read(i, rig.a->where(), 0, 0, 512) == 0);
      rig.run_for(7us);
    }
    REQUIRE(rig.net->set_link("a/soft0", false));
    rig.run_for(1s);
    std::string text = std::to_string(rig.a->mr.lkey()) + ' ' + std::to_string(rig.b->mr.rkey());
    for (const auto& wc : rig.a->poll())
      text += ' ' + std::to_string(wc.wr_id) + ':' + std::to_string(wc.status) + ':' +
              std::to_string(wc.byte_len);
    for (const auto& e : rig.log())
      text += '\n' + std::to_string(e.at.time_since_epoch().count()) + ' ' + to_string(e.kind) + ' ' +
              e.device + ' ' + std::to_string(e.qp_num) + ' ' + std::to_string(e.wr_id) + ' ' +
              std::to_string(e.detail);
    return text;
  };
  CHECK(trace(1) == trace(1));
  CHECK(trace(1) != trace(2));
}
