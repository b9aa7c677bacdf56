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
