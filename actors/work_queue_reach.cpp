// SPDX-License-Identifier: Apache-2.0
// Memory that a device does not reach although it has a key for it. A slice that it refuses goes on by
// another device, and nothing that needs the same memory is given to this one meanwhile. If the slice gets
// through elsewhere the pair is to blame, and avoided; if no device takes it, the request is, and fails with
// all that follows from that (refusal_budget.hpp).
#include "actors/work_queue.hpp"

#include <algorithm>

namespace actor_rdma::actors {

namespace {

constexpr reach::side sides[] = {reach::side::ours, reach::side::peers};

constexpr std::uint8_t bit_of(reach::side whose) noexcept {
  return static_cast<std::uint8_t>(1u << static_cast<unsigned>(whose));
}

} // namespace

reach::pair work_queue::pair_of(const slice& what, reach::side whose, std::uint16_t device) noexcept {
  const auto& item = *what.item;
  if (whose == reach::side::ours) {
    const auto& b = *what.batch->locals[item.local_buffer];
    return {whose, device, b.id, b.lkey(b.addr, device)};
  }
  const auto& r = what.batch->target().ranges[item.remote_buffer];
  return {whose, device, r.id, r.rkey(r.addr, device)};
}

reach::pair work_queue::pair_of(const slice& what, reach::side whose, const slot_state& slot) noexcept {
  return pair_of(what, whose, whose == reach::side::ours ? slot.local_device : slot.peer_device);
}

/// Fills in the keys, and what the slice would try again there.
work_queue::route work_queue::route_of(slice& what, const slot_state& slot) const noexcept {
  what.tries = 0;
  if (!aim(what, slot) || (what.refused_on & slot.rail_mask()) != 0)
    return route::closed;
  auto worst = route::open;
  if (!reach_.knows_any())
    return worst;
  for (const auto whose : sides) {
    const auto known = reach_.look(pair_of(what, whose, slot), now_);
    if (known == reach::state::due || known == reach::state::avoided)
      what.tries |= bit_of(whose);
    worst = std::max(worst, known == reach::state::suspect   ? route::suspect
                            : known == reach::state::avoided ? route::avoided
                            : known == reach::state::tried   ? route::tried
                                                             : route::open);
  }
  return worst;
}

/// Of all rails, also those that are not usable now: these come back.
work_queue::route work_queue::best_route(const slice& what) const noexcept {
  auto best = route::closed;
  for (const auto& s : slots_) {
    auto aimed = what;
    best = std::min(best, route_of(aimed, s));
  }
  return best;
}

/// A rail that is suspect, or avoided, is taken if there is none that is better, in the latter case to try
/// it.
bool work_queue::may_carry(slice& what, const slot_state& slot) const noexcept {
  const auto r = route_of(what, slot);
  return r == route::open || ((r == route::suspect || r == route::avoided) && best_route(what) == r);
}

void work_queue::tried(const slot_state& slot, const slice& what, bool is_out) noexcept {
  for (const auto whose : sides) {
    if ((what.tries & bit_of(whose)) == 0)
      continue;
    const auto which = pair_of(what, whose, slot);
    is_out ? reach_.try_now(which) : reach_.try_ended(which);
  }
}

/// A device refused it. The slice will not come back there.
void work_queue::memory_refused(slice& what, reach::side whose, std::uint16_t device) {
  const auto which = pair_of(what, whose, device);
  const auto random = static_cast<std::uint64_t>(now_.time_since_epoch().count()) * 0x9e3779b97f4a7c15;
  if (reach_.failed(which, now_, (what.tries & bit_of(whose)) != 0, random >> 20))
    owner_.pair_avoided(which, reach_.retry_at(which));
  for (const auto& s : slots_)
    if ((whose == reach::side::ours ? s.local_device : s.peer_device) == device)
      what.refused_on |= s.rail_mask();
}

/// The request is wrong if nobody is left who might take it.
bool work_queue::give_up_where_refused(const slice& what) {
  if (best_route(what) <= route::suspect)
    return false;
  for (const auto& s : slots_)
    if ((what.refused_on & s.rail_mask()) != 0)
      for (const auto whose : sides)
        reach_.acquit(pair_of(what, whose, s));
  request_refused(*what.batch, *what.item);
  return true;
}

void work_queue::no_reach(const slot_state& slot, const slice& what) {
  auto again = what;
  const auto& item = *what.item;
  const bool is_current =
      what.batch->locals[item.local_buffer]->lkey(item.local + what.offset, slot.local_device) == what.lkey;
  if (!is_current)
    return requeue(again); // it was registered anew under way
  memory_refused(again, reach::side::ours, slot.local_device);
  const bool elsewhere = what.record != nullptr && (what.record->done || what.record->holds > 1);
  bool is_over = false;
  if (is_wanted(what))
    is_over = !elsewhere && give_up_where_refused(again);
  else if (what.tries == 0) // whose fault it was will not be known: a source of such requests pays for them
    request_refused(*what.batch, *what.item);
  is_over ? drop_hold(what.record) : requeue(again);
}

/// What a success says of the pairs that it used, and of those that had refused it.
void work_queue::reached(const slot_state& slot, const slice& what) {
  if (!reach_.knows_any())
    return;
  for (const auto whose : sides)
    if (const auto which = pair_of(what, whose, slot); reach_.works(which, now_))
      owner_.pair_works(which);
  for (const auto& s : slots_)
    if ((what.refused_on & s.rail_mask()) != 0)
      for (const auto whose : sides)
        if (const auto which = pair_of(what, whose, s); reach_.prove(which))
          owner_.pair_avoided(which, reach_.retry_at(which));
}

base::time_point work_queue::next_try() const noexcept {
  return keyless_.empty() && !passed_over_ ? base::time_point::max() : reach_.next_try(now_);
}

} // namespace actor_rdma::actors
