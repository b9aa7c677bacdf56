// SPDX-License-Identifier: Apache-2.0
//
// Rows of the behaviour table: a device on a bond of two. In a guest they need the shape bond.
#include "tests/kernel/behaviour/duo.hpp"
#include "tests/kernel/behaviour/rows.hpp"

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace actor_rdma::tests::kernel;
using namespace std::chrono_literals;

TEST_CASE("bond: the cable of the active member is cut") {
  duo d{usual_options(), true};
  play(d, {"cable of a bond's active member cut", [](stage& s) { return s.member_cable(0, false); },
           [&](stage& s) {
             CHECK(!d.seen.saw(side::a, IBV_EVENT_PORT_ERR));
             CHECK(d.a().ctx.query_port(1)->state == IBV_PORT_ACTIVE);
             return s.member_cable(0, true);
           }});
  mend_and_go_on(d);
}

TEST_CASE("bond: the cable of the member that stands by is cut") {
  duo d{usual_options(), true};
  fault_play what{"cable of a bond's other member cut", [](stage& s) { return s.member_cable(1, false); },
                  [](stage& s) { return s.member_cable(1, true); }};
  what.lasts = 600ms;
  play(d, what);
  CHECK(d.seen.events[0].empty());
  mend_and_go_on(d);
}
