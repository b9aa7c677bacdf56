// SPDX-License-Identifier: Apache-2.0
// The table of pairs.
#include "actors/reach.hpp"

#include "base/backoff.hpp"

#include <algorithm>
#include <utility>

namespace actor_rdma::actors {

namespace {

bool is_same(const reach::pair& a, const reach::pair& b) noexcept {
  return a.buffer == b.buffer && a.device == b.device && a.whose == b.whose;
}

} // namespace

const reach::entry* reach::find(const pair& what) const noexcept {
  for (const auto& e : known_)
    if (is_same(e.what, what))
      return e.what.key == what.key ? &e : nullptr;
  return nullptr;
}

reach::entry* reach::find_bad(const pair& what) noexcept {
  const auto at =
      std::find_if(known_.begin(), known_.end(), [&](const entry& e) { return is_same(e.what, what); });
  return at != known_.end() && at->what.key == what.key && at->bad ? &*at : nullptr;
}

void reach::set_bad(entry& e, bool bad) noexcept {
  bad_ += bad ? 1 : 0;
  bad_ -= e.bad ? 1 : 0;
  e.bad = bad;
  e.proven = e.trying = false;
}

/// Its own, a free one, or that of the pair which failed longest ago; first of those that work again.
reach::entry& reach::place_for(const pair& what) {
  auto at = std::find_if(known_.begin(), known_.end(), [&](const entry& e) { return is_same(e.what, what); });
  if (at == known_.end() && known_.size() < most_pairs)
    at = known_.insert(known_.end(), entry{what});
  if (at == known_.end())
    at = std::min_element(known_.begin(), known_.end(), [](const entry& a, const entry& b) {
      return a.bad != b.bad ? b.bad : a.since < b.since;
    });
  if (!is_same(at->what, what) || at->what.key != what.key) {
    set_bad(*at, false);
    *at = entry{what};
  }
  return *at;
}

reach::state reach::look(const pair& what, base::time_point now) const noexcept {
  const auto* const e = find(what);
  if (e == nullptr || !e->bad)
    return state::open;
  if (e->trying)
    return state::tried;
  if (now >= e->retry_at)
    return state::due;
  return e->proven ? state::avoided : state::suspect;
}

base::time_point reach::retry_at(const pair& what) const noexcept {
  const auto* const e = find(what);
  return e != nullptr ? e->retry_at : base::time_point{};
}

base::time_point reach::next_try(base::time_point now) const noexcept {
  auto next = base::time_point::max();
  for (const auto& e : known_)
    if (e.bad && !e.trying && e.retry_at > now)
      next = std::min(next, e.retry_at);
  return next;
}

bool reach::failed(const pair& what, base::time_point now, bool tried, std::uint64_t random) {
  auto& e = place_for(what);
  if (e.bad && !tried)
    return false;
  const bool again = e.bad && e.proven;
  if (!e.bad && now - e.since >= steady_after)
    e.failures = 0;
  set_bad(e, true);
  e.proven = again;
  e.since = now;
  e.retry_at = now + base::backoff(least_, most_, e.failures, random);
  e.failures += e.failures < 20 ? 1u : 0u; // no pause doubles more often
  return again;
}

bool reach::prove(const pair& what) noexcept {
  auto* const e = find_bad(what);
  return e != nullptr && !std::exchange(e->proven, true);
}

void reach::acquit(const pair& what) noexcept {
  auto* const e = find_bad(what);
  if (e == nullptr || e->proven)
    return;
  set_bad(*e, false);
  --e->failures;
}

bool reach::works(const pair& what, base::time_point now) noexcept {
  auto* const e = find_bad(what);
  if (e == nullptr)
    return false;
  const bool was_proven = e->proven;
  set_bad(*e, false);
  e->since = now;
  return was_proven;
}

void reach::try_now(const pair& what) noexcept {
  if (auto* const e = find_bad(what))
    e->trying = true;
}

void reach::try_ended(const pair& what) noexcept {
  if (auto* const e = find_bad(what))
    e->trying = false;
}

void reach::forget(side whose) noexcept {
  for (auto& e : known_)
    if (e.what.whose == whose)
      set_bad(e, false);
  std::erase_if(known_, [&](const entry& e) { return e.what.whose == whose; });
}

} // namespace actor_rdma::actors
