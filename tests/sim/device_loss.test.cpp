// SPDX-License-Identifier: Apache-2.0
// A device that is lost: everything of it goes, while the process goes on; and nothing else is touched.
#include "tests/sim/load.hpp"

#include <algorithm>

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace std::chrono_literals;

namespace {

sim::node_options paced(const char* name) {
  sim::node_options o;
  o.name = name;
  o.devices = 2;
  o.nic.mode = verbs::soft::nic_mode::paced;
  return o;
}

verbs::soft::device_state state_of(sim::cluster& c, const std::string& device) {
  for (const auto& d : c.fabric().devices())
    if (d.name == device)
      return d;
  return {};
}

bool in_state(const sim::machine& of, const std::string& subject, const std::string& state) {
  return std::any_of(of.events.begin(), of.events.end(),
                     [&](const auto& e) { return e.subject == subject && e.to == state; });
}

void must_arrive(sim::load& load, unsigned round) {
  const auto batch = load.send(round);
  REQUIRE(batch);
  CHECK(load.finish(*batch, 5s));
  CHECK(load.count(*batch, transfer_status::completed) == batch->transfers().size());
  CHECK(load.arrived(round));
}

} // namespace

TEST_CASE("A-16: a lost device is released whole while the node goes on, its memory regions too") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    sim::cluster c(seed);
    auto& a = c.add(paced("a"));
    auto& b = c.add(paced("b"));
    sim::load load(c, a, b, 64 * 1024, 16, 4);
    REQUIRE(load.connected());
    const auto under_way = load.send(1);
    REQUIRE(c.fabric().raise_event("a/soft0", "DEVICE_FATAL"));
    CHECK(load.finish(*under_way, 5s));
    CHECK(load.arrived(1));
    c.world().run_for(1s);
    CHECK(in_state(a, "a/soft0", "RETIRED"));
    CHECK(state_of(c, "a/soft0").open_qps == 0);
    CHECK(state_of(c, "a/soft0").open_mrs == 0);
    CHECK(state_of(c, "a/soft1").open_mrs > 0);
    must_arrive(load, 2);
    const auto more = a.memory(4096); // on the devices that are left
    REQUIRE(more);
    a.deregister(more);
    CHECK(a.stop());
    CHECK(b.stop());
  }
}

TEST_CASE("A-13: a device on which every call is EIO ends, and so does what was posted on it") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    sim::cluster c(seed);
    auto& a = c.add(paced("a"));
    auto& b = c.add(paced("b"));
    sim::load load(c, a, b, 256 * 1024, 16, 4);
    REQUIRE(load.connected());
    const auto under_way = load.send(1);
    REQUIRE(c.fabric().set_link_quietly("a/soft0", false));
    REQUIRE(c.fabric().add_rule("dev=a/soft0 verb=any do=errno:EIO"));
    CHECK(load.finish(*under_way, 2s));
    CHECK(load.count(*under_way, transfer_status::completed) == under_way->transfers().size());
    CHECK(load.arrived(1));
    must_arrive(load, 2);
    c.world().run_for(1s); // whether its QPs are gone is looked at now and then
    CHECK(in_state(a, "a/soft0", "RETIRED"));
    CHECK(a.stop()); // there is nothing left that could be released
    CHECK(b.stop());
  }
}

TEST_CASE("EIO from a device that nobody said was lost proves nothing") {
  sim::cluster c(1);
  auto& a = c.add(paced("a"));
  auto& b = c.add(paced("b"));
  sim::load load(c, a, b, 64 * 1024, 16, 4);
  REQUIRE(load.connected());
  const auto rule = c.fabric().add_rule("dev=a/soft0 verb=destroy_qp do=errno:EIO");
  REQUIRE(rule);
  REQUIRE(c.fabric().raise_event("a/soft0", "QP_FATAL"));
  c.world().run_for(500ms);
  CHECK(a.count(observe::event_kind::quarantined) > 0);
  CHECK(state_of(c, "a/soft0").open_qps >= 2);
  CHECK_FALSE(in_state(a, "a/soft0", "DRAINING"));
  REQUIRE(c.fabric().remove_rule(*rule));
  c.world().run_for(2s);
  must_arrive(load, 1);
  CHECK(a.stop());
  CHECK(b.stop());
}
