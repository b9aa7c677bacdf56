// SPDX-License-Identifier: Apache-2.0
//
// What happens to work requests over time: they leave, they land, they are done, they are lost and tried
// again until the retries run out, or they meet a hang. Every step takes the time as an argument, the time at
// which it was due: a late caller catches up without the traffic having become slower.
#include "verbs/soft/bond.hpp"
#include "verbs/soft/queue_pair.hpp"
#include "verbs/soft/tables.hpp"

#include <algorithm>

namespace actor_rdma::verbs::soft {

namespace {

constexpr auto hang_hard = static_cast<std::uint32_t>(hang_mode::hard);

bool is_paced(const layout::device_entry& d) noexcept {
  return is_paced(static_cast<nic_mode>(d.mode.load(std::memory_order_relaxed)));
}

/// How long to wait before looking again whether the peer's process did what it was asked for. Meanwhile the
/// time of the acknowledgement runs: if that process does not run, it ends in RETRY_EXC.
constexpr nanos ask_at_first = 20'000;
constexpr nanos ask_at_most = 1'000'000;

} // namespace

void soft_qp::run(nanos now, nanos until, copy_budget& budget) {
  std::lock_guard lock{mutex_};
  is_scheduled_ = false;
  if (retired_)
    return;
  auto& rt = context_.rt();
  const auto& line = send_cq_.line();
  step(now, budget);
  // As long as nothing else comes first, there is no need to queue up again for each step.
  for (auto due = next_due(); due <= until && due < line.next_due() && budget > 0; due = next_due()) {
    if (rt.is_virtual()) {
      if (rt.needs_attention())
        break;
      rt.set_event_time(due);
    }
    step(due, budget);
  }
  reschedule();
}

void soft_qp::progress(nanos now, copy_budget& budget) {
  step(now, budget);
  reschedule();
}

void soft_qp::step(nanos now, copy_budget& budget) {
  if (current_state() == IBV_QPS_ERR)
    flush_receives(now);
  const auto is_active = [&] { return current_state() == IBV_QPS_RTS; };
  if (is_active() && is_lost_ && now >= probe_at_)
    probe(now);
  if (is_active() && now >= resend_at_)
    resend_unacknowledged();
  for (bool moved = true; moved && is_active();) {
    moved = finish(now);
    if (is_active())
      moved |= land(now, budget);
    if (is_active())
      moved |= send(now);
  }
  if (is_active() && !has_work_due(now) && retry_deadline() <= now)
    fail_head(IBV_WC_RETRY_EXC_ERR, now);
}

// -- leaving
// --------------------------------------------------------------------------------------------------------

bool soft_qp::send(nanos now) {
  const auto& own = device();
  bool moved = false;
  while (sent_ < posted_ && !is_lost_ && !is_failing_ && !is_hung_) {
    const auto& slot = ring_[sent_];
    if (const auto hang = own.hang.load(std::memory_order_relaxed); hang != 0) {
      swallow(now, hang == hang_hard);
      return true;
    }
    if ((slot.is_read && reads_in_flight_ >= attributes_.max_rd_atomic) ||
        (slot.is_fenced && reads_in_flight_ != 0))
      break;
    if (has_full_window(now))
      break;
    if (rules_.any() && !rules_.admit(facts_of(sent_), now)) {
      swallow(now, rules_.find(sent_)->is_hung_hard);
      return true;
    }
    place_on_wire(sent_, now);
    moved = true;
  }
  return moved;
}

/// A queue pair takes its places on a paced wire no sooner than it must to keep the wire busy, so that those
/// of one device take turns: two messages, or as many as leave within two latencies.
bool soft_qp::has_full_window(nanos now) const noexcept {
  const auto& own = device();
  const bool takes_turns = is_paced(own) && own.delay.load(std::memory_order_relaxed) == 0;
  return takes_turns && sent_ - landed_ >= 2 &&
         last_left_at_ > now + 2 * own.latency.load(std::memory_order_relaxed);
}

void soft_qp::place_on_wire(std::uint64_t wr, nanos now) {
  auto& t = context_.rt().tables();
  auto& own = device();
  auto& slot = ring_[wr];
  now = std::max(now, slot.left_at); // a late caller catches up with what was there
  slot.psn = next_psn_;
  slot.packets = packets_of(slot.length);
  slot.is_packet = false;
  slot.status = IBV_WC_SUCCESS;
  slot.left_at = slot.land_at = now;
  next_psn_ = (next_psn_ + slot.packets) & psn_mask;
  if (slot.is_read)
    slot.reads_ahead = reads_in_flight_++;
  ++sent_;

  bool is_late = false;
  if (find_responder() && is_wire_open()) {
    auto& peer = t.devices[peer_.device];
    const auto delay = own.delay.load(std::memory_order_relaxed);
    is_late = delay != 0 || (slot.is_read && peer.delay.load(std::memory_order_relaxed) != 0);
    if (is_paced(own)) {
      const auto latency = own.latency.load(std::memory_order_relaxed);
      const auto here = end_of(t, port_index(), slot_index(), now);
      const auto there = end_of(t, peer_.device, peer_.qp_index, now);
      if (slot.is_read && is_late) { // the answer has a journey of its own
        slot.land_at = now + latency;
      } else if (slot.is_read) {
        // The request is small, but it waits behind what others have sent there: so does a probe in an
        // incast.
        const auto asked_at = std::max(now, there.wire.rx_free.load(std::memory_order_relaxed)) + latency;
        slot.land_at = slot.left_at =
            reserve(there, here, peer.latency.load(std::memory_order_relaxed), asked_at, slot.length).arrived;
      } else {
        const auto p = reserve(here, there, latency, now, slot.length);
        slot.left_at = p.left;
        slot.land_at = p.arrived;
      }
    }
    slot.land_at += delay;
    own.bytes_sent.fetch_add(slot.length, std::memory_order_relaxed);
  }
  if (rules_.any() || rules_.find(wr) != nullptr)
    place_by_rules(wr, now, is_late);
  last_left_at_ = slot.left_at;
  slot.land_at = last_land_at_ = std::max(slot.land_at, last_land_at_);
  if (is_late)
    launch_packet(wr, slot.land_at);
}

void soft_qp::swallow(nanos now, bool is_hard) {
  if (!is_hung_)
    stuck_ = 0;
  is_hung_ = true;
  is_hung_hard_ |= is_hard;
  for (auto wr = sent_ + stuck_; wr < posted_; ++wr)
    log(now, log_kind::swallowed, wr);
  device().stuck_wrs.fetch_add(posted_ - sent_ - stuck_, std::memory_order_relaxed);
  stuck_ = posted_ - sent_;
}

// -- landing
// --------------------------------------------------------------------------------------------------------

bool soft_qp::land(nanos now, copy_budget& budget) {
  auto& rt = context_.rt();
  bool moved = false;
  while (has_work_due(now) && budget > 0) {
    if (const auto hang = device().hang.load(std::memory_order_relaxed); hang != 0) {
      go_back();
      swallow(now, hang == hang_hard);
      return true;
    }
    execution at_work{rt.process()};
    auto& slot = ring_[landed_];
    slot.status = static_cast<std::uint8_t>(check_local(landed_));
    auto result = verdict::lost;
    const auto* const fate = rules_.find(landed_);
    if (slot.status != IBV_WC_SUCCESS)
      result = verdict::operation_error; // of our own making: nothing leaves
    else if (fate != nullptr && fate->is_lost)
      ; // on the wire
    else if (fate != nullptr && fate->moves_nothing() && *fate->status != IBV_WC_SUCCESS)
      result = verdict::executed; // settle() gives it its status
    else if (find_responder() && is_wire_open())
      result = execute(at_work, landed_, budget);
    else if (const auto* const met = meet_own_port(now); met != nullptr) {
      if (met->is_hung) {
        go_back();
        swallow(now, met->is_hung_hard);
        return true;
      }
      if (!met->status) { // do=hold
        hold_until_change();
        return true;
      }
      result = verdict::executed; // settle() gives it its status
    }
    if (result == verdict::unfinished)
      break;
    if (result == verdict::asked) {
      ask_again_ = std::clamp(2 * ask_again_, ask_at_first, ask_at_most);
      slot.land_at = now + ask_again_;
      break;
    }
    ask_again_ = 0;
    if (result == verdict::not_ready) {
      not_ready(now);
      return true;
    }
    if (settle(landed_, result, slot.land_at) == verdict::lost)
      mark_lost(now);
    moved = true;
  }
  return moved;
}

verdict soft_qp::settle(std::uint64_t wr, verdict result, nanos landed_at) {
  auto& slot = ring_[wr];
  if (result == verdict::lost)
    return result;
  if (const auto* const fate = rules_.find(wr); fate != nullptr && fate->status) {
    slot.status = *fate->status;
    result = slot.status == IBV_WC_SUCCESS ? verdict::executed : verdict::operation_error;
  }
  auto done_at = acknowledged_at(slot, landed_at);
  if (rules_.any() && is_answer_lost(wr, landed_at, done_at)) {
    if (slot.is_read)
      return verdict::lost;
    slot.done_at = never; // until a later acknowledgement covers it
    ++landed_;
    return result;
  }
  if (result != verdict::executed) {
    if (slot.status == IBV_WC_SUCCESS)
      slot.status = static_cast<std::uint8_t>(status_of(result));
    is_failing_ = true;
  }
  not_ready_count_ = 0;
  is_retrying_ = false;
  slot.done_at = last_done_at_ = std::max(done_at, last_done_at_);
  ++landed_;
  if (resend_at_ != never || attributes_.timeout == 0)
    cover_unacknowledged(wr);
  return result;
}

nanos soft_qp::latency() const noexcept {
  return is_paced(device()) ? device().latency.load(std::memory_order_relaxed) : 0;
}

nanos soft_qp::acknowledged_at(const send_slot& slot, nanos landed_at) const noexcept {
  const bool is_answer_here = slot.is_read && !slot.is_packet;
  auto at = landed_at;
  if (!is_answer_here)
    at += latency();
  if (has_peer_)
    at += context_.rt().tables().devices[peer_.device].delay.load(std::memory_order_relaxed);
  return at;
}

void soft_qp::packet_arrived(std::uint64_t wr, const packet& which, verdict result, nanos now) {
  std::lock_guard lock{mutex_};
  const auto mine = packets_.find(wr);
  if (retired_ || current_state() != IBV_QPS_RTS || mine == packets_.end() || mine->second.get() != &which ||
      wr != landed_ || which.origin().life != qp_generation(entry().word.load(std::memory_order_relaxed)))
    return;
  auto& slot = ring_[wr];
  if (result == verdict::not_ready)
    not_ready(now);
  else if (result = settle(wr, result, now); result == verdict::lost)
    mark_lost(now);
  if (result == verdict::lost || result == verdict::not_ready) {
    packets_.erase(mine);
    slot.is_packet = false;
  }
  copy_budget budget = budget_per_call;
  progress(now, budget);
}

// -- done
// -----------------------------------------------------------------------------------------------------------

bool soft_qp::finish(nanos now) {
  bool moved = false;
  while (done_ < landed_ && ring_[done_].done_at <= now) {
    auto& slot = ring_[done_];
    moved = true;
    if (slot.status == IBV_WC_SUCCESS && slot.is_read && slot.is_packet) {
      if (scatter(done_, *packets_.at(done_)))
        log(now, log_kind::landed_late, done_);
      else
        slot.status = IBV_WC_LOC_PROT_ERR;
    }
    if (slot.status != IBV_WC_SUCCESS) {
      fail_head(static_cast<ibv_wc_status>(slot.status), now);
      return true;
    }
    acknowledged_until_ = slot.done_at;
    complete_success(done_);
  }
  return moved;
}

// -- when is what due
// -----------------------------------------------------------------------------------------------

bool soft_qp::is_landing_next() noexcept {
  return landed_ < sent_ && !is_lost_ && !is_failing_ && !ring_[landed_].is_packet;
}

bool soft_qp::has_work_due(nanos now) noexcept {
  return is_landing_next() && ring_[landed_].land_at <= now;
}

nanos soft_qp::retry_deadline() noexcept {
  const auto once = ack_timeout(attributes_.timeout);
  const bool is_held = is_lost_ && probe_at_ == never;
  if (done_ == sent_ || is_failing_ || is_not_ready_ || is_held || once == never)
    return never;
  const auto begin = is_retrying_ ? retrying_since_ : std::max(ring_[done_].left_at, acknowledged_until_);
  return begin + once * (attributes_.retry_cnt + 1);
}

nanos soft_qp::next_due() noexcept {
  if (!retired_ && current_state() == IBV_QPS_ERR && !receives_ended_ && flush_receives_at_ != 0)
    return flush_receives_at_;
  if (retired_ || current_state() != IBV_QPS_RTS)
    return never;
  auto due = retry_deadline();
  if (done_ < landed_)
    due = std::min(due, ring_[done_].done_at);
  if (is_landing_next())
    due = std::min(due, ring_[landed_].land_at);
  if (is_lost_)
    due = std::min(due, probe_at_);
  return std::min(due, resend_at_);
}

void soft_qp::reschedule() {
  const auto due = next_due();
  if (due != never) {
    is_scheduled_ = true;
    send_cq_.line().schedule(shared_from_this(), {due, context_.device().index(), qp_num, done_});
  } else if (is_scheduled_) {
    is_scheduled_ = false;
    send_cq_.line().remove(*this);
  }
}

} // namespace actor_rdma::verbs::soft
