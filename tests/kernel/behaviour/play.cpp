// SPDX-License-Identifier: Apache-2.0
//
// One thing that breaks while traffic flows, and everything that has to hold after it.
#include "tests/kernel/behaviour/duo.hpp"
#include "tests/kernel/behaviour/rows.hpp"

#include <algorithm>
#include <cstring>
#include <future>

#include <doctest/doctest.h>
#include <fmt/format.h>

namespace actor_rdma::tests::kernel {

using namespace std::chrono_literals;

namespace {

void must(const stage::done& done) {
  REQUIRE_MESSAGE(done, (done ? "" : done.error().to_string()));
}

/// Under work, which is out when it happens. In real time it goes on meanwhile.
void break_it(duo& d, const fault_play& what) {
  while (d.outstanding() < duo::depth)
    REQUIRE(d.post_one() == 0);
  if (!d.on().is_in_real_time())
    return must(what.breaks(d.on()));
  auto broken = std::async(std::launch::async, [&] { return what.breaks(d.on()); });
  d.run(true, 10s, [&] { return broken.wait_for(0s) == std::future_status::ready; });
  must(broken.get());
}

bool is_dead(const std::string& outcome) {
  return outcome == "dies" || outcome == "gives up";
}

/// All errors but the first one, which may name a cause, are flushes, and nothing stays out.
void check_dead(duo& d) {
  CHECK(d.run(false, 1s, [&] { return d.outstanding() == 0; }));
  CHECK(std::all_of(d.seen.errors.begin() + 1, d.seen.errors.end(),
                    [](auto status) { return status == IBV_WC_WR_FLUSH_ERR; }));
  CHECK(d.a().state() == IBV_QPS_ERR);
  const auto errors = d.seen.errors.size();
  CHECK(d.post_one() == 0); // accepted, and flushed at once
  CHECK(d.run(false, 1s, [&] { return d.outstanding() == 0; }));
  CHECK(d.seen.errors.size() == errors + 1);
  CHECK(d.seen.errors.back() == IBV_WC_WR_FLUSH_ERR);
}

} // namespace

std::string play(duo& d, const fault_play& what) {
  d.forget();
  REQUIRE(d.traffic_flows());
  break_it(d, what);
  const auto broken_at = d.on().now();
  d.run(true, 200ms, [&] { return !d.seen.errors.empty(); });
  const auto early = d.seen.successes;
  if (d.seen.errors.empty())
    CHECK(d.post_one() == 0); // nobody is told that it will not arrive
  d.run(false, what.lasts - (d.on().now() - broken_at), [&] { return !d.seen.errors.empty(); });
  const bool goes_on = d.seen.errors.empty() && d.outstanding() == 0;
  const auto late = d.seen.successes;
  std::string outcome = goes_on ? "goes on" : "";
  if (!d.seen.errors.empty()) {
    outcome = d.seen.errors.front() == IBV_WC_RETRY_EXC_ERR ? "gives up" : "dies";
    check_dead(d);
  } else if (!goes_on) {
    CHECK_MESSAGE(late == early, "some of it arrived, and some did not");
  }
  must(what.mends(d.on()));
  if (outcome.empty()) {
    const bool all =
        d.run(false, what.waits_after, [&] { return d.outstanding() == 0 || !d.seen.errors.empty(); });
    outcome = !d.seen.errors.empty() ? "dies when it is mended" : all ? "held" : "stuck";
  }
  check_row(d.on().where(), what.row, outcome, describe(d.seen));
  if (outcome == "held" || outcome == "goes on") {
    CHECK(d.a().state() == IBV_QPS_RTS);
    CHECK_MESSAGE(d.traffic_flows(), "the same queue pair does not go on: " << describe(d.seen));
  } else if (is_dead(outcome)) {
    CHECK(d.a().state() == IBV_QPS_ERR);
  }
  return outcome;
}

void mend_and_go_on(duo& d) {
  // What is stuck comes back by force only.
  if (d.outstanding() > 0) {
    to_state(d.a(), IBV_QPS_ERR);
    CHECK_MESSAGE(d.run(false, 1s, [&] { return d.outstanding() == 0; }),
                  d.outstanding() << " requests were not flushed");
  }
  d.renew();
  std::memset(d.b().memory, 0x5a, rig::buffer_bytes);
  d.run(false, 300ms);
  auto* const end = d.b().memory + rig::buffer_bytes;
  CHECK_MESSAGE(std::all_of(d.b().memory, end, [](auto byte) { return byte == std::byte{0x5a}; }),
                "a byte landed after both queue pairs were destroyed");
  d.forget();
  const auto begin = d.on().now();
  std::string verb;
  int error = 0;
  for (int i = 0; i < 3; ++i) {
    error = d.try_connect(&verb);
    if (error == 0)
      break;
    d.run(false, 500ms);
    d.renew();
  }
  REQUIRE_MESSAGE(error == 0, "new queue pairs cannot be connected: " << verb);
  CHECK(d.traffic_flows());
  CHECK((d.on().now() - begin) < 5s);
}

} // namespace actor_rdma::tests::kernel
