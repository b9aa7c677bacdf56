// SPDX-License-Identifier: Apache-2.0
// The faults of a run in real time, and when each of them is due.
#include "drill/checks/expectations.hpp"
#include "drill/fault_kinds.hpp"
#include "drill/real/real_play.hpp"
#include "drill/set_up.hpp"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

namespace actor_rdma::drill {

namespace {

using namespace std::chrono_literals;

/// A process that was started again has its devices long before this.
constexpr auto start_patience = 5s;
constexpr auto start_look = 5ms;

} // namespace

void real_play::plan() {
  std::vector<const fault_spec*> at_once;
  for (auto& f : flows_)
    loop_.at(zero_ + f.spec().start, [&f] { f.begin(); });
  sample_bytes();
  for (const auto t : sample_times(what_))
    if (t.count() > 0)
      loop_.at(zero_ + t, [this] { sample_bytes(); });
  for (const auto& f : what_.faults) {
    pending_faults_ += f.times;
    if (f.after_completions)
      counted_.emplace_back(&f, *f.after_completions);
    else
      for (const auto due : due_times(f, random_))
        if (due.count() == 0)
          at_once.push_back(&f);
        else
          loop_.at(zero_ + due, [this, &f, due] { plan_fault(f, zero_ + due); });
  }
  for (const auto* f : at_once) // before the traffic of 0 ms
    plan_fault(*f, zero_);
}

/// A process that has just been started again has no devices yet: what befalls one of them waits for it.
bool real_play::waits_for_device(const fault_spec& what, base::time_point since,
                                 std::function<void()> again) {
  const auto devices = stage_.fabric().devices();
  const bool is_there =
      what.device.empty() ||
      std::any_of(devices.begin(), devices.end(), [&](const auto& d) { return d.name == what.device; });
  if (is_there || loop_.now() - since >= start_patience)
    return false;
  loop_.at(loop_.now() + start_look, std::move(again));
  return true;
}

void real_play::plan_fault(const fault_spec& what, base::time_point since) {
  if (waits_for_device(what, since, [this, &what, since] { plan_fault(what, since); }))
    return;
  --pending_faults_;
  undone_faults_ += what.lasts ? 1 : 0; // first: it is not the last thing to happen
  const auto* kind = find_fault_kind(what.kind);
  do_fault(what, kind->apply, "");
  if (!what.lasts)
    return;
  const auto due = loop_.now() + *what.lasts;
  loop_.at(due, [this, &what, due] { end_fault(what, due); });
}

void real_play::end_fault(const fault_spec& what, base::time_point since) {
  if (waits_for_device(what, since, [this, &what, since] { end_fault(what, since); }))
    return;
  --undone_faults_;
  do_fault(what, find_fault_kind(what.kind)->undo, "over: ");
}

void real_play::do_fault(const fault_spec& what,
                         const std::function<base::expected<void>(const fault_spec&, stage&)>& act,
                         const char* prefix) {
  const auto at = now(); // what is done takes effect at once or later, never before
  const auto text = prefix + find_fault_kind(what.kind)->words(what);
  trace(now(), "fault: " + text);
  if (const auto done = act(what, stage_); !done)
    fail(
        fmt::format("fault \"{}\" at {} ms cannot be done: {}", text, now() / 1ms, done.error().to_string()));
  facts_.faults.push_back(
      {at, text, static_cast<std::size_t>(&what - what_.faults.data()), prefix != std::string_view{}});
  facts_.last_fault = now();
  for (auto& r : rails_)
    r.carried.reset();
  if (pending_faults_ == 0 && undone_faults_ == 0)
    watch_rails();
}

void real_play::batch_ended() {
  std::vector<const fault_spec*> due;
  std::erase_if(counted_, [&](const auto& c) {
    std::uint64_t ended = 0;
    for (const auto& f : flows_)
      if (c.first->traffic.empty() || f.spec().name == c.first->traffic)
        ended += f.ended();
    if (ended < c.second)
      return false;
    due.push_back(c.first);
    return true;
  });
  for (const auto* f : due) // not from inside what a host has told
    loop_.at(loop_.now(), [this, f] { plan_fault(*f, loop_.now()); });
}

} // namespace actor_rdma::drill
