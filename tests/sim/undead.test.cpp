// SPDX-License-Identifier: Apache-2.0
// A process that lives, with QPs that it cannot destroy: it is not taken for dead, by no means that a peer
// has of finding out, and these QPs are in the way of nothing but themselves.
#include "tests/sim/load.hpp"

#include <algorithm>

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace std::chrono_literals;

namespace {

constexpr const char* no_qp_goes = "dev=b/soft0 verb=destroy_qp,modify_qp,close_device do=errno:EBUSY";

/// The link is down for longer than b waits, so that b gives up what a had there.
void be_given_up(sim::cluster& c, sim::machine& b) {
  sim::lose_hellos(c, 1);
  c.network().cut("a", "b"); // a tries again after 1.5 s, b waits for 1 s
  c.world().run_for(1400ms);
  REQUIRE(b.count(observe::event_kind::peer_dead) == 1);
}

/// WRITEs of a are out to b's QPs, none of which can be destroyed; a's own device is silent.
struct out_to_undead {
  explicit out_to_undead(std::uint64_t seed)
      : c(seed), a(c.add(sim::paced("a", 1))), b(c.add(sim::paced("b", 1))), load(c, a, b, 64 * 1024, 16, 2) {
    REQUIRE(load.connected());
    const auto added = c.fabric().add_rule(no_qp_goes);
    REQUIRE(added.has_value());
    rule = *added;
    REQUIRE(c.fabric().set_hang("a/soft0", true));
    batch = load.send(2, 5s);
    REQUIRE(batch);
    c.world().run_for(1ms);
  }
  bool all_confirmed() const {
    const auto all = batch->transfers();
    return std::none_of(all.begin(), all.end(), [](const auto& t) { return t.unconfirmed; });
  }

  sim::cluster c;
  sim::machine& a;
  sim::machine& b;
  sim::load load;
  std::uint32_t rule = 0;
  std::shared_ptr<actors::batch_state> batch;
};

} // namespace

TEST_CASE("a peer that was given up comes back beside a QP of its earlier link that cannot be destroyed") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    sim::cluster c(seed);
    auto& a = c.add(sim::paced("a", 2));
    auto& b = c.add(sim::paced("b", 2));
    sim::load load(c, a, b, 64 * 1024, 16, 4);
    REQUIRE(load.connected());
    const auto rule = c.fabric().add_rule(no_qp_goes);
    REQUIRE(rule.has_value());
    be_given_up(c, b);
    c.world().run_for(2s);
    sim::must_arrive(load, 2, 1s);
    const auto carried = sim::state_of(c, "a/soft1").bytes_sent;
    sim::must_arrive(load, 3, 1s);
    CHECK(sim::state_of(c, "a/soft1").bytes_sent > carried);
    CHECK(a.count(observe::event_kind::peer_dead) == 0);
    REQUIRE(c.fabric().remove_rule(*rule));
    c.world().run_for(3s);
    CHECK(sim::told(a, observe::event_kind::quarantined, "") == 0);
    const auto on_soft0 = sim::state_of(c, "b/soft0").open_qps;
    CHECK(on_soft0 == sim::state_of(c, "b/soft1").open_qps);
    CHECK(on_soft0 > 0);
    const auto made = sim::activations(a);
    sim::must_arrive(load, 4, 1s);
    CHECK(sim::activations(a) == made); // every rail was there
    sim::leave_nothing(c, a, b);
  }
}

TEST_CASE("a peer that shuts down with QPs left is not dead: what was out to them stays unconfirmed") {
  for (const bool cut : {false, true}) {
    CAPTURE(cut);
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      CAPTURE(seed);
      out_to_undead o(seed);
      if (cut)
        o.c.network().cut("a", "b");
      CHECK_FALSE(o.b.stop());
      CHECK(o.load.finish(*o.batch));
      CHECK(o.load.count(*o.batch, transfer_status::completed) < o.batch->transfers().size());
      CHECK_FALSE(o.all_confirmed());
      CHECK(o.a.count(observe::event_kind::peer_dead) == 0);
    }
  }
}

TEST_CASE("a shutdown in good order is told as one, also to a peer whose link was lost meanwhile") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    out_to_undead o(seed);
    o.c.network().cut("a", "b");
    o.c.world().at(o.c.now() + 300ms, [&] {
      CHECK(o.a.count(observe::event_kind::peer_dead) == 0);
      CHECK(o.c.fabric().remove_rule(o.rule).has_value());
    });
    CHECK(o.b.stop());
    CHECK(o.load.finish(*o.batch, 1s));
    CHECK(o.load.count(*o.batch, transfer_status::completed) < o.batch->transfers().size());
    CHECK(o.all_confirmed());
    CHECK(o.a.count(observe::event_kind::peer_dead) == 1);
  }
}
