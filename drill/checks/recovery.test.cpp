// SPDX-License-Identifier: Apache-2.0
#include "drill/checks/recovery.hpp"

#include <doctest/doctest.h>

namespace actor_rdma::drill {

namespace {

using namespace std::chrono_literals;

transfer_fact transfer(base::duration submitted, base::duration ended, std::uint64_t bytes = 1000) {
  transfer_fact t;
  t.traffic = "main";
  t.from = "a";
  t.to = "b";
  t.bytes = bytes;
  t.submitted = submitted;
  t.ended = ended;
  t.status = transfer_status::completed;
  return t;
}

event_fact event(const char* host, base::duration at, observe::event_kind kind, const char* from = "",
                 const char* to = "") {
  event_fact e;
  e.host = host;
  e.at = at;
  e.what.kind = kind;
  e.what.from = from;
  e.what.to = to;
  return e;
}

/// One transfer each millisecond, but at half that pace from the fault at 1000 ms until `full`.
run_facts a_run(base::duration full) {
  run_facts f;
  f.faults = {{1000ms, "broken", 0, false}, {1200ms, "over: broken", 0, true}};
  for (auto t = 0ms; t < 2000ms; t += t >= 1000ms && t < full ? 2ms : 1ms)
    f.transfers.push_back(transfer(t, t + 1ms));
  return f;
}

} // namespace

TEST_CASE("the first event that tells of the fault counts, of the initiator and after the fault") {
  auto f = a_run(1300ms);
  using kind = observe::event_kind;
  f.events = {event("a", 900ms, kind::stall_suspected),
              event("b", 1001ms, kind::wr_error),
              event("a", 1002ms, kind::transition, "REBUILDING", "ACTIVE"),
              event("a", 1030ms, kind::stall_suspected),
              event("a", 1031ms, kind::reissued),
              event("a", 1150ms, kind::fenced)};
  const auto r = recovery_from(f, 0, "");
  CHECK(r.detected == base::duration{30ms});
  CHECK(r.reissued == base::duration{31ms});
  CHECK(!recovery_from(f, 1, "").detected); // there is no second fault
  CHECK(!recovery_from(f, 0, "other").detected);
}

TEST_CASE("settled is when the last transfer ended that was open at the fault") {
  auto f = a_run(1300ms);
  f.transfers.push_back(transfer(999ms, 1180ms));
  f.transfers.push_back(transfer(1001ms, 1500ms));
  f.transfers.push_back(transfer(10ms, 999ms));
  CHECK(recovery_from(f, 0, "main").settled == base::duration{180ms});
}

TEST_CASE("the full rate is back when a window has 95 % of what there was before") {
  const auto late = recovery_from(a_run(1400ms), 0, "").full_rate;
  REQUIRE(late);
  CHECK(*late >= 190ms); // 200 ms after the heal, less the 5 %
  CHECK(*late <= 202ms);
  CHECK(recovery_from(a_run(1100ms), 0, "").full_rate == base::duration{0});
  CHECK(!recovery_from(a_run(3000ms), 0, "").full_rate);
}

TEST_CASE("a gap of the machine voids what was measured in it only") {
  auto f = a_run(1300ms);
  f.transfers.push_back(transfer(999ms, 1100ms));
  f.machine_gaps = {{1101ms, 10ms}};
  CHECK(!is_void(f, 0, ""));
  f.machine_gaps = {{990ms, 11ms}};
  CHECK(is_void(f, 0, ""));
  f.machine_gaps = {{1050ms, 6ms}};
  CHECK(is_void(f, 0, ""));
}

} // namespace actor_rdma::drill
