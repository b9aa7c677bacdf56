// SPDX-License-Identifier: Apache-2.0
// A device that is lost: everything of it goes, while the process goes on; nothing else is touched; and when
// it is back it serves again, with new keys.
#include "tests/sim/load.hpp"

#include <algorithm>
#include <string>

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace std::chrono_literals;

namespace {

bool in_state(const sim::machine& of, const std::string& subject, const std::string& state) {
  return std::any_of(of.events.begin(), of.events.end(),
                     [&](const auto& e) { return e.subject == subject && e.to == state; });
}

} // namespace

TEST_CASE("A-16: a lost device is released whole while the node goes on, and opened again when it is back") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    sim::cluster c(seed);
    auto& a = c.add(sim::paced("a"));
    auto& b = c.add(sim::paced("b"));
    sim::load load(c, a, b, 64 * 1024, 16, 4);
    REQUIRE(load.connected());
    const auto before = sim::state_of(c, "a/soft0");
    const auto under_way = load.send(1);
    REQUIRE(c.fabric().set_lost("a/soft0", true));
    CHECK(load.finish(*under_way, 5s));
    CHECK(load.count(*under_way, transfer_status::completed) == under_way->transfers().size());
    CHECK(load.arrived(1));
    c.world().run_for(1s);
    CHECK(sim::state_of(c, "a/soft0").open_qps == 0);
    CHECK(sim::state_of(c, "a/soft0").open_mrs == 0);
    CHECK(sim::state_of(c, "a/soft1").open_mrs > 0);
    sim::must_arrive(load, 2);
    const auto more = a.memory(4096); // on the devices that are left
    REQUIRE(more);
    const auto unused = a.memory(4096);
    a.deregister(unused);
    REQUIRE(c.fabric().set_lost("a/soft0", false));
    c.world().run_for(1500ms);
    CHECK(a.count(observe::event_kind::device_lost) == 1);
    CHECK(a.count(observe::event_kind::device_opened) == 1);
    CHECK(a.count(observe::event_kind::quarantined) == 0);
    CHECK(sim::state_of(c, "a/soft0").open_qps == before.open_qps);
    CHECK(sim::state_of(c, "a/soft0").open_mrs == before.open_mrs + 1);
    const auto carried = sim::state_of(c, "a/soft0").bytes_sent;
    for (unsigned round = 3; round < 6; ++round)
      sim::must_arrive(load, round);
    CHECK(sim::state_of(c, "a/soft0").bytes_sent > carried + 64 * 1024);
    a.deregister(more);
    sim::leave_nothing(c, a, b);
  }
}

TEST_CASE("A-09: a device of the peer comes back with other keys, which all have before it serves") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    sim::cluster c(seed);
    auto& a = c.add(sim::paced("a"));
    auto& b = c.add(sim::paced("b"));
    sim::load load(c, a, b, 256 * 1024, 512, 4); // 128 MiB: under way from before the loss until after it
    REQUIRE(load.connected());
    const auto under_way = load.send(1);
    REQUIRE(c.fabric().set_lost("b/soft0", true));
    c.world().run_for(5ms);
    REQUIRE(c.fabric().set_lost("b/soft0", false));
    CHECK(load.finish(*under_way, 5s));
    CHECK(load.count(*under_way, transfer_status::completed) == under_way->transfers().size());
    CHECK(load.arrived(1));
    c.world().run_for(1s);
    const auto carried = sim::state_of(c, "a/soft0").bytes_sent;
    sim::must_arrive(load, 2);
    CHECK(sim::state_of(c, "a/soft0").bytes_sent > carried);
    CHECK(b.count(observe::event_kind::device_opened) == 1);
    CHECK(a.count(observe::event_kind::keys_refreshed) == 0); // no old key was ever tried on the new opening
    CHECK(a.stop());
    CHECK(b.stop());
  }
}

TEST_CASE("A-13: a device on which every call is EIO ends, and so does what was posted on it") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    sim::cluster c(seed);
    auto& a = c.add(sim::paced("a"));
    auto& b = c.add(sim::paced("b"));
    sim::load load(c, a, b, 256 * 1024, 16, 4);
    REQUIRE(load.connected());
    const auto under_way = load.send(1);
    REQUIRE(c.fabric().set_link_quietly("a/soft0", false));
    const auto rule = c.fabric().add_rule("dev=a/soft0 verb=any do=errno:EIO");
    REQUIRE(rule);
    CHECK(load.finish(*under_way, 2s));
    CHECK(load.count(*under_way, transfer_status::completed) == under_way->transfers().size());
    CHECK(load.arrived(1));
    sim::must_arrive(load, 2);
    c.world().run_for(1s);
    CHECK(a.count(observe::event_kind::device_lost) == 1);
    CHECK(a.count(observe::event_kind::device_opened) == 0); // not for want of trying
    CHECK(a.count(observe::event_kind::attempt_failed) >= 3);
    if (seed % 2 == 0) {
      REQUIRE(c.fabric().remove_rule(*rule));
      REQUIRE(c.fabric().set_link_quietly("a/soft0", true));
      c.world().run_for(2s);
      CHECK(in_state(a, "a/soft0", "ACTIVE"));
      CHECK(a.count(observe::event_kind::device_opened) == 1);
      sim::must_arrive(load, 3);
    }
    CHECK(a.stop()); // there is nothing left that could not be released
    CHECK(b.stop());
  }
}

