// SPDX-License-Identifier: Apache-2.0
// How soon a QP is made again.
#include "tests/sim/load.hpp"

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace std::chrono_literals;

namespace {

constexpr const char* only_qp = "a/soft0>b/soft0#0";

} // namespace

TEST_CASE("a QP that is fenced for its own fault is made again at once: its rail has done nothing wrong") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    sim::cluster c(seed);
    auto& a = c.add(sim::paced("a", 1));
    auto& b = c.add(sim::paced("b", 1));
    sim::load load(c, a, b, 64 * 1024, 32, 1);
    REQUIRE(load.connected());
    c.world().run_for(600ms); // it has served for a while
    const auto batch = load.send(1);
    REQUIRE(batch);
    c.world().run_for(200us);
    REQUIRE(c.fabric().raise_event("a/soft0", "QP_FATAL"));
    REQUIRE(c.world().run_until([&] { return sim::transitions(a, only_qp, "DRAINING") == 1; }, c.now() + 1s));
    const auto broken = c.now();
    REQUIRE(c.world().run_until([&] { return sim::transitions(a, only_qp, "ACTIVE") == 2; }, broken + 1s));
    // A drain at worst, one round trip on the control network, some verbs calls and one probe, but no
    // back-off.
    CHECK(c.now() - broken <= 150ms);
    CHECK(load.finish(*batch));
    CHECK(load.count(*batch, transfer_status::completed) == batch->transfers().size());
    CHECK(load.arrived(1));
    CHECK(a.stop());
    CHECK(b.stop());
  }
}
