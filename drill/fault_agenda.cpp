// SPDX-License-Identifier: Apache-2.0
// Planning, counting and writing down.
#include "drill/fault_agenda.hpp"

#include "drill/fault_kinds.hpp"

#include <chrono>

#include <fmt/format.h>

namespace actor_rdma::drill {

std::vector<const fault_spec*>
fault_agenda::plan(base::rng& random, const std::function<void(base::duration, const fault_spec&)>& later) {
  std::vector<const fault_spec*> at_once;
  for (const auto& f : what_.faults) {
    pending_ += f.times;
    if (f.after_completions) {
      counted_.emplace_back(&f, *f.after_completions);
      continue;
    }
    for (std::uint64_t i = 0; i < f.times; ++i) {
      const auto due = *f.at + f.every * static_cast<std::int64_t>(i) +
                       base::duration{static_cast<std::int64_t>(
                           random.below(static_cast<std::uint64_t>(f.spread.count()) + 1))};
      if (due.count() == 0)
        at_once.push_back(&f);
      else
        later(due, f);
    }
  }
  return at_once;
}

void fault_agenda::begins(const fault_spec& what) noexcept {
  --pending_;
  undone_ += what.lasts ? 1 : 0;
}

std::string fault_agenda::words(const fault_spec& what, bool undo) {
  return (undo ? "over: " : "") + find_fault_kind(what.kind)->words(what);
}

std::string fault_agenda::host_of(const fault_spec& what, bool undo) const {
  const auto* kind = find_fault_kind(what.kind);
  if ((undo ? kind->undo_needs : kind->needs) == process_need::none)
    return {};
  if (!what.host.empty())
    return what.host;
  if (!what.device.empty())
    return drill::host_of(what.device);
  for (const auto& t : what_.traffic)
    if (t.name == what.traffic)
      return t.to;
  return {};
}

std::string fault_agenda::void_because(const fault_spec& what, bool undo, const stage& on) const {
  const auto* kind = find_fault_kind(what.kind);
  const auto host = host_of(what, undo);
  if (host.empty())
    return {};
  const auto process = on.process_of(host);
  if (undo) {
    const auto begun = begun_in_.at(&what).front();
    if (!begun)
      return "it did not begin";
    if (*begun != process.life)
      return "the process on " + host + " is another one now";
  }
  const auto need = undo ? kind->undo_needs : kind->needs;
  if (process.is_there == (need == process_need::gone))
    return "the process on " + host + (process.is_there ? " is there" : " is gone");
  if ((need == process_need::running && process.is_frozen) ||
      (need == process_need::stopped && !process.is_frozen))
    return "the process on " + host + (process.is_frozen ? " is stopped" : " runs");
  return {};
}

std::string fault_agenda::trace_words(const fault_spec& what, bool undo, const stage& on) const {
  const auto why = void_because(what, undo, on);
  return words(what, undo) + (why.empty() ? "" : ": befalls nothing, " + why);
}

std::string fault_agenda::act(const fault_spec& what, bool undo, stage& on, base::duration at) {
  const auto* kind = find_fault_kind(what.kind);
  const auto why_void = void_because(what, undo, on);
  if (undo) {
    begun_in_.at(&what).pop_front();
  } else if (what.lasts) {
    const auto host = host_of(what, false);
    begun_in_[&what].push_back(!why_void.empty() ? std::nullopt
                               : host.empty()    ? std::optional<std::uint64_t>{0}
                                                 : std::optional{on.process_of(host).life});
  }
  if (!why_void.empty()) {
    facts_.void_faults.push_back(
        {at, words(what, undo), static_cast<std::size_t>(&what - what_.faults.data()), undo, why_void});
    return {};
  }
  const auto done = (undo ? kind->undo : kind->apply)(what, on);
  facts_.faults.push_back(
      {at, words(what, undo), static_cast<std::size_t>(&what - what_.faults.data()), undo});
  return done ? ""
              : fmt::format("fault \"{}\" at {} ms cannot be done: {}", words(what, undo),
                            at / std::chrono::milliseconds{1}, done.error().to_string());
}

std::string fault_agenda::never_happened() const {
  if (counted_.empty())
    return {};
  const auto& [fault, n] = counted_.front();
  return fmt::format("fault \"{}\" never happened: fewer than {} transfers ended", words(*fault, false), n);
}

} // namespace actor_rdma::drill
