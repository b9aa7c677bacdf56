// SPDX-License-Identifier: Apache-2.0
//
// Rows of the behaviour table: requests that are wrong, receivers that are not ready, and what the states of
// a queue pair do to its work.
#include "tests/kernel/behaviour/duo.hpp"
#include "tests/kernel/behaviour/rows.hpp"

#include <algorithm>

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace actor_rdma::tests::kernel;
using namespace std::chrono_literals;

namespace {

/// A queue pair whose requests stay out: nothing comes back, and its patience is long.
duo stuck_duo() {
  auto options = usual_options();
  options.timeout = 18; // a second
  return duo{options};
}

void cut_and_post(duo& d, int requests) {
  REQUIRE(d.on().cable(side::b, false));
  d.run(false, 100ms);
  for (int i = 0; i < requests; ++i)
    REQUIRE(d.post_one() == 0);
  d.run(false, 100ms);
  REQUIRE(d.outstanding() == static_cast<std::size_t>(requests));
}

/// The first status; all behind it have to be flushes.
std::string first_of(const std::vector<ibv_wc_status>& all, std::size_t expected) {
  CHECK(all.size() == expected);
  if (all.empty())
    return "nothing";
  CHECK(std::all_of(all.begin() + 1, all.end(), [](auto s) { return s == IBV_WC_WR_FLUSH_ERR; }));
  return name_of(all.front());
}

} // namespace

TEST_CASE("errors: a key that the peer does not have, and memory that it has given up") {
  duo d;
  auto to = d.where(side::b);
  const char* row = "WRITE with a wrong key";
  SUBCASE("a WRITE with a wrong key") {
    to.rkey ^= 0x5500;
    REQUIRE(d.a().write(1, to, 0, 0, duo::bytes) == 0);
  }
  SUBCASE("a READ of memory that was deregistered") {
    row = "READ of memory that was deregistered";
    REQUIRE(d.b().mr.destroy());
    REQUIRE(d.a().read(1, to, 0, 0, duo::bytes) == 0);
  }
  for (std::uint64_t i = 2; i < 5; ++i)
    REQUIRE(d.a().write(i, to, 0, 0, duo::bytes) == 0);
  check_row(d.on().where(), row, first_of(d.completions(4), 4));
  d.run(false, 100ms);
  check_row(
      d.on().where(), "the peer's queue pair after it",
      std::string{d.b().state() == IBV_QPS_ERR ? "ERR" : "not in ERR"} +
          (d.seen.events[1].empty() ? " without an event" : " and " + name_of(d.seen.events[1].front())));
}

TEST_CASE("errors: a request reaches beyond the own memory") {
  duo d;
  REQUIRE(d.a().write(1, d.where(side::b), rig::buffer_bytes - 100, 0, duo::bytes) == 0);
  REQUIRE(d.a().write(2, d.where(side::b), 0, 0, duo::bytes) == 0);
  check_row(d.on().where(), "request beyond the own memory", first_of(d.completions(2), 2));
  CHECK(d.a().state() == IBV_QPS_ERR);
}

TEST_CASE("errors: a SEND finds no receive") {
  auto options = usual_options();
  const char* row = nullptr;
  SUBCASE("no retry") {
    options.rnr_retry = 0;
    row = "SEND without a receive, no retry";
  }
  SUBCASE("three retries") {
    options.rnr_retry = 3;
    row = "SEND without a receive, 3 retries";
  }
  SUBCASE("seven, which is endless") {
    options.rnr_retry = 7;
    row = "SEND without a receive, 7 retries";
  }
  duo d{options};
  REQUIRE(d.a().send(1, 0, 64) == 0);
  const auto first = d.completions(1, 500ms);
  if (!first.empty()) {
    check_row(d.on().where(), row, first_of(first, 1));
    return;
  }
  REQUIRE(d.b().receive(1, 0, 64) == 0);
  const auto second = d.completions(1);
  check_row(d.on().where(), row, second == std::vector{IBV_WC_SUCCESS} ? "held" : "stuck");
}

TEST_CASE("errors: moving a queue pair to ERR gives back everything that is out") {
  auto d = stuck_duo();
  cut_and_post(d, 8);
  to_state(d.a(), IBV_QPS_ERR);
  const auto all = d.completions(8, 1s);
  check_row(d.on().where(), "to ERR with requests that are out",
            all == std::vector<ibv_wc_status>(8, IBV_WC_WR_FLUSH_ERR) ? "flushed" : "not all flushed");
}

TEST_CASE("errors: a reset forgets what is out, and the queue pair can be used again") {
  auto d = stuck_duo();
  cut_and_post(d, 8);
  to_state(d.a(), IBV_QPS_RESET);
  check_row(d.on().where(), "to RESET with requests that are out",
            d.completions(1, 300ms).empty() ? "no completion" : "completions");
  REQUIRE(d.on().cable(side::b, true));
  d.renew();
  d.run(false, 300ms);
  REQUIRE(d.try_connect() == 0);
  to_state(d.a(), IBV_QPS_RESET);
  to_state(d.b(), IBV_QPS_RESET);
  REQUIRE(d.try_connect() == 0); // the same queue pairs
  d.forget();
  CHECK(d.traffic_flows());
}

TEST_CASE("errors: what a post in a wrong state says") {
  duo d;
  d.renew();
  const auto post = [&] { return errno_name(d.a().write(1, d.where(side::b), 0, 0, 64)); };
  check_row(d.on().where(), "post in RESET", post());
  REQUIRE(d.a().to_init() == 0);
  check_row(d.on().where(), "post in INIT", post());
  d.renew();
  REQUIRE(d.try_connect() == 0);
  to_state(d.a(), IBV_QPS_ERR);
  check_row(d.on().where(), "post in ERR", post());
  CHECK(first_of(d.completions(1), 1) == "WR_FLUSH_ERR");
}

TEST_CASE("errors: a send queue that is full says so") {
  auto d = stuck_duo();
  cut_and_post(d, 0);
  int error = 0;
  std::size_t accepted = 0;
  while (error == 0 && accepted < 4096) {
    error = d.post_one();
    accepted += error == 0;
  }
  check_row(d.on().where(), "post to a full send queue", errno_name(error),
            std::to_string(accepted) + " were accepted");
  CHECK(accepted >= d.a().options.max_send_wr);
  to_state(d.a(), IBV_QPS_ERR);
  CHECK(d.run(false, 2s, [&] { return d.outstanding() == 0; }));
}

TEST_CASE("errors: RTR towards a peer that cannot be reached") {
  duo d;
  d.renew();
  REQUIRE(d.a().to_init() == 0);
  auto peer = d.where(side::b);
  const char* row = nullptr;
  SUBCASE("nobody has the address") {
    row = "RTR to an address that nobody has";
    peer.gid = d.on().nobody();
  }
  SUBCASE("no way leads there") {
    row = "RTR to where no way leads";
    peer.gid = d.on().far_away();
  }
  SUBCASE("the own port is down") {
    row = "RTR with the own port down";
    REQUIRE(d.on().admin(side::a, false));
    d.run(false, 50ms);
  }
  const auto begin = d.on().now();
  const int error = d.a().to_rtr(peer);
  const auto took = d.on().now() - begin;
  check_row(d.on().where(), row, errno_name(error), std::to_string(took / 1ms) + " ms");
  CHECK(took < 5s);
}
