// SPDX-License-Identifier: Apache-2.0
//
// Rows of the behaviour table: ports, cables, silent loss, and peers that are gone.
#include "tests/kernel/behaviour/duo.hpp"
#include "tests/kernel/behaviour/rows.hpp"

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace actor_rdma::tests::kernel;
using namespace std::chrono_literals;

namespace {

ibv_port_state port_state(const rig::end& e) {
  const auto port = e.ctx.query_port(1);
  REQUIRE(port);
  return port->state;
}

stage::done lose_everything(stage& on, bool is_on) {
  const auto there = on.loss(side::b, true, is_on);
  const auto back = on.loss(side::b, false, is_on);
  return !there ? there : back;
}

fault_play silent(const char* row) {
  return {row, [](stage& s) { return lose_everything(s, true); },
          [](stage& s) { return lose_everything(s, false); }};
}

} // namespace

TEST_CASE("links: the own port is taken down") {
  duo d;
  bool was_down = false;
  play(d, {"own port taken down", [](stage& s) { return s.admin(side::a, false); },
           [&](stage& s) {
             CHECK(d.run(false, 1s, [&] { return d.seen.saw(side::a, IBV_EVENT_PORT_ERR); }));
             was_down = port_state(d.a()) == IBV_PORT_DOWN;
             CHECK(!d.seen.saw(side::a, IBV_EVENT_GID_CHANGE));
             return s.admin(side::a, true);
           }});
  CHECK(was_down);
  CHECK(d.run(false, 2s, [&] { return d.seen.saw(side::a, IBV_EVENT_PORT_ACTIVE); }));
  CHECK(port_state(d.a()) == IBV_PORT_ACTIVE);
  mend_and_go_on(d);
}

TEST_CASE("links: the own cable is cut") {
  duo d;
  play(d, {"own cable cut", [](stage& s) { return s.cable(side::a, false); },
           [&](stage& s) {
             // The queue pair may be dead before the port says so.
             CHECK(d.run(false, 1s, [&] { return d.seen.saw(side::a, IBV_EVENT_PORT_ERR); }));
             CHECK(port_state(d.a()) == IBV_PORT_DOWN);
             CHECK(!d.seen.saw(side::b, IBV_EVENT_PORT_ERR));
             return s.cable(side::a, true);
           }});
  CHECK(d.run(false, 2s, [&] { return d.seen.saw(side::a, IBV_EVENT_PORT_ACTIVE); }));
  mend_and_go_on(d);
}

TEST_CASE("links: the peer's cable is cut, and nothing tells of it here") {
  duo d;
  play(d, {"peer's cable cut", [](stage& s) { return s.cable(side::b, false); },
           [&](stage& s) {
             CHECK(port_state(d.a()) == IBV_PORT_ACTIVE);
             CHECK(d.seen.events[0].empty());
             CHECK(d.seen.saw(side::b, IBV_EVENT_PORT_ERR));
             CHECK(d.b().state() == IBV_QPS_RTS);
             return s.cable(side::b, true);
           }});
  mend_and_go_on(d);
}

TEST_CASE("links: the peer's cable flaps, shorter than the retries last") {
  duo d;
  fault_play what{"peer's cable cut for 300 ms", [](stage& s) { return s.cable(side::b, false); },
                  [](stage& s) { return s.cable(side::b, true); }};
  what.lasts = 300ms;
  play(d, what);
  CHECK(d.seen.events[0].empty());
  mend_and_go_on(d);
}

TEST_CASE("links: packets are lost silently") {
  duo d;
  SUBCASE("both ways") {
    play(d, silent("everything lost silently"));
  }
  SUBCASE("those of requests") {
    play(d, {"requests lost silently", [](stage& s) { return s.loss(side::b, true, true); },
             [](stage& s) { return s.loss(side::b, true, false); }});
  }
  SUBCASE("those of answers") {
    play(d, {"answers lost silently", [](stage& s) { return s.loss(side::b, false, true); },
             [](stage& s) { return s.loss(side::b, false, false); }});
  }
  CHECK(d.seen.events[0].empty());
  CHECK(d.seen.events[1].empty());
  mend_and_go_on(d);
}

TEST_CASE("links: retries take the time that was asked for") {
  auto options = usual_options();
  options.timeout = 16;
  duo d{options};
  auto what = silent("everything lost silently, time-out 268 ms");
  what.lasts = 3 * patience(options);
  play(d, what);
  REQUIRE(d.seen.first_error);
  const auto took = *d.seen.first_error - d.seen.last_success;
  CHECK(took >= patience(options) / 3); // a guest that was stopped for a while has used up a retry or two
  CHECK(took <= 3 * patience(options));
  mend_and_go_on(d);
}

TEST_CASE("links: seven retries are as many on the software NIC, and endless on rxe") {
  auto options = usual_options();
  options.retry_cnt = 7;
  duo d{options};
  play(d, silent("everything lost silently, 7 retries"));
  mend_and_go_on(d);
}

TEST_CASE("links: without a time-out nothing is ever sent again by itself") {
  auto options = usual_options();
  options.timeout = 0;
  duo d{options};
  REQUIRE(play(d, silent("everything lost silently, no time-out")) == "stuck");
  // The request behind the gap makes the peer ask for what is missing.
  REQUIRE(d.post_one() == 0);
  const bool all = d.run(false, 2s, [&] { return d.outstanding() == 0 || !d.seen.errors.empty(); }) &&
                   d.seen.errors.empty();
  check_row(d.on().where(), "no time-out, healed, one more request", all ? "held" : "stuck",
            describe(d.seen));
  mend_and_go_on(d);
}

TEST_CASE("links: the peer's queue pair is gone") {
  auto options = usual_options();
  const char* row = nullptr;
  bool is_destroyed = true;
  SUBCASE("destroyed") {
    row = "peer's queue pair destroyed";
  }
  SUBCASE("in ERR") {
    row = "peer's queue pair moved to ERR";
    is_destroyed = false;
  }
  SUBCASE("destroyed, with seven retries") {
    row = "peer's queue pair destroyed, 7 retries";
    options.retry_cnt = 7;
  }
  duo d{options};
  play(d, {row,
           [&](stage&) {
             if (is_destroyed)
               return d.b().qp.destroy();
             to_state(d.b(), IBV_QPS_ERR);
             return stage::done{};
           },
           [](stage&) { return stage::done{}; }});
  CHECK(d.seen.events[0].empty());
  if (is_destroyed)
    d.b().make_qp();
  mend_and_go_on(d);
}
