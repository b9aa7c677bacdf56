// SPDX-License-Identifier: Apache-2.0
// An exception in the midst of an actor's handler: it is told, and nothing that somebody waits for is lost
// with it.
#include "tests/sim/load.hpp"

#include <new>

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace std::chrono_literals;

namespace {

sim::node_options paced(const char* name) {
  sim::node_options o;
  o.name = name;
  o.nic.mode = verbs::soft::nic_mode::paced;
  return o;
}

std::size_t faults(const sim::machine& a, const sim::machine& b) {
  return a.count(observe::event_kind::internal_fault) + b.count(observe::event_kind::internal_fault);
}

} // namespace

TEST_CASE(
    "memory runs out while a handler arms a deadline: it is told, and every transfer ends all the same") {
  std::size_t deadlines = 0; // of a run in which nothing is thrown
  for (std::size_t failing = 0; failing <= deadlines; ++failing) {
    CAPTURE(failing);
    sim::cluster c(7 + failing);
    auto& a = c.add(paced("a"));
    auto& b = c.add(paced("b"));
    sim::load load(c, a, b, 64 * 1024, 64, 4);
    REQUIRE(load.connected());
    const auto before = faults(a, b);
    std::size_t armed = 0;
    c.world().arming = [&] {
      if (++armed == failing)
        throw std::bad_alloc{};
    };
    const auto batch = load.send(1);
    REQUIRE(batch);
    REQUIRE(load.finish(*batch));
    if (failing == 0)
      deadlines = armed;
    c.world().arming = nullptr;
    CHECK(faults(a, b) == before + (failing > 0 && failing <= armed ? 1 : 0));
    for (std::size_t i = 0; i < batch->transfers().size(); ++i) {
      const auto r = batch->result(i);
      const bool good = r.status == transfer_status::completed ||
                        (r.status == transfer_status::failed && r.cause == base::reason::internal);
      CHECK(good);
    }
    const auto again = load.send(2);
    REQUIRE(again);
    CHECK(load.finish(*again));
    CHECK(load.count(*again, transfer_status::completed) == again->transfers().size());
    CHECK(load.arrived(2));
    CHECK(a.stop());
    CHECK(b.stop());
    if (failing == 0)
      MESSAGE("deadlines: " << deadlines);
  }
}
