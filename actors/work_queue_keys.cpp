// SPDX-License-Identifier: Apache-2.0
// Keys that the peer's device refuses. The peer may have taken the memory back, or registered it anew under
// other keys: what it publishes says so, and only what it publishes after the refusal. Until that is known
// the batches that use the range are held, so that a revoked key ends one WR per QP and not all of them in
// turn.
#include "actors/work_queue.hpp"

#include <algorithm>
#include <utility>

namespace actor_rdma::actors {

void work_queue::access_refused(const slot_state& slot, const slice& what) {
  const auto& item = *what.item;
  if (item.stop != transfer_status::pending)
    return drop_hold(what.record); // what it was about may be gone from the peer's memory
  requeue(what, ask_for_keys(slot, what));
}

/// True if the key that was refused is the one that is known.
bool work_queue::ask_for_keys(const slot_state& slot, const slice& what) {
  const auto& range = what.batch->target().ranges[what.item->remote_buffer];
  if (range.rkey(what.item->remote + what.offset, slot.peer_device) != what.rkey)
    return false;
  hold_users_of(range);
  owner_.keys_refused();
  return true;
}

void work_queue::hold_users_of(const remote_range& range) {
  const auto id = range.id; // batches may know the range by different readings
  for (const auto& b : batches_) {
    const auto items = b->transfers();
    b->held = b->held || std::any_of(items.begin(), items.end(), [&](const transfer& t) {
                return t.status.load(std::memory_order_relaxed) == transfer_status::pending &&
                       t.stop == transfer_status::pending && b->target().ranges[t.remote_buffer].id == id;
              });
  }
  std::erase_if(again_, [&](const slice& s) {
    if (s.batch->held)
      held_.push_back({s});
    return s.batch->held;
  });
}

std::size_t work_queue::refreshed(const std::shared_ptr<const remote_memory>& now) {
  std::size_t going_on = 0;
  for (const auto& b : batches_) {
    if (!b->held)
      continue;
    std::size_t last = 0;
    for (auto& t : b->transfers()) {
      if (t.status.load(std::memory_order_relaxed) != transfer_status::pending ||
          t.stop != transfer_status::pending) {
        t.remote_buffer = 0; // looked at no more
        continue;
      }
      const auto at = now->owner == b->target().owner ? now->find(t.remote, t.length, last) : std::nullopt;
      t.remote_buffer = static_cast<std::uint16_t>(at.value_or(0));
      last = at.value_or(last);
      if (!at)
        stop_transfer(t, transfer_status::failed, base::reason::not_found);
      else
        ++going_on;
    }
    b->retarget(now);
  }
  for (const auto& h : held_) {
    const auto& t = *h.what.item;
    if (!h.refused || t.stop != transfer_status::pending)
      continue;
    const auto& range = now->ranges[t.remote_buffer];
    for (std::size_t device = 0; device < range.devices; ++device)
      if (range.rkey(t.remote + h.what.offset, device) == h.what.rkey) {
        request_refused(*h.what.batch, *h.what.item);
        --going_on;
        break;
      }
  }
  release_held();
  return going_on;
}

void work_queue::refresh_failed(base::reason cause) {
  for (const auto& b : batches_)
    if (b->held)
      for (auto& t : b->transfers())
        if (t.status.load(std::memory_order_relaxed) == transfer_status::pending)
          stop_transfer(t, transfer_status::failed, cause);
  release_held();
}

void work_queue::release_held() {
  std::vector<std::shared_ptr<batch_state>> released;
  for (const auto& b : batches_)
    if (std::exchange(b->held, false))
      released.push_back(b);
  for (const auto& h : std::exchange(held_, {}))
    again_.push_back(h.what);
  fresh_ = 0; // what was passed over is looked at again
  sweep_needed_ = true;
  sweep();
  for (const auto& b : released)
    for (auto& t : b->transfers())
      maybe_end(*b, t);
  end_barred();
  settle();
}

} // namespace actor_rdma::actors
