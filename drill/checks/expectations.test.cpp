// SPDX-License-Identifier: Apache-2.0
// Figures of expectations that are more than a count.
#include "drill/checks/expectations.hpp"

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace actor_rdma::drill;
using namespace std::chrono_literals;

TEST_CASE("the most slices that one rail re-issued within a window: rails are apart, and so are windows") {
  run_facts f;
  const auto reissue = [&](base::duration at, const char* qp, std::uint64_t slices) {
    event_fact x;
    x.host = "a";
    x.at = at;
    x.what.kind = observe::event_kind::reissued;
    x.what.subject = qp;
    x.what.value = slices;
    f.events.push_back(x);
  };
  const auto* const kind = find_expect_kind("reissued_slices");
  REQUIRE(kind != nullptr);
  expect_spec e;
  CHECK(kind->figure(e, f) == 0);
  reissue(100ms, "a/soft0>b/soft0#0", 3);
  reissue(300ms, "a/soft1>b/soft1#0", 6); // another rail
  reissue(600ms, "a/soft0>b/soft0#1", 4); // the same rail
  reissue(1100ms, "a/soft0>b/soft0#0", 2);
  CHECK(kind->figure(e, f) == 7);
  e.window = 1001ms;
  CHECK(kind->figure(e, f) == 9);
  e.window = 100ms;
  CHECK(kind->figure(e, f) == 6);
  e.subject = "a/soft0";
  CHECK(kind->figure(e, f) == 4);
  e.host = "b";
  CHECK(kind->figure(e, f) == 0);
}

TEST_CASE("the longest gap of a lane does not count what the machine is to blame for") {
  run_facts f;
  const auto gap = [&](base::duration at, base::duration lasted) {
    event_fact x;
    x.host = "a";
    x.at = at;
    x.what.kind = observe::event_kind::lane_gap;
    x.what.value = static_cast<std::uint64_t>(lasted.count());
    f.events.push_back(x);
  };
  const auto* const kind = find_expect_kind("lane_gap_ms");
  REQUIRE(kind != nullptr);
  expect_spec e;
  CHECK(kind->figure(e, f) == 0);
  gap(1000ms, 40ms);
  gap(2000ms, 300ms); // 1700 to 2000 ms
  CHECK(kind->figure(e, f) == 300);
  f.machine_gaps.push_back({1650ms, 100ms}); // its second half is meant
  f.machine_gaps.push_back({1900ms, 20ms});
  f.machine_gaps.push_back({2500ms, 400ms});
  CHECK(kind->figure(e, f) == 230);
  e.before = 1500ms;
  CHECK(kind->figure(e, f) == 40);
  e.host = "b";
  CHECK(kind->figure(e, f) == 0);
}
