// SPDX-License-Identifier: Apache-2.0
// Quiesce before telling: no terminal status while a WR could still touch memory, ours or the peer's.
#include "tests/sim/load.hpp"

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace std::chrono_literals;

namespace {

/// WRITEs on rail 1 are late by more than everything that waits for them; the slices go over rail 2; when the
/// batch has ended the target's buffer is used for something else. Returns whether a late byte changed it.
struct late_packet {
  bool ended = false;
  bool landed_late_in_reused_memory = false;
  bool refused_by_nic = false;
  bool unconfirmed = false;
};

late_packet run_late_packet(std::uint64_t seed, bool remote_fence, bool control_is_silent) {
  sim::cluster c(seed);
  auto how = sim::paced("a", 2);
  how.config.remote_fence = remote_fence;
  auto& a = c.add(how);
  auto& b = c.add(sim::paced("b", 2));
  sim::load load(c, a, b, 64 * 1024, 32, 4);
  late_packet r;
  if (!load.connected())
    return r;
  REQUIRE(c.fabric().set_delay("a/soft0", 600ms));
  if (control_is_silent)
    c.network().black_hole("a", "b", true);
  const auto batch = load.send(1);
  REQUIRE(batch);
  r.ended =
      load.finish(*batch) && load.count(*batch, transfer_status::completed) == batch->transfers().size();
  if (!r.ended)
    return r;
  CHECK(load.arrived(1));
  load.fill_target(0xee);
  c.world().run_for(3s);
  r.landed_late_in_reused_memory = !load.target_is(0xee);
  r.refused_by_nic = c.first(verbs::soft::log_kind::dropped_late).has_value();
  for (std::size_t i = 0; i < batch->transfers().size(); ++i)
    r.unconfirmed = r.unconfirmed || batch->result(i).remote_fence_unconfirmed;
  return r;
}

} // namespace

TEST_CASE("a late packet of a retired QP never lands in memory that was told to be free") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    const auto r = run_late_packet(seed, true, false);
    CHECK(r.ended);
    CHECK_FALSE(r.landed_late_in_reused_memory);
    CHECK(r.refused_by_nic);
    CHECK_FALSE(r.unconfirmed);
  }
}

TEST_CASE("a peer that cannot confirm is waited for, and the end says that it did not") {
  const auto r = run_late_packet(3, true, true);
  CHECK(r.ended);
  CHECK_FALSE(r.landed_late_in_reused_memory);
  CHECK(r.unconfirmed);
}

TEST_CASE("without the remote fence the late packet does land: this is what it is for") {
  const auto r = run_late_packet(3, false, true);
  CHECK(r.ended);
  CHECK(r.landed_late_in_reused_memory);
}

TEST_CASE("a READ whose QP is being fenced is told when the QP is gone, and not when its fence has begun") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    sim::cluster c(seed);
    auto& a = c.add(sim::paced("a", 1));
    auto& b = c.add(sim::paced("b", 1));
    sim::load load(c, a, b, 64 * 1024, 32, 2);
    REQUIRE(load.connected());
    for (auto& r : load.requests())
      r.op = operation::read;
    REQUIRE(c.fabric().set_hang_mode("a/soft0", verbs::soft::hang_mode::hard)); // no flush either
    const auto batch = load.send(7, 5s);
    REQUIRE(batch);
    c.world().run_for(5ms);
    actors::engine::cancel_at(load.peer(), batch);
    REQUIRE(c.world().run_until([&] { return a.count(observe::event_kind::fenced) > 0 || batch->done(); },
                                c.now() + 5s));
    CHECK_FALSE(batch->done());
    REQUIRE(load.finish(*batch));
    CHECK(a.count(observe::event_kind::fenced) == 2);
  }
}

TEST_CASE("with one device transfers wait for the heal and then succeed") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    sim::cluster c(seed);
    auto& a = c.add(sim::paced("a", 1));
    auto& b = c.add(sim::paced("b", 1));
    sim::load load(c, a, b, 64 * 1024, 32, 2);
    REQUIRE(load.connected());
    REQUIRE(c.fabric().set_hang("a/soft0", true));
    const auto batch = load.send(5, 10s);
    REQUIRE(batch);
    c.world().run_for(2s);
    CHECK_FALSE(batch->done());
    REQUIRE(c.fabric().set_hang("a/soft0", false));
    const auto healed = c.now();
    CHECK(load.finish(*batch));
    CHECK(load.count(*batch, transfer_status::completed) == batch->transfers().size());
    CHECK(load.arrived(5));
    CHECK(c.now() - healed < 1s);
  }
}

TEST_CASE("a deadline ends a transfer as TIMEOUT after its fences and never before") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    sim::cluster c(seed);
    auto& a = c.add(sim::paced("a", 1));
    auto& b = c.add(sim::paced("b", 1));
    sim::load load(c, a, b, 64 * 1024, 32, 2);
    REQUIRE(load.connected());
    REQUIRE(c.fabric().set_hang("a/soft0", true));
    const auto start = c.now();
    const auto batch = load.send(6, 60ms);
    REQUIRE(batch);
    // Not before the deadline, not while WRs are out.
    REQUIRE(c.world().run_until([&] { return c.now() >= start + 60ms; }, start + 1s));
    CHECK_FALSE(batch->done());
    REQUIRE(load.finish(*batch, 2s));
    CHECK(load.count(*batch, transfer_status::timed_out) + load.count(*batch, transfer_status::completed) ==
          batch->transfers().size());
    CHECK(load.count(*batch, transfer_status::timed_out) > 0);
    // deadline + fence_grace + drain and one control round trip
    CHECK(c.now() - start <=
          60ms + a.engine().config().fence_grace + a.engine().config().drain_deadline + 20ms);
    load.fill_target(0x11);
    c.world().run_for(3s);
    CHECK(load.target_is(0x11));
    for (const auto& t : batch->transfers())
      CHECK(t.wrs == 0);
  }
}
