// SPDX-License-Identifier: Apache-2.0
// The machines as documents: every table's matrix and graph must be what docs/states shows. A change of
// behaviour is then a change of text that a reviewer sees. ACTOR_RDMA_WRITE_STATES=1 writes the files anew.
#include "actors/machines.hpp"

#include "base/state_table_render.hpp"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>

using namespace actor_rdma;
using namespace actor_rdma::actors;

namespace {

void compare(const std::string& file, const std::string& now) {
  const auto path = fmt::format("{}/docs/states/{}", ACTOR_RDMA_SOURCE_DIR, file);
  if (std::getenv("ACTOR_RDMA_WRITE_STATES") != nullptr)
    std::ofstream{path} << now;
  std::ifstream in{path};
  const std::string documented{std::istreambuf_iterator<char>{in}, {}};
  CHECK_MESSAGE(documented == now,
                file << " is not what the table says: run with ACTOR_RDMA_WRITE_STATES=1 and review it");
}

template <class Table>
void compare_all(const std::string& name, const Table& table) {
  const base::table_names<Table> names{to_string, to_string, to_string};
  compare(fmt::format("{}.txt", name), base::render_matrix(table, names));
  compare(fmt::format("{}.dot", name), base::render_dot(table, names, name));
}

} // namespace

TEST_CASE("the documents show the machines as they are") {
  compare_all("device", device_machine);
  compare_all("endpoint", endpoint_machine);
  compare_all("qp", qp_machine);
  compare_all("session", session_machine);
}

TEST_CASE("a QP that is below RTS is destroyed when it is retired, and drains otherwise") {
  CHECK(qp_machine.lookup(qp_state::rebuilding, qp_event::retire).act == qp_action::destroy);
  CHECK(qp_machine.lookup(qp_state::active, qp_event::retire).act == qp_action::drain);
  CHECK(qp_machine.lookup(qp_state::paused, qp_event::retire).act == qp_action::drain);
}

TEST_CASE("no state but RETIRED ignores the event that ends it") {
  for (const auto s :
       {qp_state::active, qp_state::paused, qp_state::rebuilding}) // (a draining QP goes already)
    CHECK_FALSE(qp_machine.lookup(s, qp_event::retire).is_ignored());
  for (const auto s : {endpoint_state::active, endpoint_state::paused, endpoint_state::rebuilding})
    CHECK_FALSE(endpoint_machine.lookup(s, endpoint_event::drain).is_ignored());
  for (const auto s : {device_state::active, device_state::paused, device_state::rebuilding})
    CHECK_FALSE(device_machine.lookup(s, device_event::drain).is_ignored());
}

TEST_CASE("a recorded machine keeps what happened, with causes, for its snapshot") {
  const base::time_point t0{std::chrono::seconds{1}};
  recorded_machine<qp_machine> m(qp_state::rebuilding, t0);
  m.apply(qp_event::ready, t0 + std::chrono::milliseconds{1});
  m.apply(qp_event::fenced, t0 + std::chrono::milliseconds{2}); // means nothing here
  m.apply(qp_event::stall, t0 + std::chrono::milliseconds{3});
  observe::actor_snapshot s;
  m.fill(s, t0 + std::chrono::milliseconds{10});
  CHECK(s.state == "PAUSED");
  CHECK(s.age == std::chrono::milliseconds{7});
  CHECK(s.ignored_events == 1);
  REQUIRE(s.last.size() == 2);
  CHECK(s.last[0].from == "REBUILDING");
  CHECK(s.last[0].to == "ACTIVE");
  CHECK(s.last[1].event == "stall");
}