TEST_CASE(
    "E-12: a device on which memory cannot be registered again says so, serves without it, and it is tried "
    "again") {
  sim::cluster c(1);
  auto& a = c.add(sim::paced("a"));
  auto& b = c.add(sim::paced("b"));
  sim::load load(c, a, b, 64 * 1024, 16, 4);
  sim::load other(c, a, b, 64 * 1024, 16, 4);
  REQUIRE(load.connected());
  REQUIRE(other.connected());
  const auto mrs = sim::state_of(c, "a/soft0").open_mrs;
  // The probe's memory is the first that is registered, then come the buffers; the first of them fails.
  const auto rule = c.fabric().add_rule("dev=a/soft0 verb=reg_mr nth=2 do=errno:ENOMEM");
  REQUIRE(rule);
  REQUIRE(c.fabric().set_lost("a/soft0", true));
  c.world().run_for(10ms);
  const auto later = c.fabric().add_rule("dev=a/soft0 verb=reg_mr skip=2 do=errno:ENOMEM");
  REQUIRE(later);
  REQUIRE(c.fabric().set_lost("a/soft0", false));
  a.events.clear();
  c.world().run_for(3s);
  CHECK(a.count(observe::event_kind::device_opened) == 1);
  CHECK(in_state(a, "a/soft0", "ACTIVE"));
  CHECK(std::count_if(a.events.begin(), a.events.end(), [](const auto& e) {
          return e.kind == observe::event_kind::attempt_failed &&
                 e.detail.find("soft0 is left out for buffer 1, which cannot be registered on it") !=
                     std::string::npos;
        }) == 1);
  CHECK(sim::state_of(c, "a/soft0").open_mrs == mrs - 1);
  auto carried = sim::state_of(c, "a/soft0").bytes_sent;
  sim::must_arrive(load, 1); // by the other rail
  CHECK(sim::state_of(c, "a/soft0").bytes_sent == carried);
  sim::must_arrive(other, 1);
  CHECK(sim::state_of(c, "a/soft0").bytes_sent > carried);
  REQUIRE(c.fabric().remove_rule(*later));
  c.world().run_for(2s);
  CHECK(sim::state_of(c, "a/soft0").open_mrs == mrs);
  carried = sim::state_of(c, "a/soft0").bytes_sent;
  sim::must_arrive(load, 2);
  CHECK(sim::state_of(c, "a/soft0").bytes_sent > carried);
  CHECK(a.stop());
  CHECK(b.stop());
}

TEST_CASE("a device that is lost again and again, at any moment of its return, comes back in the end") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    sim::cluster c(seed);
    auto& a = c.add(sim::paced("a"));
    auto& b = c.add(sim::paced("b"));
    sim::load load(c, a, b, 64 * 1024, 16, 4);
    REQUIRE(load.connected());
    const auto mrs = sim::state_of(c, "a/soft0").open_mrs;
    for (unsigned round = 1; round <= 6; ++round) {
      REQUIRE(c.fabric().set_lost("a/soft0", true));
      c.world().run_for(std::chrono::microseconds{seed * 7919 % 40'000 + 1});
      REQUIRE(c.fabric().set_lost("a/soft0", false));
      c.world().run_for(std::chrono::microseconds{seed * round * 104'729 % 60'000 + 1});
    }
    c.world().run_for(3s);
    CHECK(a.count(observe::event_kind::internal_fault) == 0);
    CHECK(sim::state_of(c, "a/soft0").open_mrs == mrs);
    a.events.clear();
    const auto carried = sim::state_of(c, "a/soft0").bytes_sent;
    for (unsigned round = 1; round <= 3; ++round)
      sim::must_arrive(load, round);
    CHECK(sim::state_of(c, "a/soft0").bytes_sent > carried);
    CHECK(a.stop());
    CHECK(b.stop());
  }
}

