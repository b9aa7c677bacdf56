// SPDX-License-Identifier: Apache-2.0
// That the right log entries, events and samples make the figures, and that near misses do not.
#include "bench/recovery.hpp"

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace actor_rdma::bench;
using namespace std::chrono_literals;
using verbs::soft::log_kind;

namespace {

constexpr base::time_point start{100s};

verbs::soft::log_entry entry(base::duration at, log_kind kind, const char* device, std::uint32_t qp = 0,
                             std::uint64_t remote = 0) {
  verbs::soft::log_entry e;
  e.at = start + at;
  e.kind = kind;
  e.device = device;
  e.qp_num = qp;
  e.remote_addr = remote;
  return e;
}

observe::event transition(base::duration at, const char* subject, const char* from, const char* to) {
  observe::event e;
  e.at = start + at;
  e.subject = subject;
  e.from = from;
  e.to = to;
  return e;
}

recovery_tracker two_devices() {
  return {"me", 2};
}

void feed_rate(recovery_tracker& t, base::duration from, base::duration until, std::uint64_t& bytes,
               std::uint64_t step) {
  for (; from < until; from += 10ms)
    t.on_progress(start + from, bytes += step);
}

} // namespace

TEST_CASE("without a fault there is no recovery") {
  auto t = two_devices();
  t.on_log(entry(1s, log_kind::posted, "me/soft0", 1, 0x1000));
  CHECK(!t.result());
}

TEST_CASE("a hang counts from the first swallowed WR to its posting on another device") {
  auto t = two_devices();
  t.on_log(entry(10ms, log_kind::hang_on, "me/soft0"));
  t.on_log(entry(11ms, log_kind::swallowed, "other/soft0", 9, 0x7000));
  t.on_log(entry(12ms, log_kind::swallowed, "me/soft0", 1, 0x1000));
  t.on_log(entry(12ms, log_kind::swallowed, "me/soft0", 1, 0x2000));
  t.on_log(entry(15ms, log_kind::posted, "me/soft0", 2, 0x2000)); // hangs as well
  t.on_log(entry(16ms, log_kind::posted, "me/soft1", 3, 0x5000)); // fresh work
  t.on_log(entry(43ms, log_kind::posted, "me/soft1", 3, 0x2000));
  t.on_log(entry(44ms, log_kind::posted, "me/soft1", 3, 0x1000));
  const auto r = t.result();
  REQUIRE(r);
  CHECK(r->zero == start + 12ms);
  CHECK(r->first_reissue == 31ms);
  CHECK(!r->detected);
  CHECK(!r->full_rate);
}

TEST_CASE("an address that another transfer used elsewhere before is no re-issue") {
  auto t = two_devices();
  t.on_log(entry(1ms, log_kind::posted, "me/soft0", 1, 0x3000)); // ends in time
  t.on_log(entry(5ms, log_kind::swallowed, "me/soft0", 1, 0x1000));
  t.on_log(entry(6ms, log_kind::posted, "me/soft1", 3, 0x3000)); // the next batch of that place
  t.on_log(entry(7ms, log_kind::posted, "me/soft1", 3, 0x2000)); // this too, and it ends
  t.on_log(entry(8ms, log_kind::posted, "me/soft0", 1, 0x2000)); // the batch after it meets the hang
  t.on_log(entry(8ms, log_kind::swallowed, "me/soft0", 1, 0x2000));
  CHECK(!t.has_reissue());
  t.on_log(entry(36ms, log_kind::posted, "me/soft1", 3, 0x2000));
  REQUIRE(t.has_reissue());
  CHECK(t.result()->first_reissue == 31ms);
}

TEST_CASE("a re-issue stays one when the same place is written through the healed device later") {
  auto t = two_devices();
  t.on_log(entry(5ms, log_kind::swallowed, "me/soft0", 1, 0x1000));
  t.on_log(entry(35ms, log_kind::posted, "me/soft1", 3, 0x1000));
  t.on_log(entry(4s, log_kind::posted, "me/soft0", 7, 0x1000));
  REQUIRE(t.has_reissue());
  CHECK(t.result()->first_reissue == 30ms);
}

