// SPDX-License-Identifier: Apache-2.0
//
// With a rule, the software NIC does at its own port what rdma_rxe does: it has to keep to the kernel's
// column of the behaviour table then.
#include "tests/kernel/behaviour/duo.hpp"
#include "tests/kernel/behaviour/rows.hpp"

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace actor_rdma::tests::kernel;

namespace {

std::string play_as(world kernel, const char* rule, const char* row) {
  duo d{usual_options(), open_soft_stage(false, rule, kernel)};
  auto outcome = play(d, {row, [](stage& s) { return s.admin(side::a, false); },
                          [](stage& s) { return s.admin(side::a, true); }});
  mend_and_go_on(d);
  return outcome;
}

} // namespace

TEST_CASE("likeness: the software NIC can fail, hang, hold and flush at its own port as rxe does") {
  CHECK(play_as(world::rxe_6_1, "dev=a link=down do=status:LOC_QP_OP_ERR", "own port taken down") == "dies");
  CHECK(play_as(world::rxe_6_1, "dev=a link=down do=hang", "own port taken down") == "stuck");
  CHECK(play_as(world::rxe_6_1, "dev=a link=down do=hold", "own cable cut") == "held");
  CHECK(play_as(world::rxe_6_12, "dev=a link=down do=status:WR_FLUSH_ERR", "own port taken down") == "dies");
}