TEST_CASE("a node is stopped at any moment of a device's way out and back, and leaves nothing") {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    sim::cluster c(seed);
    auto& a = c.add(sim::paced("a"));
    auto& b = c.add(sim::paced("b"));
    sim::load load(c, a, b, 64 * 1024, 16, 4);
    REQUIRE(load.connected());
    REQUIRE(c.fabric().set_lost("a/soft0", true));
    c.world().run_for(std::chrono::microseconds{seed * 1009 % 20'000});
    if (seed % 4 != 0)
      REQUIRE(c.fabric().set_lost("a/soft0", false));
    c.world().run_for(std::chrono::microseconds{seed * 7919 % 60'000});
    sim::leave_nothing(c, a, b);
  }
}

TEST_CASE("a lost device is closed over memory regions that refuse to go, and opened again") {
  sim::cluster c(1);
  auto& a = c.add(sim::paced("a"));
  auto& b = c.add(sim::paced("b"));
  sim::load load(c, a, b, 64 * 1024, 16, 4);
  REQUIRE(load.connected());
  const auto rule = c.fabric().add_rule("dev=a/soft0 verb=dereg_mr do=errno:EBUSY");
  REQUIRE(rule);
  REQUIRE(c.fabric().raise_event("a/soft0", "DEVICE_FATAL"));
  c.world().run_for(2s);
  CHECK(a.count(observe::event_kind::quarantined) == 0);
  CHECK(a.count(observe::event_kind::device_opened) == 1);
  sim::must_arrive(load, 1);
  REQUIRE(c.fabric().remove_rule(*rule));
  CHECK(a.stop());
  CHECK(b.stop());
}

TEST_CASE("a device that cannot be released is reported and not opened again before it is") {
  sim::cluster c(1);
  auto& a = c.add(sim::paced("a"));
  auto& b = c.add(sim::paced("b"));
  sim::load load(c, a, b, 64 * 1024, 16, 4);
  REQUIRE(load.connected());
  const auto rule = c.fabric().add_rule("dev=a/soft0 verb=dereg_mr,close_device do=errno:EBUSY");
  REQUIRE(rule);
  REQUIRE(c.fabric().raise_event("a/soft0", "DEVICE_FATAL"));
  c.world().run_for(3s);
  CHECK(a.count(observe::event_kind::quarantined) == 1);
  CHECK(a.count(observe::event_kind::device_opened) == 0);
  sim::must_arrive(load, 1);
  REQUIRE(c.fabric().remove_rule(*rule));
  c.world().run_for(2s);
  CHECK(a.count(observe::event_kind::device_opened) == 1);
  sim::must_arrive(load, 2);
  CHECK(a.stop());
  CHECK(b.stop());
}

TEST_CASE("A-16: a device that appears after the start is taken in at both ends, with the memory of before") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    sim::cluster c(seed);
    auto with_late = sim::paced("a");
    with_late.nics.assign(3, with_late.nic);
    for (std::size_t i = 0; i < 3; ++i)
      with_late.nics[i].name = "soft" + std::to_string(i);
    with_late.nics[2].lost = true;
    auto& a = c.add(with_late);
    auto& b = c.add(sim::paced("b"));
    sim::load out(c, a, b, 256 * 1024, 32, 4);
    sim::load in(c, b, a, 256 * 1024, 32, 4);
    REQUIRE(out.connected());
    REQUIRE(in.connected());
    sim::must_arrive(out, 1);
    CHECK(sim::state_of(c, "a/soft2").open_mrs == 0);
    REQUIRE(c.fabric().set_lost("a/soft2", false));
    c.world().run_for(4s);
    CHECK(a.count(observe::event_kind::device_opened) == 1);
    CHECK(in_state(a, "a/soft2", "ACTIVE"));
    CHECK(sim::state_of(c, "a/soft2").open_mrs == sim::state_of(c, "a/soft1").open_mrs);
    CHECK(sim::transitions(a, "a/soft2>b/soft0", "ACTIVE") == 1);
    CHECK(sim::transitions(b, "b/soft0>a/soft2", "ACTIVE") == 1);
    for (unsigned round = 2; round < 5; ++round) {
      sim::must_arrive(out, round);
      sim::must_arrive(in, round);
    }
    CHECK(sim::state_of(c, "a/soft2").bytes_sent > 1'000'000);
    REQUIRE(c.fabric().set_lost("a/soft2", true)); // like any other
    c.world().run_for(100ms);
    sim::must_arrive(out, 5);
    REQUIRE(c.fabric().set_lost("a/soft2", false));
    c.world().run_for(2s);
    CHECK(a.count(observe::event_kind::device_opened) == 2);
    sim::must_arrive(in, 6);
    sim::leave_nothing(c, a, b);
  }
}

TEST_CASE("EIO from a device that nobody said was lost proves nothing") {
  sim::cluster c(1);
  auto& a = c.add(sim::paced("a"));
  auto& b = c.add(sim::paced("b"));
  sim::load load(c, a, b, 64 * 1024, 16, 4);
  REQUIRE(load.connected());
  const auto rule = c.fabric().add_rule("dev=a/soft0 verb=destroy_qp do=errno:EIO");
  REQUIRE(rule);
  REQUIRE(c.fabric().raise_event("a/soft0", "QP_FATAL"));
  c.world().run_for(500ms);
  CHECK(a.count(observe::event_kind::quarantined) > 0);
  CHECK(sim::state_of(c, "a/soft0").open_qps >= 2);
  CHECK_FALSE(in_state(a, "a/soft0", "DRAINING"));
  REQUIRE(c.fabric().remove_rule(*rule));
  c.world().run_for(2s);
  sim::must_arrive(load, 1);
  CHECK(a.stop());
  CHECK(b.stop());
}
