// SPDX-License-Identifier: Apache-2.0
// Ports that go down and come back, control links that are lost, and peers that die.
#include "tests/sim/load.hpp"

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace std::chrono_literals;

TEST_CASE(
    "a port that goes down with WRs out: they are re-issued at once and the rail is back within a second") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    sim::cluster c(seed);
    auto& a = c.add(sim::paced("a", 2));
    auto& b = c.add(sim::paced("b", 2));
    sim::load load(c, a, b, 64 * 1024, 64, 4);
    REQUIRE(load.connected());
    const auto batch = load.send(1);
    REQUIRE(batch);
    c.world().run_for(200us);
    REQUIRE(c.fabric().set_hang("a/soft0", true));
    REQUIRE(c.fabric().set_link("a/soft0", false));
    const auto down = c.now();
    REQUIRE(c.world().run_until([&] { return a.count(observe::event_kind::reissued) > 0; }, down + 1s));
    CHECK(c.now() - down <= 2ms);
    CHECK(load.finish(*batch));
    CHECK(load.count(*batch, transfer_status::completed) == batch->transfers().size());
    CHECK(load.arrived(1));
    c.world().run_for(2s);
    const auto before = sim::transitions(a, "a/soft0>b/soft0", "ACTIVE");
    REQUIRE(c.fabric().set_hang("a/soft0", false));
    REQUIRE(c.fabric().set_link("a/soft0", true));
    const auto up = c.now();
    CHECK(c.world().run_until([&] { return sim::transitions(a, "a/soft0>b/soft0", "ACTIVE") > before; },
                              up + 1s));
    CHECK(c.now() - up <= 1s);
    const auto after = load.send(2);
    CHECK(load.finish(*after));
    CHECK(load.arrived(2));
    CHECK(a.stop());
    CHECK(b.stop());
  }
}

TEST_CASE("a port that is down for a moment only loses nothing") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    sim::cluster c(seed);
    auto& a = c.add(sim::paced("a", 1));
    auto& b = c.add(sim::paced("b", 1));
    sim::load load(c, a, b, 64 * 1024, 64, 2);
    REQUIRE(load.connected());
    const auto batch = load.send(1);
    c.world().run_for(100us);
    REQUIRE(c.fabric().set_link("a/soft0", false));
    c.world().run_for(10ms);
    REQUIRE(c.fabric().set_link("a/soft0", true));
    CHECK(load.finish(*batch));
    CHECK(load.count(*batch, transfer_status::completed) == batch->transfers().size());
    CHECK(load.arrived(1));
  }
}

TEST_CASE("a control link that is lost is dialled again and the data path does not notice") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    sim::cluster c(seed);
    auto& a = c.add(sim::paced("a", 2));
    auto& b = c.add(sim::paced("b", 2));
    sim::load load(c, a, b, 64 * 1024, 64, 4);
    REQUIRE(load.connected());
    const auto batch = load.send(1);
    c.world().run_for(200us);
    c.network().cut("a", "b");
    CHECK(load.finish(*batch));
    CHECK(load.count(*batch, transfer_status::completed) == batch->transfers().size());
    c.world().run_for(2s);
    CHECK(a.count(observe::event_kind::peer_lost) == 1);
    CHECK(a.count(observe::event_kind::peer_dead) == 0);
    CHECK(b.count(observe::event_kind::peer_dead) == 0);
    CHECK(sim::activations(a) == 4); // no QP was rebuilt
    const auto again = load.send(2);
    CHECK(load.finish(*again));
    CHECK(load.arrived(2));
  }
}

namespace {

/// What was lost without a link is made again with the link, and no transfer has to stall to find out.
void must_not_stall(sim::cluster& c, sim::machine& a, sim::load& load) {
  c.world().run_for(500ms);
  const auto made = sim::activations(a);
  const auto begun = c.now();
  const auto batch = load.send(2);
  REQUIRE(load.finish(*batch));
  CHECK(c.now() - begun < 25ms); // less than the stall floor
  CHECK(load.arrived(2));
  CHECK(a.count(observe::event_kind::stall_suspected) == 0);
  CHECK(sim::activations(a) == made);
}

} // namespace

TEST_CASE("an acceptor that waited no longer and gave up its QPs says so in its hello") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    sim::cluster c(seed);
    auto& a = c.add(sim::paced("a", 2));
    auto& b = c.add(sim::paced("b", 2));
    sim::load load(c, a, b, 64 * 1024, 16, 4);
    REQUIRE(load.connected());
    sim::lose_hellos(c, 1);
    c.network().cut("a", "b"); // a tries again after 1.5 s, b waits for 1 s
    c.world().run_for(1600ms);
    REQUIRE(b.count(observe::event_kind::peer_dead) == 1);
    must_not_stall(c, a, load);
    CHECK(a.count(observe::event_kind::peer_dead) == 0);
    CHECK(a.count(observe::event_kind::rejected) == 0);
    CHECK(sim::activations(a) == 8);
    sim::leave_nothing(c, a, b);
  }
}

TEST_CASE(
    "QPs that the acceptor lost without a link are named on the next one, and the others are not touched") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    sim::cluster c(seed);
    auto& a = c.add(sim::paced("a", 2));
    auto patient = sim::paced("b", 2);
    patient.config.reconnect_window = 5s;
    auto& b = c.add(patient);
    sim::load load(c, a, b, 64 * 1024, 16, 4);
    REQUIRE(load.connected());
    sim::lose_hellos(c, 1);
    c.network().cut("a", "b");
    c.world().run_for(100ms);
    REQUIRE(c.fabric().set_lost("b/soft1", true));
    c.world().run_for(100ms);
    REQUIRE(c.fabric().set_lost("b/soft1", false));
    c.world().run_for(1400ms);
    must_not_stall(c, a, load);
    CHECK(b.count(observe::event_kind::peer_dead) == 0);
    CHECK(sim::activations(a) == 6); // those of b/soft0 live on
    sim::leave_nothing(c, a, b);
  }
}

TEST_CASE("a peer that dies fails every transfer with the cause within a second") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    sim::cluster c(seed);
    auto& a = c.add(sim::paced("a", 2));
    auto& b = c.add(sim::paced("b", 2));
    sim::load load(c, a, b, 1024 * 1024, 64, 4);
    REQUIRE(load.connected());
    const auto batch = load.send(1);
    REQUIRE(c.fabric().set_hang("a/soft0", true)); // some of it hangs as well
    c.world().run_for(500us);
    REQUIRE_FALSE(batch->done());
    c.network().kill("b");
    const auto dead = c.now();
    REQUIRE(load.finish(*batch, 1s));
    CHECK(c.now() - dead <= 1s);
    for (std::size_t i = 0; i < batch->transfers().size(); ++i) {
      const auto r = batch->result(i);
      const bool good = r.status == transfer_status::completed ||
                        (r.status == transfer_status::failed && r.cause == base::reason::peer_dead);
      CHECK(good);
    }
    CHECK(load.count(*batch, transfer_status::failed) > 0);
    CHECK(load.send(2) == nullptr); // it says at once that there is nobody
    for (const auto& e : a.events) {
      CAPTURE(e.subject);
      CHECK_FALSE((e.kind == observe::event_kind::transition && e.at > dead && e.to == "ACTIVE"));
    }
    CHECK(a.stop());
  }
}
