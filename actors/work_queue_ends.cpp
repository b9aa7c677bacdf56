// SPDX-License-Identifier: Apache-2.0
// The end of WRs and of transfers, stopped ones too: the conditions under which a transfer may end, and who
// is told.
#include "actors/work_queue.hpp"
#include "base/checks.hpp"

#include <algorithm>
#include <exception>
#include <utility>

namespace actor_rdma::actors {

namespace {

constexpr double smoothing = 0.2;
/// A slice that ended so often in errors which no path explains is taken to be their cause.
constexpr std::uint8_t most_faults = 3;

bool later_generation(std::uint16_t a, std::uint16_t b) noexcept {
  return static_cast<std::int16_t>(a - b) > 0;
}

} // namespace

// -- stopping -------------------------------------------------------------------------------------

void work_queue::stop_transfer(transfer& item, transfer_status how, base::reason cause) noexcept {
  if (item.stop == transfer_status::pending) {
    item.stop = how;
    item.cause = cause;
    sweep_needed_ = sweep_needed_ || item.queued > 0;
  }
}

void work_queue::mark_stopped(batch_state& batch, transfer_status how, base::reason cause) noexcept {
  batch.stopped = true;
  for (auto& item : batch.transfers())
    if (item.status.load(std::memory_order_relaxed) == transfer_status::pending)
      stop_transfer(item, how,
                    how == transfer_status::timed_out && lacks_keys(batch, item) ? base::reason::resource
                                                                                 : cause);
}

bool work_queue::stop(batch_state& batch, transfer_status how, base::reason cause) {
  mark_stopped(batch, how, cause);
  sweep();
  bool out = false;
  for (auto& item : batch.transfers()) {
    maybe_end(batch, item);
    out = out || item.wrs > 0;
  }
  settle();
  return out;
}

void work_queue::stop_all(transfer_status how, base::reason cause) noexcept {
  for (const auto& b : batches_)
    mark_stopped(*b, how, cause);
  recover();
}

void work_queue::recover() noexcept {
  try {
    keys_made();
  } catch (...) { // some wait for the next key or rail, or their deadline
  }
  sweep_needed_ = true;
  sweep();
  barred_ends_.clear();
  for (const auto& b : batches_) {
    for (auto& item : b->transfers())
      maybe_end(*b, item);
    touch(*b);
  }
  settle();
}

/// Throws away queued slices whose transfer was stopped or whose bytes another WR has delivered.
void work_queue::sweep() noexcept {
  if (!std::exchange(sweep_needed_, false))
    return;
  const auto is_over = [&](const slice& s) {
    if (is_wanted(s) && (s.record == nullptr || !s.record->done))
      return false;
    unqueue(s);
    drop_hold(s.record);
    maybe_end(s);
    return true;
  };
  std::erase_if(again_, is_over);
  std::erase_if(keyless_, is_over);
  std::erase_if(held_, [&](const held_slice& h) { return is_over(h.what); });
}

// -- ends of WRs ----------------------------------------------------------------------------------

void work_queue::drop_hold(reissue_record* record) noexcept {
  if (record != nullptr && --record->holds == 0)
    delete record;
}

void work_queue::count_success(const slot_state& slot, const slice& what) {
  if (what.record != nullptr) {
    if (std::exchange(what.record->done, true))
      return;
    what.each([&](const transfer& t, std::uint64_t) { sweep_needed_ = sweep_needed_ || t.queued > 0; });
  }
  auto* const receipts = what.batch->receipts();
  what.each([&](transfer& t, std::uint64_t bytes) {
    t.done.store(t.done.load(std::memory_order_relaxed) + bytes, std::memory_order_relaxed);
    if (receipts != nullptr)
      receipts->delivered(what.batch->index_of(t), slot.rail, bytes, now_);
  });
}

/// The slice is to be issued again, unless another WR has delivered it, still may, or its transfer was
/// stopped.
void work_queue::requeue(const slice& what, std::uint16_t refused_at) {
  if (!is_wanted(what))
    return drop_hold(what.record);
  if (what.record != nullptr && (what.record->done || what.record->holds > 1))
    return drop_hold(what.record);
  if (what.batch->held)
    held_.push_back({what, refused_at});
  else
    again_.push_back(what);
  what.each([](transfer& t, std::uint64_t) { ++t.queued; });
}

/// One of the transfers in it is at fault, and only on their own do they tell which.
void work_queue::refused_together(const slot_state& slot, const ended_slice& e) {
  const bool elsewhere = e.what.record != nullptr && (e.what.record->done || e.what.record->holds > 1);
  if (!elsewhere && is_wanted(e.what)) {
    if (e.end == wr_end::no_access) {
      auto one = e.what;
      while (one.item->stop != transfer_status::pending)
        ++one.item; // a stopped one may not know its range any more
      ask_for_keys(slot, one);
    }
    if (e.end == wr_end::no_reach) {
      auto all = e.what;
      memory_refused(all, reach::side::ours, slot.local_device);
    }
    split(e.what);
  }
  drop_hold(e.what.record);
}

/// The transfer fails. Of a source whose requests are refused again and again nothing is posted for a while:
/// each refusal costs a QP, and what was posted on it beside.
void work_queue::request_refused(const batch_state& batch, transfer& item) {
  stop_transfer(item, transfer_status::failed, base::reason::request_fault);
  const auto who = source_of(batch, item);
  if (refusals_.refused(who, now_))
    bar(who);
}

void work_queue::bar(const refusal_budget::source& who) {
  for (const auto& b : batches_)
    for (auto& t : b->transfers())
      if (t.status.load(std::memory_order_relaxed) == transfer_status::pending &&
          t.stop == transfer_status::pending && source_of(*b, t) == who) {
        stop_transfer(t, transfer_status::failed, base::reason::request_fault);
        barred_ends_.emplace_back(b.get(), &t);
      }
  owner_.source_barred(who, now_);
}

/// Before settle() lets go of batches.
void work_queue::end_barred() {
  for (const auto& [batch, item] : std::exchange(barred_ends_, {}))
    maybe_end(*batch, *item);
}

/// The account of a WR that has ended. What is to be done about its slice is follow_up()'s.
void work_queue::end_wr(slot_state& slot, std::uint16_t generation, const ended_slice& e) noexcept {
  tried(slot, e.what, false);
  --slot.out;
  slot.out_bytes -= e.what.length;
  // Packets of this WR may still be under way to the peer, and its QP there may accept them.
  const bool owes_fence = e.what.item->op == operation::write && e.end != wr_end::success &&
                          e.end != wr_end::unposted && config_.remote_fence &&
                          later_generation(generation, slot.fenced_upto);
  if (owes_fence)
    slot.waiters.push_back({generation, e.what.more, e.what.item, e.what.batch});
  e.what.each([&](transfer& item, std::uint64_t) {
    ACTOR_RDMA_ASSERT(item.wrs > 0, "a WR ends once");
    --item.wrs;
    item.fences += owes_fence ? 1 : 0;
  });
}

/// If it throws, the slice was not queued again and its hold was not dropped.
void work_queue::follow_up(const slot_state& slot, const ended_slice& e) {
  const bool at_fault = e.end == wr_end::fault && e.what.faults + 1 >= most_faults;
  if (e.what.more > 0 &&
      (e.end == wr_end::refused || e.end == wr_end::no_access || e.end == wr_end::no_reach || at_fault))
    return refused_together(slot, e);
  switch (e.end) {
  case wr_end::success:
    count_success(slot, e.what);
    reached(slot, e.what);
    drop_hold(e.what.record);
    break;
  case wr_end::refused:
    request_refused(*e.what.batch, *e.what.item);
    drop_hold(e.what.record);
    break;
  case wr_end::fault: {
    auto again = e.what;
    if (++again.faults >= most_faults)
      request_refused(*again.batch, *again.item);
    requeue(again); // not if its transfer was stopped
    break;
  }
  case wr_end::no_reach: no_reach(slot, e.what); break;
  case wr_end::no_access: access_refused(slot, e.what); break;
  case wr_end::flushed:
  case wr_end::error:
  case wr_end::unposted: requeue(e.what); break;
  }
}

/// Of its usable QPs: what hangs on another one takes none of its time.
bool work_queue::has_work_out(std::size_t path) const noexcept {
  return std::any_of(slots_.begin(), slots_.end(),
                     [&](const auto& s) { return s.path == path && s.usable && s.out > 0; });
}

/// So many bytes have ended on the path.
void work_queue::measure(std::size_t path, std::uint64_t bytes, base::time_point now) noexcept {
  auto& p = paths_[path];
  const auto busy = now - p.measured_from;
  if (bytes > 0 && busy > base::duration::zero()) {
    const auto rate = static_cast<double>(bytes) / std::chrono::duration<double>(busy).count();
    // What came after idleness took a latency as well, which says of the path only that it is at least so
    // fast. Taken for its rate, whoever has much to do would look fast by that alone, and get still more.
    if (p.was_busy || (p.rate > 0 && rate > p.rate))
      p.rate = p.rate > 0 ? p.rate + smoothing * (rate - p.rate) : rate;
  }
  p.was_busy = has_work_out(path);
  p.measured_from = now;
}

void work_queue::ended(const chunk& what, base::time_point now) {
  now_ = now;
  auto& slot = slots_.at(what.slot);
  std::uint64_t bytes = 0;
  bool has_tried = false;
  std::exception_ptr failure;
  for (std::size_t i = 0; i < what.count; ++i) {
    const auto& e = what.slices[i];
    end_wr(slot, what.generation, e);
    try {
      follow_up(slot, e);
    } catch (...) {
      fail(e.what);
      drop_hold(e.what.record);
      failure = std::current_exception();
    }
    bytes += e.end == wr_end::success ? e.what.length : 0;
    has_tried = has_tried || e.what.tries != 0;
  }
  try {
    if (has_tried)
      keys_made(); // the next may try, or all may go
  } catch (...) {
    failure = std::current_exception();
  }
  sweep();
  for (std::size_t i = 0; i < what.count; ++i)
    maybe_end(what.slices[i].what);
  end_barred();
  measure(slot.path, bytes, now);
  settle();
  if (failure)
    std::rethrow_exception(failure);
}

void work_queue::suspected(const chunk& what, offer_to to) {
  auto& slot = slots_.at(what.slot);
  std::exception_ptr failure;
  for (std::size_t i = 0; i < what.count; ++i) {
    const auto& s = what.slices[i].what;
    bool taken = is_wanted(s) && !s.record->done;
    if (taken && to == offer_to::other_devices) {
      taken = can_carry(s, slot.local_device);
      slot.declined = slot.declined || !taken;
    } else if (taken && to == offer_to::declined) {
      taken = slot.declined && s.record->holds == 2; // of its WR and of this offer: nobody else has it
    }
    if (!taken) {
      drop_hold(s.record);
      continue;
    }
    try {
      if (s.batch->held)
        held_.push_back({s});
      else
        again_.push_back(s);
    } catch (...) {
      drop_hold(s.record);
      failure = std::current_exception();
      continue;
    }
    s.each([](transfer& t, std::uint64_t) { ++t.queued; });
  }
  if (failure)
    std::rethrow_exception(failure);
}

void work_queue::remote_fenced(slot_id id, std::uint16_t generation, bool confirmed) noexcept {
  auto& slot = slots_[id];
  if (!later_generation(generation, slot.fenced_upto))
    return;
  slot.fenced_upto = generation;
  std::erase_if(slot.waiters, [&](const slot_state::waiter& w) {
    if (later_generation(w.generation, generation))
      return false;
    for (std::size_t i = 0; i <= w.more; ++i) {
      auto& item = w.item[i];
      --item.fences;
      item.unconfirmed = item.unconfirmed || !confirmed;
      maybe_end(*w.batch, item);
    }
    return true;
  });
  settle();
}

// -- ends of transfers ----------------------------------------------------------------------------

void work_queue::maybe_end(batch_state& batch, transfer& item) noexcept {
  if (item.wrs > 0 || item.fences > 0 || item.queued > 0 ||
      item.status.load(std::memory_order_relaxed) != transfer_status::pending)
    return;
  if (item.done.load(std::memory_order_relaxed) == item.length) {
    item.late = item.stop == transfer_status::timed_out;
    item.cause = base::reason::none;
    batch.publish(item, transfer_status::completed);
  } else if (item.stop != transfer_status::pending) {
    batch.publish(item, item.stop);
  } else {
    return;
  }
  ++batch.ended;
  touch(batch);
}

void work_queue::maybe_end(const slice& what) noexcept {
  what.each([&](transfer& t, std::uint64_t) { maybe_end(*what.batch, t); });
}

void work_queue::touch(batch_state& batch) noexcept {
  if (!std::exchange(batch.touched, true))
    touched_.push_back(&batch);
}

/// Tells waiters, once per batch and step, and lets go of batches that have ended.
void work_queue::settle() noexcept {
  for (auto* b : touched_) {
    b->touched = false;
    if (b->ended < b->transfers().size()) {
      b->flush();
      continue;
    }
    const auto at = std::lower_bound(batches_.begin(), batches_.end(), b->serial,
                                     [](const auto& x, std::uint64_t n) { return x->serial < n; });
    if (static_cast<std::size_t>(at - batches_.begin()) < fresh_)
      --fresh_;
    leaving_.push_back(std::move(*at));
    batches_.erase(at);
  }
  touched_.clear();
  for (auto& b : leaving_) {
    owner_.batch_ended(b);
    b->flush();
  }
  leaving_.clear();
}

std::uint64_t work_queue::open_transfers() const noexcept {
  std::uint64_t n = 0;
  for (const auto& b : batches_)
    n += b->transfers().size() - b->ended;
  return n;
}

std::uint64_t work_queue::outstanding() const noexcept {
  std::uint64_t n = 0;
  for (const auto& s : slots_)
    n += s.out;
  return n;
}

base::time_point work_queue::oldest_submit() const noexcept {
  return batches_.empty() ? base::time_point{} : batches_.front()->submitted;
}

} // namespace actor_rdma::actors
