// SPDX-License-Identifier: Apache-2.0
// What an agenda hands out, and when it is through.
#include "drill/fault_agenda.hpp"

#include "drill/format/read.hpp"

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace actor_rdma::drill;
using namespace std::chrono_literals;

namespace {

struct flow_stub {
  traffic_spec what;
  std::uint64_t so_many = 0;
  const traffic_spec& spec() const noexcept { return what; }
  std::uint64_t ended() const noexcept { return so_many; }
};

} // namespace

TEST_CASE("faults are handed out with their times, at once, or when enough transfers have ended") {
  const auto read = parse_scenario(R"({ "id": "x", "title": "y", "hosts": [{ "name": "a" }, { "name": "b" }],
    "traffic": [{ "name": "p", "from": "a", "to": "b" }, { "name": "q", "from": "b", "to": "a" }],
    "faults": [
      { "at_ms": 0, "kind": "link_down", "device": "a/soft0" },
      { "at_ms": 5, "kind": "hang", "device": "a/soft0", "times": 2, "every_ms": 10, "for_ms": 1 },
      { "after_completions": 3, "traffic": "q", "kind": "heal", "device": "a/soft0" }] })");
  REQUIRE(read.has_value());
  run_facts facts;
  fault_agenda agenda(*read, facts);
  base::rng random{1};
  std::vector<base::duration> times;
  const auto at_once = agenda.plan(random, [&](base::duration due, const fault_spec& f) {
    CHECK(&f == &read->faults[1]);
    times.push_back(due);
  });
  CHECK(at_once == std::vector{&read->faults[0]});
  CHECK(times == std::vector<base::duration>{5ms, 15ms});
  CHECK_FALSE(agenda.only_counted_are_left());

  agenda.begins(read->faults[0]);
  agenda.begins(read->faults[1]);
  agenda.begins(read->faults[1]);
  agenda.is_undone();
  CHECK_FALSE(agenda.only_counted_are_left());
  agenda.is_undone();
  CHECK(agenda.only_counted_are_left());
  CHECK_FALSE(agenda.is_through());

  std::vector<flow_stub> flows{{read->traffic[0], 9}, {read->traffic[1], 2}};
  CHECK(agenda.take_counted(flows).empty());
  CHECK(agenda.never_happened().find("never happened: fewer than 3 transfers ended") != std::string::npos);
  flows[1].so_many = 3;
  CHECK(agenda.take_counted(flows) == std::vector{&read->faults[2]});
  CHECK(agenda.never_happened().empty());
  agenda.begins(read->faults[2]);
  CHECK(agenda.is_through());
}
