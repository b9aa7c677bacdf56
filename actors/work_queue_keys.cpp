// SPDX-License-Identifier: Apache-2.0
// Keys that the peer's device refuses. The peer may have taken the memory back, or registered it anew under
// other keys: what it publishes says so, and only what it publishes after the refusal. Until that is known
// the batches that use the range are held, so that a revoked key ends one WR per QP and not all of them in
// turn. And keys that are missing: memory need not be registered on every device, ours or the peer's, and a
// WR with a wrong key costs a QP. So a slice is posted on rails only that have both of its keys. While other
// usable rails have them it is left to these; else it waits until a key or a rail comes, or its deadline.
#include "actors/work_queue.hpp"

#include <algorithm>
#include <utility>

namespace actor_rdma::actors {

/// Keys depend on the rail, so they are filled in when the rail is known. False when one of them is missing.
bool work_queue::aim(slice& what, const slot_state& slot) noexcept {
  const auto& item = *what.item;
  what.lkey = what.batch->locals[item.local_buffer]->lkey(item.local + what.offset, slot.local_device);
  what.rkey =
      what.batch->target().ranges[item.remote_buffer].rkey(item.remote + what.offset, slot.peer_device);
  return what.lkey != 0 && what.rkey != 0;
}

/// Whether a usable rail of another device than `avoid` has the keys, whether it has credit or not. Of slices
/// that are wanted.
bool work_queue::can_carry(const slice& what, std::uint16_t avoid) const noexcept {
  return std::any_of(slots_.begin(), slots_.end(), [&](const slot_state& s) {
    auto aimed = what;
    return s.usable && s.local_device != avoid && may_carry(aimed, s);
  });
}

bool work_queue::lacks_keys(batch_state& batch, transfer& item) const noexcept {
  if (item.stop != transfer_status::pending || !any_usable())
    return false;
  slice next;
  next.batch = &batch;
  next.item = &item;
  next.offset = item.cut;
  if (item.cut < item.length && !can_carry(next))
    return true;
  return item.queued > 0 && std::any_of(keyless_.begin(), keyless_.end(), [&](const slice& s) {
           bool in = false;
           s.each([&](const transfer& t, std::uint64_t) { in = in || &t == &item; });
           return in;
         });
}

bool work_queue::lacks_keys(const batch_state& batch) const {
  return any_usable() &&
         (batch.passed_over ||
          std::any_of(keyless_.begin(), keyless_.end(), [&](const slice& s) { return s.batch == &batch; }));
}

void work_queue::keys_made() {
  if (std::exchange(passed_over_, false)) {
    for (const auto& b : batches_)
      if (std::exchange(b->passed_over, false))
        b->next = 0;
    fresh_ = 0;
  }
  for (; !keyless_.empty(); keyless_.pop_back())
    if (keyless_.back().batch->held)
      held_.push_front({keyless_.back()});
    else
      again_.push_front(keyless_.back());
}

void work_queue::access_refused(const slot_state& slot, const slice& what) {
  const auto& item = *what.item;
  if (item.stop != transfer_status::pending)
    return drop_hold(what.record); // what it was about may be gone from the peer's memory
  requeue(what, ask_for_keys(slot, what) ? slot.peer_device : slice::no_device);
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
  const auto before = held_.size();
  try {
    for (const auto& s : again_)
      if (s.batch->held)
        held_.push_back({s});
  } catch (...) {
    held_.resize(before);
    throw;
  }
  std::erase_if(again_, [](const slice& s) { return s.batch->held; });
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
  for (auto& h : held_) {
    const auto& t = *h.what.item;
    if (h.refused_at == slice::no_device || t.stop != transfer_status::pending ||
        now->ranges[t.remote_buffer].rkey(t.remote + h.what.offset, h.refused_at) != h.what.rkey)
      continue;
    memory_refused(h.what, reach::side::peers, h.refused_at);
    if (give_up_where_refused(h.what))
      --going_on;
  }
  release_held();
  return going_on;
}

namespace {

/// Whether a range of both has other keys now.
bool has_new_keys(const remote_memory& was, const remote_memory& is) {
  std::size_t at = 0;
  return std::any_of(was.ranges.begin(), was.ranges.end(), [&](const remote_range& r) {
    while (at < is.ranges.size() && is.ranges[at].addr < r.addr)
      ++at; // both are sorted by address
    for (auto i = at; i < is.ranges.size() && is.ranges[i].addr == r.addr; ++i)
      if (is.ranges[i].id == r.id)
        return is.ranges[i].rkeys != r.rkeys;
    return false;
  });
}

} // namespace

void work_queue::published(const std::shared_ptr<const remote_memory>& now) {
  const auto before = std::exchange(latest_, now);
  if (before && before->owner != now->owner)
    reach_.forget(reach::side::peers);
  if (!before || before->owner != now->owner || !has_new_keys(*before, *now))
    return;
  rekeyed_ = now;
  for (const auto& b : batches_)
    rekey(*b, now);
  keys_made();
}

/// The batch goes on with the keys of now if they are there for all that it still has to do.
void work_queue::rekey(batch_state& batch, const std::shared_ptr<const remote_memory>& now) {
  if (batch.held || batch.target().owner != now->owner ||
      batch.target().published.version >= now->published.version)
    return;
  const auto is_open = [](const transfer& t) {
    return t.status.load(std::memory_order_relaxed) == transfer_status::pending;
  };
  std::vector<std::uint16_t> ranges;
  std::size_t last = 0;
  for (const auto& t : batch.transfers()) {
    const auto at = is_open(t) ? now->find(t.remote, t.length, last) : last;
    if (!at || (is_open(t) && now->ranges[*at].id != batch.target().ranges[t.remote_buffer].id))
      return;
    last = *at;
    ranges.push_back(static_cast<std::uint16_t>(last));
  }
  for (std::size_t i = 0; i < ranges.size(); ++i)
    batch.transfers()[i].remote_buffer = ranges[i];
  batch.retarget(now);
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
  for (const auto& b : batches_)
    b->held = false;
  fresh_ = 0; // what was passed over is looked at again
  for (; !held_.empty(); held_.pop_front())
    again_.push_back(held_.front().what);
  recover();
}

} // namespace actor_rdma::actors
