// SPDX-License-Identifier: Apache-2.0
// The faults of a run in real time, and when each of them is due.
#include "drill/checks/expectations.hpp"
#include "drill/real/real_play.hpp"

#include <utility>

namespace actor_rdma::drill {

namespace {

using namespace std::chrono_literals;

/// A process that was started again is ready long before this.
constexpr auto start_patience = 5s;
constexpr auto start_look = 5ms;

} // namespace

void real_play::plan() {
  for (auto& f : flows_)
    loop_.at(zero_ + f.spec().start, [&f] { f.begin(); });
  sample_bytes({});
  for (const auto t : sample_times(what_))
    if (t.count() > 0)
      loop_.at(zero_ + t, [this, t] { sample_bytes(t); });
  const auto at_once = agenda_.plan(random_, [&](base::duration due, const fault_spec& f) {
    loop_.at(zero_ + due, [this, &f, due] { begin_fault(f, zero_ + due); });
  });
  for (const auto* f : at_once) // before the traffic of 0 ms
    begin_fault(*f, zero_);
}

/// A process that has just been started again has no devices yet: what befalls it or one of them waits.
bool real_play::waits_for_process(const fault_spec& what, bool undo, base::time_point since,
                                  std::function<void()> again) {
  const auto name = agenda_.host_of(what, undo);
  if (name.empty())
    return false;
  const auto& host = stage_.host(name);
  const bool is_starting = host.is_there() && !host.is_alive();
  if (!is_starting || loop_.now() - since >= start_patience)
    return false;
  loop_.at(loop_.now() + start_look, std::move(again));
  return true;
}

void real_play::begin_fault(const fault_spec& what, base::time_point since) {
  if (waits_for_process(what, false, since, [this, &what, since] { begin_fault(what, since); }))
    return;
  const bool has_waited = loop_.now() - since >= start_look;
  const auto began = has_waited ? loop_.now() : since; // a loop that is late by a little changes no order
  agenda_.begins(what);
  do_fault(what, false);
  if (!what.lasts)
    return;
  const auto due = began + *what.lasts;
  loop_.at(due, [this, &what, due] { end_fault(what, due); });
}

void real_play::end_fault(const fault_spec& what, base::time_point since) {
  if (waits_for_process(what, true, since, [this, &what, since] { end_fault(what, since); }))
    return;
  agenda_.is_undone();
  do_fault(what, true);
}

/// What rails carried before it says nothing.
void real_play::was_last_fault(base::duration at) {
  facts_.last_fault = at;
  for (auto& r : rails_)
    r.carried.reset();
}

void real_play::do_fault(const fault_spec& what, bool undo) {
  const auto at = now(); // what is done takes effect at once or later, never before
  trace(at, "fault: " + agenda_.trace_words(what, undo, stage_));
  if (const auto why_not = agenda_.act(what, undo, stage_, at); !why_not.empty())
    fail(why_not);
  was_last_fault(now());
  if (agenda_.is_through())
    watch_rails();
}

void real_play::batch_ended() {
  for (const auto* f : agenda_.take_counted(flows_)) // not from inside what a host has told
    loop_.at(loop_.now(), [this, f] { begin_fault(*f, loop_.now()); });
}

} // namespace actor_rdma::drill
