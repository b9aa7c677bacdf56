// SPDX-License-Identifier: Apache-2.0
// Cutting, rail choice, and the conditions under which a transfer may end.
#include "actors/work_queue.hpp"

#include "base/checks.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

namespace actor_rdma::actors {

namespace {

/// Before anything was measured every rail is taken to be equally fast.
constexpr double assumed_rate = 12.5e9;
/// Of the best rate. Rails that differ by less share evenly: else one of two alike has all of a light load.
constexpr double clearly_slower = 0.7;
/// A rail that had no work for so long is not what it was when it was measured: a link that flapped would
/// otherwise never carry anything again while the others have room.
constexpr base::duration remeasure_after = std::chrono::milliseconds{500};

} // namespace

refusal_budget::source work_queue::source_of(const batch_state& batch, const transfer& item) {
  return {batch.locals[item.local_buffer]->id, batch.target().ranges[item.remote_buffer].id};
}

slot_id work_queue::add_slot(std::uint16_t local_device, std::uint16_t peer_device, rail_name rail,
                             bool is_spare) {
  slot_state s;
  s.rail = rail ? std::move(rail)
                : std::make_shared<const std::string>(fmt::format("{}>{}", local_device, peer_device));
  s.local_device = local_device;
  s.peer_device = peer_device;
  s.is_spare = is_spare;
  const auto same = std::find_if(slots_.begin(), slots_.end(), [&](const auto& other) {
    return other.local_device == local_device && other.peer_device == peer_device;
  });
  s.path = same != slots_.end() ? same->path : paths_.size();
  if (s.path == paths_.size())
    paths_.emplace_back();
  slots_.push_back(std::move(s));
  return static_cast<slot_id>(slots_.size() - 1);
}

void work_queue::set_usable(slot_id slot, bool usable, std::uint16_t generation, std::uint32_t depth) {
  auto& s = slots_.at(slot);
  s.usable = usable;
  s.depth = depth;
  if (usable) {
    s.declined = false;
    keys_made();
  }
  if (std::exchange(s.generation, generation) != generation)
    paths_[s.path].rate = 0; // how fast the old QP was at its end says nothing of the new one
}

bool work_queue::any_usable() const noexcept {
  return std::any_of(slots_.begin(), slots_.end(), [](const auto& s) { return s.usable; });
}

void work_queue::submit(const std::shared_ptr<batch_state>& batch) {
  batch->serial = next_serial_++;
  if (batch->transfers().empty())
    return;
  touched_.reserve(batches_.size() + 1);
  leaving_.reserve(batches_.size() + 1);
  batches_.push_back(batch);
  if (rekeyed_)
    rekey(*batch, rekeyed_); // it was made with what was known a moment ago
  bool is_barred = false;
  for (auto& item : batch->transfers())
    if (refusals_.is_barred(source_of(*batch, item), batch->submitted)) {
      stop_transfer(item, transfer_status::failed, base::reason::request_fault);
      maybe_end(*batch, item);
      is_barred = true;
    }
  if (is_barred)
    settle();
}

std::shared_ptr<batch_state> work_queue::find(std::uint64_t serial) const {
  const auto at = std::lower_bound(batches_.begin(), batches_.end(), serial,
                                   [](const auto& b, std::uint64_t n) { return b->serial < n; });
  return at != batches_.end() && (*at)->serial == serial ? *at : nullptr;
}

std::vector<std::shared_ptr<batch_state>> work_queue::batches_using(const local_buffer& buffer) const {
  std::vector<std::shared_ptr<batch_state>> found;
  for (const auto& b : batches_)
    if (std::any_of(b->locals.begin(), b->locals.end(), [&](const auto& l) { return l.get() == &buffer; }))
      found.push_back(b);
  return found;
}

// -- pulling --------------------------------------------------------------------------------------

/// How many slices wait, counted no further than `enough`.
std::size_t work_queue::waiting_upto(std::size_t enough) const noexcept {
  auto n = again_.size();
  for (auto i = fresh_; i < batches_.size() && n < enough; ++i) {
    if (batches_[i]->held)
      continue;
    const auto items = batches_[i]->transfers();
    for (auto k = batches_[i]->next; k < items.size() && n < enough; ++k)
      n += (items[k].length - items[k].cut + config_.slice_bytes - 1) / config_.slice_bytes;
  }
  return std::min(n, enough);
}

/// About as much as the next slice has: by more, a rail that is not the fastest would be left out.
std::uint64_t work_queue::next_bytes() const noexcept {
  if (!again_.empty())
    return again_.front().length;
  for (auto i = fresh_; i < batches_.size(); ++i)
    if (const auto& b = *batches_[i]; !b.held && b.next < b.transfers().size())
      return std::min<std::uint64_t>(config_.slice_bytes,
                                     b.transfers()[b.next].length - b.transfers()[b.next].cut);
  return config_.slice_bytes;
}

/// What a rail that was not measured yet is taken for: as fast as the best of the others.
double work_queue::usual_rate() const noexcept {
  double best = 0;
  for (const auto& s : slots_)
    if (s.usable)
      best = std::max(best, paths_[s.path].rate);
  return best > 0 ? best : assumed_rate;
}

bool work_queue::is_wanted(const slice& what) noexcept {
  bool wanted = false;
  what.each([&](const transfer& t, std::uint64_t) { wanted = wanted || t.stop == transfer_status::pending; });
  return wanted;
}

/// All of it is wanted, and one key still covers it.
bool work_queue::is_whole(const slice& what) noexcept {
  bool whole = true;
  what.each([&](const transfer& t, std::uint64_t) {
    whole = whole && t.stop == transfer_status::pending && t.remote_buffer == what.item->remote_buffer;
  });
  return whole && (what.more == 0 || what.batch->target().ranges[what.item->remote_buffer].to_border(
                                         what.item->remote) >= what.length);
}

void work_queue::unqueue(const slice& what) noexcept {
  what.each([](transfer& t, std::uint64_t) { --t.queued; });
}

/// No WR or queue has what is left of its transfers: they end without it.
void work_queue::fail(const slice& what) noexcept {
  what.each(
      [&](transfer& t, std::uint64_t) { stop_transfer(t, transfer_status::failed, base::reason::internal); });
}

/// What is still wanted of a slice that cannot go on as one; nobody else may have it.
void work_queue::split(const slice& what) {
  try {
    for (std::size_t i = what.more + 1u; i-- > 0;) {
      auto& t = what.item[i];
      if (t.stop != transfer_status::pending)
        continue;
      auto one = what;
      one.item = &t;
      one.more = 0;
      one.record = nullptr;
      one.refused_on = 0; // by whose fault shows now
      if (what.more > 0)
        one.length = static_cast<std::uint32_t>(t.length);
      if (what.batch->held)
        held_.push_front({one});
      else
        again_.push_front(one);
      ++t.queued;
    }
  } catch (...) {
    fail(what);
    throw;
  }
}

/// The slot with the least expected finish time of `bytes` more, or the one on which what comes next is due
/// to be tried again: it may be one that hardly gets anything. None when every usable one is full.
work_queue::slot_state* work_queue::choose(std::uint64_t bytes, std::uint16_t avoid) {
  bool any = false;
  auto* const slot = choose_among(false, bytes, avoid, any);
  return any ? slot : choose_among(true, bytes, avoid, any);
}

/// `any`: there is one that could carry it, now or when it has room again.
work_queue::slot_state* work_queue::choose_among(bool spare, std::uint64_t bytes, std::uint16_t avoid,
                                                 bool& any) {
  slot_state* best = nullptr;
  double best_finish = std::numeric_limits<double>::max();
  const auto n = slots_.size();
  const auto usual = usual_rate();
  slice next;
  if (reach_.knows_any() && !again_.empty())
    next = again_.front();
  for (auto i = fresh_; reach_.knows_any() && next.item == nullptr && i < batches_.size(); ++i)
    for (auto& t : batches_[i]->transfers().subspan(batches_[i]->next))
      if (!batches_[i]->held && t.stop == transfer_status::pending && t.cut < t.length) {
        next.batch = batches_[i].get();
        next.item = &t;
        next.offset = t.cut;
        break;
      }
  for (std::size_t k = 0; k < n; ++k) {
    auto& s = slots_[(turn_ + k) % n];
    if (!s.usable || s.passed || s.local_device == avoid || s.is_spare != spare)
      continue;
    any = true;
    if (!has_room(s) || (s.out > 0 && s.out_bytes >= config_.qp_window_bytes))
      continue;
    const auto& path = paths_[s.path];
    const bool is_slow = path.rate > 0 && path.rate < clearly_slower * usual;
    const bool is_due = next.item != nullptr && route_of(next, s) == route::open && next.tries != 0;
    const auto finish = is_due ? 0 : static_cast<double>(path.load + bytes) / (is_slow ? path.rate : usual);
    if (finish < best_finish ||
        (finish <= best_finish && s.path == best->path && s.out_bytes < best->out_bytes)) {
      best_finish = finish;
      best = &s;
    }
  }
  return best;
}

bool work_queue::next_again(slice& out, const slot_state& slot) {
  while (!again_.empty()) {
    out = again_.front();
    const bool delivered = out.record != nullptr && out.record->done;
    if (!delivered && is_whole(out)) {
      if (out.avoid == slot.local_device && can_carry(out, out.avoid))
        return false;
      const bool aimed = may_carry(out, slot);
      if (!aimed && (passed_ = can_carry(out)))
        return false;
      if (!aimed)
        keyless_.push_back(out);
      again_.pop_front();
      if (!aimed)
        continue;
      unqueue(out);
      return true;
    }
    again_.pop_front();
    unqueue(out);
    const bool elsewhere = out.record != nullptr && out.record->holds > 1; // its end brings it back here
    drop_hold(out.record);
    if (!delivered && !elsewhere && is_wanted(out))
      split(out);
    maybe_end(out);
  }
  return false;
}

namespace {

bool adjoins(const transfer& a, const transfer& b) noexcept {
  return b.local == a.local + a.length && b.remote == a.remote + a.length && b.op == a.op &&
         b.local_buffer == a.local_buffer && b.remote_buffer == a.remote_buffer && b.cut == 0 &&
         b.stop == transfer_status::pending;
}

} // namespace

/// Cuts the next slice. Whole transfers that adjoin, at most `most` of them, share one: per byte a WR of many
/// small transfers costs what one of a large transfer costs.
bool work_queue::next_fresh(slice& out, const slot_state& slot, std::size_t most) {
  for (auto i = fresh_; i < batches_.size(); ++i) {
    auto& b = *batches_[i];
    if (b.held)
      continue;
    const auto items = b.transfers();
    bool for_others = false;
    while (b.next < items.size()) {
      auto& t = items[b.next];
      if (t.stop != transfer_status::pending || t.cut == t.length) {
        ++b.next;
        continue;
      }
      out = slice{};
      out.batch = &b;
      out.item = &t;
      out.offset = t.cut;
      if (!may_carry(out, slot)) {
        if ((for_others = can_carry(out)))
          break;
        passed_over_ = b.passed_over = true;
        ++b.next;
        continue;
      }
      // No slice crosses the border of a region, ours or the peer's.
      const auto limit =
          std::min({std::uint64_t{config_.slice_bytes}, b.locals[t.local_buffer]->to_border(t.local + t.cut),
                    b.target().ranges[t.remote_buffer].to_border(t.remote + t.cut)});
      out.length = static_cast<std::uint32_t>(std::min(t.length - t.cut, limit));
      t.cut += out.length;
      if (t.cut < t.length)
        return true;
      ++b.next;
      for (; out.offset == 0 && b.next < items.size() && out.more + 1u < most; ++b.next, ++out.more) {
        auto& next = items[b.next];
        if (!adjoins(items[b.next - 1], next) || next.length > limit - out.length)
          break;
        next.cut = next.length;
        out.length += static_cast<std::uint32_t>(next.length);
      }
      return true;
    }
    passed_ = passed_ || for_others;
    if (i == fresh_ && !for_others)
      ++fresh_;
  }
  return false;
}

bool work_queue::next_slice(slice& out, const slot_state& slot, std::size_t most, base::time_point now) {
  const bool again = next_again(out, slot);
  if (!again && !next_fresh(out, slot, most))
    return false;
  if (auto* receipts = out.batch->receipts(); receipts != nullptr)
    out.each([&](const transfer& t, std::uint64_t) {
      receipts->handed(out.batch->index_of(t), slot.rail, again, now);
    });
  return true;
}

/// Whatever is out, and a chunk more, may come to wait for a fence.
void work_queue::reserve_waiters(slot_state& slot) {
  const auto needed = slot.waiters.size() + slot.out + chunk::capacity;
  if (slot.waiters.capacity() < needed)
    slot.waiters.reserve(std::max(needed, 2 * slot.waiters.capacity()));
}

bool work_queue::pull(chunk& out, base::time_point now) {
  now_ = now;
  for (auto& p : paths_)
    p.load = 0;
  for (auto& s : slots_) {
    s.passed = false;
    paths_[s.path].load += s.usable ? s.out_bytes : 0;
  }
  for (auto& p : paths_)
    if (p.load == 0 && p.rate > 0 && now - p.measured_from > remeasure_after)
      p.rate = 0;
  if (again_.empty() && fresh_ >= batches_.size())
    return false;
  for (;;) {
    const auto bytes = next_bytes();
    auto* slot = choose(bytes, again_.empty() ? slice::no_device : again_.front().avoid);
    if (slot == nullptr)
      slot = choose(bytes, slice::no_device);
    if (slot == nullptr)
      break;
    passed_ = false;
    fill(out, *slot, now);
    if (out.count > 0 || !passed_)
      break;
    for (auto& s : slots_) // memory is not registered on all devices: another rail's QPs are asked
      s.passed = s.passed || (s.local_device == slot->local_device && s.peer_device == slot->peer_device);
  }
  settle();
  if (out.count > 0)
    turn_ = out.slot + 1; // not at every look: an even number of looks per slice would favour one of two
  return out.count > 0;
}

void work_queue::fill(chunk& out, slot_state& slot, base::time_point now) {
  // Share what waits between the usable slots, so that a short queue still uses every rail.
  const auto usable = static_cast<std::size_t>(std::count_if(
      slots_.begin(), slots_.end(), [&](const auto& x) { return x.usable && x.is_spare == slot.is_spare; }));
  const auto share =
      usable > 1 ? (waiting_upto(usable * chunk::capacity) + usable - 1) / usable : chunk::capacity;
  reserve_waiters(slot);
  out.slot = static_cast<slot_id>(&slot - slots_.data());
  out.generation = slot.generation;
  slice s;
  std::size_t taken = 0;
  while (taken < share && has_room(slot) && (slot.out == 0 || slot.out_bytes < config_.qp_window_bytes) &&
         next_slice(s, slot, share - taken, now)) {
    taken += s.more + 1u;
    if (!has_work_out(slot.path)) {
      paths_[slot.path].measured_from = now; // what came before was idleness, not slowness
      paths_[slot.path].was_busy = false;
    }
    s.each([](transfer& t, std::uint64_t) { ++t.wrs; });
    tried(slot, s, true);
    ++slot.out;
    slot.out_bytes += s.length;
    out.add(s, wr_end::success);
  }
}

} // namespace actor_rdma::actors