TEST_CASE("a port that goes down has the victims that its queue pairs flush") {
  auto t = two_devices();
  for (std::uint64_t i = 0; i < 6; ++i)
    t.on_log(entry(1ms, log_kind::posted, "me/soft0", 1, 0x1000 * i));
  t.on_log(entry(1ms, log_kind::posted, "me/soft1", 3, 0x9000));
  t.on_log(entry(5ms, log_kind::link_down, "me/soft0"));
  SUBCASE("one of them on another device is the re-issue") {
    t.on_log(
        entry(6ms, log_kind::posted, "me/soft1", 3, 0x1000)); // ended before the fault: it is not flushed
    t.on_log(entry(7ms, log_kind::posted, "me/soft1", 3, 0x9000)); // was never on soft0
    t.on_log(entry(8ms, log_kind::posted, "me/soft1", 3, 0x4000));
    t.on_log(entry(9ms, log_kind::retry_exceeded, "me/soft0", 1, 0x3000));
    t.on_log(entry(9ms, log_kind::flushed, "me/soft0", 1, 0x4000));
    CHECK(t.result()->first_reissue == 3ms);
  }
  SUBCASE("so has what was posted before anyone knew") {
    t.on_log(entry(6ms, log_kind::posted, "me/soft0", 1, 0xa000));
    t.on_log(entry(9ms, log_kind::posted, "me/soft1", 3, 0xa000));
    t.on_log(entry(9ms, log_kind::flushed, "me/soft0", 1, 0xa000));
    CHECK(t.result()->first_reissue == 4ms);
  }
  SUBCASE("the peer's port counts as the rail's") {
    auto peer = two_devices();
    peer.on_log(entry(1ms, log_kind::posted, "me/soft0", 1, 0x4000));
    peer.on_log(entry(5ms, log_kind::link_down, "target/soft0"));
    peer.on_log(entry(6ms, log_kind::posted, "me/soft1", 3, 0x4000));
    peer.on_log(entry(7ms, log_kind::flushed, "me/soft0", 1, 0x4000));
    CHECK(peer.result()->first_reissue == 1ms);
  }
}

TEST_CASE("with one device the re-issue is on a QP that was not there") {
  recovery_tracker t("me", 1);
  t.on_log(entry(1ms, log_kind::swallowed, "me/soft0", 1, 0x1000));
  t.on_log(entry(2ms, log_kind::posted, "me/soft0", 1, 0x1000));
  t.on_log(entry(9ms, log_kind::posted, "me/soft0", 7, 0x1000));
  CHECK(t.result()->first_reissue == 8ms);
}

TEST_CASE("with one device whose port goes down the old queue pair's posts are no re-issue") {
  recovery_tracker t("me", 1);
  t.on_log(entry(1ms, log_kind::link_down, "me/soft0"));
  t.on_log(entry(2ms, log_kind::posted, "me/soft0", 1, 0x1000));
  t.on_log(entry(5ms, log_kind::flushed, "me/soft0", 1, 0x1000));
  CHECK(!t.has_reissue());
  t.on_log(entry(9ms, log_kind::posted, "me/soft0", 7, 0x1000));
  CHECK(t.result()->first_reissue == 8ms);
}

TEST_CASE("detection and rebuilds come from the events after zero") {
  auto t = two_devices();
  t.on_event(transition(1ms, "me/soft0>peer/soft0#0", "ACTIVE", "PAUSED"));
  t.on_log(entry(10ms, log_kind::swallowed, "me/soft0", 1, 0x1000));
  t.on_event(transition(20ms, "me/soft0>peer/soft0", "PAUSED", "ACTIVE"));
  t.on_event(transition(42ms, "me/soft0>peer/soft0#1", "ACTIVE", "PAUSED"));
  t.on_event(transition(90ms, "me/soft0>peer/soft0", "REBUILDING", "ACTIVE")); // an endpoint is no QP
  t.on_event(transition(91ms, "me/soft0>peer/soft0#1", "REBUILDING", "ACTIVE"));
  const auto r = t.result();
  CHECK(r->detected == 32ms);
  CHECK(r->rebuilds == 1);
}

TEST_CASE("full rate is back when two windows in a row are as fast as before") {
  auto t = two_devices();
  std::uint64_t bytes = 0;
  feed_rate(t, 0ms, 1000ms, bytes, 100);
  t.on_log(entry(1000ms, log_kind::link_down, "me/soft0"));
  SUBCASE("after a dip") {
    feed_rate(t, 1000ms, 2000ms, bytes, 50);
    feed_rate(t, 2000ms, 2100ms, bytes, 100); // one good window does not make a recovery
    feed_rate(t, 2100ms, 2500ms, bytes, 50);
    feed_rate(t, 2500ms, 3500ms, bytes, 100);
    const auto back = t.result()->full_rate;
    REQUIRE(back);
    CHECK(*back >= 1490ms);
    CHECK(*back <= 1610ms);
  }
  SUBCASE("never") {
    feed_rate(t, 1000ms, 3000ms, bytes, 50);
    CHECK(!t.result()->full_rate);
  }
  SUBCASE("without a dip") {
    feed_rate(t, 1000ms, 3000ms, bytes, 98);
    CHECK(t.result()->full_rate == 0ms);
  }
}

TEST_CASE("the timeline is in order") {
  auto t = two_devices();
  t.on_step(start + 9ms, "hang:soft0");
  t.on_log(entry(10ms, log_kind::swallowed, "me/soft0", 1, 0x1000));
  t.on_event(transition(40ms, "q#1", "ACTIVE", "PAUSED"));
  t.on_log(entry(41ms, log_kind::posted, "me/soft1", 2, 0x1000));
  const auto r = t.result();
  REQUIRE(r->timeline.size() == 4);
  CHECK(r->timeline[0].what == "fault: hang:soft0");
  CHECK(r->timeline[0].after == -1ms);
  CHECK(r->timeline[1].what == "me/soft0 swallowed its first WR");
  CHECK(r->timeline[2].what == "detected: q#1 ACTIVE -> PAUSED");
  CHECK(r->timeline[3].what == "first slice posted again, on me/soft1");
}
