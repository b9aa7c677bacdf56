// SPDX-License-Identifier: Apache-2.0
// That the first connection of a QP is no rebuild, and that other watchers still hear of everything.
#include "bench/health.hpp"

#include "bench/event_collector.hpp"

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace actor_rdma::bench;
using observe::event_kind;

namespace {

observe::event transition(const char* subject) {
  observe::event e;
  e.kind = event_kind::transition;
  e.subject = subject;
  e.from = "REBUILDING";
  e.to = "ACTIVE";
  return e;
}

} // namespace

TEST_CASE("a QP that is made is no rebuild and one that is made again is") {
  health_watch watch;
  watch.on_event(transition("a/soft0>b/soft0#0"));
  watch.on_event(transition("a/soft0>b/soft0#1"));
  watch.on_event(transition("a/soft0>b/soft0")); // the endpoint
  watch.on_event(transition("a/soft0>b/soft0"));
  CHECK(watch.so_far().rebuilt == 0);
  watch.on_event(transition("a/soft0>b/soft0#1"));
  CHECK(watch.so_far().rebuilt == 1);
}

TEST_CASE("each kind of trouble is counted and handed on") {
  const auto next = std::make_shared<event_collector>();
  health_watch watch(next);
  for (const auto kind : {event_kind::stall_suspected, event_kind::false_alarm, event_kind::fenced,
                          event_kind::wr_error, event_kind::peer_lost, event_kind::device_lost}) {
    observe::event e;
    e.kind = kind;
    watch.on_event(e);
  }
  observe::event gap;
  gap.kind = event_kind::lane_gap;
  for (const auto ns : {20'000'000u, 70'000'000u, 30'000'000u}) {
    gap.value = ns;
    watch.on_event(gap);
  }
  CHECK(to_text(watch.so_far()) ==
        "1 QPs suspected (1 false alarms), 1 WR errors, 1 QPs fenced, 0 rebuilt, 1 peers and "
        "1 devices lost, longest lane gap 70 ms");
  CHECK(next->take().size() == 9);
}
