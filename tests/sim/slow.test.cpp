// SPDX-License-Identifier: Apache-2.0
// A link that is far slower than its port says, with no fault at all: it may be suspected, and fenced a few
// times, but it must learn, and every transfer must get through.
#include "tests/sim/load.hpp"

#include <algorithm>

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace std::chrono_literals;

namespace {

sim::node_options slow(const char* name, double rate_gbit_s) {
  sim::node_options how;
  how.name = name;
  how.devices = 1;
  how.nic.mode = verbs::soft::nic_mode::paced;
  how.nic.rate_gbit_s = rate_gbit_s;
  return how;
}

} // namespace

TEST_CASE("a link that is a thousand times slower than its port is learned and not fenced for ever") {
  for (const double rate_gbit_s : {0.02, 0.01, 0.005}) {
    CAPTURE(rate_gbit_s);
    sim::cluster c(1);
    auto& a = c.add(slow("a", rate_gbit_s));
    auto& b = c.add(slow("b", rate_gbit_s));
    sim::load load(c, a, b, 256 * 1024, 8, 2);
    REQUIRE(load.connected());
    const auto batch = load.send(1, 60s);
    REQUIRE(batch != nullptr);
    REQUIRE(load.finish(*batch, 60s));
    CHECK(load.count(*batch, transfer_status::completed) == 8);
    CHECK(load.arrived(1));
    const auto first = a.count(observe::event_kind::fenced);
    CHECK(first <= 40); // some doublings of two queue pairs, and probes that wait behind the other's data
    // It was learned for good.
    const auto again = load.send(2, 60s);
    REQUIRE(load.finish(*again, 60s));
    CHECK(load.arrived(2));
    CHECK(a.count(observe::event_kind::fenced) <= first + 6);
    CHECK(a.stop());
  }
}

TEST_CASE(
    "a pause that was suspected is not taken for slowness: the hang after it is suspected as soon as ever") {
  sim::cluster c(1);
  auto& a = c.add(slow("a", 10));
  auto& b = c.add(slow("b", 10));
  sim::load load(c, a, b, 256 * 1024, 8, 2);
  REQUIRE(load.connected());
  const auto suspected_after = [&](unsigned round, base::duration pause) {
    const auto before = a.count(observe::event_kind::stall_suspected);
    const auto since = c.now();
    if (pause > 0s)
      REQUIRE(c.fabric().set_delay("a/soft0", pause));
    else
      REQUIRE(c.fabric().set_hang("a/soft0", true));
    const auto batch = load.send(round);
    REQUIRE(c.world().run_until([&] { return a.count(observe::event_kind::stall_suspected) == before + 2; },
                                since + 10s));
    const auto after = c.now() - since;
    REQUIRE(c.fabric().set_delay("a/soft0", 0s));
    REQUIRE(c.fabric().set_hang("a/soft0", false));
    REQUIRE(load.finish(*batch));
    CHECK(load.arrived(round));
    return after;
  };
  REQUIRE(load.finish(*load.send(1)));
  const auto first = suspected_after(2, 120ms);
  CHECK(first < 50ms);
  CHECK(a.count(observe::event_kind::fenced) == 0);
  CHECK(suspected_after(3, 0s) < 100ms); // 675 ms without this
  CHECK(a.stop());
}
