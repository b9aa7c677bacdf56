// SPDX-License-Identifier: Apache-2.0
// The room in a completion queue: what every QP may need at worst, flushes of unsignalled WRs included, is
// reserved before it is made. A rail for which there is no room says so, and comes up when there is.
#include "tests/sim/load.hpp"

#include <algorithm>

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace std::chrono_literals;

namespace {

constexpr std::uint32_t depth = 64;
/// What one initiating QP reserves: its send queue, a probe, and one to spare.
constexpr std::uint32_t room = depth + 2;

sim::node_options with_cq(const char* name, std::uint32_t entries) {
  sim::node_options o;
  o.name = name;
  o.devices = 1;
  o.config.qps_per_endpoint = 1;
  o.config.send_queue_depth = depth;
  o.nic.mode = verbs::soft::nic_mode::paced;
  o.nic.limits.max_cqe = entries;
  return o;
}

} // namespace

TEST_CASE("a completion queue holds every flush of full send queues, signalled or not") {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    CAPTURE(seed);
    sim::cluster c(seed);
    auto& a = c.add(with_cq("a", room + room / 2)); // for one QP, not for two
    auto& b = c.add(with_cq("b", 1024));
    auto& d = c.add(with_cq("d", 1024));
    sim::load to_b(c, a, b, 1024, 256, 1);
    REQUIRE(to_b.connected());
    sim::load to_d(c, a, d, 1024, 256, 2); // its rail has no room
    CHECK(sim::told(a, observe::event_kind::attempt_failed, "has no room for another QP") >= 1);
    REQUIRE(c.fabric().set_hang("a/soft0", true));
    const auto first = to_b.send(1);
    const auto second = to_d.send(2, 500ms);
    REQUIRE(first);
    REQUIRE(second);
    c.world().run_for(400ms); // full send queues were swallowed, and flushed
    CHECK(a.count(observe::event_kind::fenced) >= 1);
    REQUIRE(c.fabric().set_hang("a/soft0", false));
    CHECK(to_b.finish(*first));
    CHECK(to_b.count(*first, transfer_status::completed) == first->transfers().size());
    CHECK(to_b.arrived(1));
    CHECK(to_d.finish(*second));
    CHECK(to_d.count(*second, transfer_status::timed_out) == second->transfers().size());
    CHECK(sim::transitions(a, "a/soft0", "DRAINING") == 0); // an overrun queue would cost the device
    CHECK(a.stop());
    CHECK(b.stop());
    CHECK(d.stop());
  }
}

TEST_CASE("a rail without room in the completion queue says why, and comes up when there is room") {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    CAPTURE(seed);
    sim::cluster c(seed);
    auto& a = c.add(with_cq("a", room + 1));
    auto& b = c.add(with_cq("b", 1024));
    auto& guest = c.add(with_cq("guest", 1024));
    sim::load from_guest(c, guest, a, 4096, 4, 1);
    REQUIRE(from_guest.connected());     // a serves it with the entry that is missing now
    sim::load to_b(c, a, b, 4096, 4, 2); // beside the one that serves the guest
    CHECK_FALSE(to_b.connected());
    c.world().run_for(2s);
    const auto attempts = sim::told(a, observe::event_kind::attempt_failed, "has no room for another QP");
    CHECK(attempts >= 4);  // tried again
    CHECK(attempts <= 40); // and not in a hurry
    const auto batch = to_b.send(1);
    REQUIRE(batch);
    CHECK(guest.stop());
    CHECK(to_b.finish(*batch, 3s));
    CHECK(to_b.count(*batch, transfer_status::completed) == batch->transfers().size());
    CHECK(to_b.arrived(1));
    CHECK(a.stop());
    CHECK(b.stop());
  }
}

TEST_CASE("a rail whose queue has room for some of its QPs goes on with those") {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    CAPTURE(seed);
    sim::cluster c(seed);
    auto how = with_cq("a", 2 * room + room / 2);
    how.config.qps_per_endpoint = 4;
    auto& a = c.add(how);
    auto& b = c.add(with_cq("b", 1024));
    sim::load load(c, a, b, 4096, 64, 2);
    CHECK(load.connected());
    CHECK(sim::told(a, observe::event_kind::attempt_failed, "the rail goes on with 2 of 4") == 2);
    const auto batch = load.send(1);
    REQUIRE(batch);
    CHECK(load.finish(*batch));
    CHECK(load.arrived(1));
    REQUIRE(c.fabric().raise_event("a/soft0", "QP_FATAL"));
    c.world().run_for(1s);
    CHECK(sim::activations(a) == 4);
    const auto again = load.send(2);
    CHECK(load.finish(*again));
    CHECK(load.arrived(2));
    CHECK(a.stop());
    CHECK(b.stop());
  }
}
