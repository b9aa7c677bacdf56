// SPDX-License-Identifier: Apache-2.0
//
// Reading the rules again, counting, recording.
#include "verbs/soft/rules/rule_book.hpp"

#include "verbs/soft/rules/rule_table.hpp"
#include "verbs/soft/tables.hpp"

#include <algorithm>

namespace actor_rdma::verbs::soft {

namespace {

/// Regions may have terabytes: no overflow.
nanos time_for(const rule& r, std::uint64_t bytes) noexcept {
  if (r.per == 0)
    return r.time;
  const double all = static_cast<double>(r.time) * (static_cast<double>(bytes) / static_cast<double>(r.per));
  return static_cast<nanos>(std::min(all, 1e18));
}

} // namespace

std::shared_ptr<const live_rules> rule_book::current() {
  std::lock_guard lock{mutex_};
  const auto now = tables_.head.rules_epoch.load(std::memory_order_seq_cst);
  if (now == seen_epoch_.load(std::memory_order_relaxed))
    return rules_;
  auto fresh = std::make_shared<live_rules>();
  std::uint64_t verbs = 0;
  for (auto& stored : stored_rules(tables_))
    if (auto what = parse_rule(stored.text); what) { // what another build wrote is not ours to judge
      verbs |= what->verbs;
      fresh->push_back({stored.id, stored.slot, stored.added_at, std::move(*what)});
    }
  rules_ = std::move(fresh);
  verbs_.store(verbs, std::memory_order_relaxed);
  seen_epoch_.store(now, std::memory_order_release);
  return rules_;
}

bool rule_book::hits(const live_rule& r, nanos now) noexcept {
  if (!is_in_time(r.what, now - r.added_at))
    return false;
  auto& slot = tables_.rules[r.slot];
  if (slot.id.load(std::memory_order_relaxed) != r.id)
    return false; // removed meanwhile, and its place taken
  const auto n = slot.matches.fetch_add(1, std::memory_order_relaxed) + 1;
  if (!fires(r.what, n, tables_.head.seed + r.id))
    return false;
  auto before = slot.hits.load(std::memory_order_relaxed);
  do {
    if (before >= r.what.count)
      return false;
  } while (!slot.hits.compare_exchange_weak(before, before + 1, std::memory_order_relaxed));
  return true;
}

void rule_book::record(const live_rule& r, nanos now, const verdict_subject& subject, std::uint32_t detail) {
  const auto entry = write_verdict(tables_, now, r.id, r.what, detail, subject);
  if (file_.is_open())
    file_.append(entry);
}

verb_verdict rule_book::judge(nanos now, std::uint32_t device, verb_facts call) {
  verb_verdict all;
  if (epoch() == 0 || !may_concern(call.call))
    return all;
  call.device = tables_.devices[device].name.data();
  const auto rules = current();
  for (const auto& r : *rules) {
    if (!matches(r.what, call) || !hits(r, now))
      continue;
    verdict_subject subject;
    subject.device = device;
    subject.qp_num = call.qp;
    subject.code = static_cast<std::uint32_t>(call.call);
    record(r, now, subject, r.what.value);
    switch (r.what.action) {
    case rule_action::fail: all.error = static_cast<int>(r.what.value); break;
    case rule_action::ignore: all.is_ignored = true; break;
    case rule_action::late_cqe: all.leaves_cqes = true; break;
    case rule_action::half: all.is_half = true; break;
    default: all.takes += time_for(r.what, call.bytes); break;
    }
    if (all.error != 0 || all.is_ignored)
      break; // the call ends here
  }
  return all;
}

event_verdict rule_book::judge(nanos now, std::uint32_t device, event_facts event) {
  event_verdict all;
  if (epoch() == 0)
    return all;
  event.device = tables_.devices[device].name.data();
  const auto rules = current();
  for (const auto& r : *rules) {
    if (!matches(r.what, event) || !hits(r, now))
      continue;
    verdict_subject subject;
    subject.device = device;
    subject.qp_num = event.qp;
    subject.code = static_cast<std::uint32_t>(event.type);
    record(r, now, subject, r.what.repeat);
    switch (r.what.action) {
    case rule_action::swallow: all.times = 0; return all;
    case rule_action::burst: all.times *= r.what.repeat; break;
    default: all.late += r.what.time; break;
    }
  }
  return all;
}

bool rule_book::is_dead(nanos now, std::uint32_t device, verb call) {
  if (epoch() == 0)
    return false;
  const verb_facts facts{tables_.devices[device].name.data(), call};
  const auto rules = current();
  for (const auto& r : *rules)
    if (r.what.action == rule_action::fail && matches(r.what, facts) && is_in_time(r.what, now - r.added_at))
      return true;
  return false;
}

} // namespace actor_rdma::verbs::soft
