// SPDX-License-Identifier: Apache-2.0
//
// Work that got no answer, or the answer that the receiver is not ready: how long it waits, and how it begins
// again.
#include "verbs/soft/queue_pair.hpp"
#include "verbs/soft/tables.hpp"

#include <array>

namespace actor_rdma::verbs::soft {

namespace {

/// IBA, encoding of the RNR NAK timer field: microseconds.
constexpr std::array<nanos, 32> rnr_times_us{655360, 10,    20,    30,     40,     60,     80,     120,
                                             160,    240,   320,   480,    640,    960,    1280,   1920,
                                             2560,   3840,  5120,  7680,   10240,  15360,  20480,  30720,
                                             40960,  61440, 81920, 122880, 163840, 245760, 327680, 491520};
constexpr std::uint8_t endless_rnr_retry = 7;

} // namespace

/// The peer had no receive. It answers at once, and its answer says when to come again, so this is neither a
/// loss nor a transport retry.
void soft_qp::not_ready(nanos now) {
  auto& slot = ring_[landed_];
  if (attributes_.rnr_retry != endless_rnr_retry && not_ready_count_ >= attributes_.rnr_retry) {
    slot.status = IBV_WC_RNR_RETRY_EXC_ERR;
    if (settle(landed_, verdict::operation_error, now) == verdict::lost)
      mark_lost(now);
    return;
  }
  if (not_ready_count_ == 0) // of a series, the first
    log(now, log_kind::receiver_not_ready, landed_, attributes_.rnr_retry);
  ++not_ready_count_;
  is_lost_ = is_not_ready_ = true;
  is_retrying_ = false;
  moved_bytes_ = 0;
  const auto timer = context_.rt().tables().qps[peer_.qp_index].rnr_timer.load(std::memory_order_relaxed) %
                     rnr_times_us.size();
  probe_at_ = acknowledged_at(slot, now) + rnr_times_us[timer] * 1000;
}

void soft_qp::mark_lost(nanos now) noexcept {
  is_not_ready_ = false;
  is_lost_ = true;
  moved_bytes_ = 0; // a retry begins at the beginning
  if (!is_retrying_)
    retrying_since_ = now;
  is_retrying_ = true;
  const auto wait = ack_timeout(attributes_.timeout);
  probe_at_ = wait == never ? never : now + wait;
}

/// What is out waits until something changes, and its retries with it.
void soft_qp::hold_until_change() noexcept {
  is_not_ready_ = is_retrying_ = false;
  is_lost_ = true;
  moved_bytes_ = 0;
  probe_at_ = never;
}

void soft_qp::probe(nanos now) {
  if ((find_responder() && is_wire_open()) || meet_own_port(now) != nullptr)
    go_back();
  else
    mark_lost(now);
}

void soft_qp::go_back() noexcept {
  for (auto wr = landed_; wr < sent_; ++wr) {
    reads_in_flight_ -= ring_[wr].is_read ? 1 : 0;
    packets_.erase(wr);
  }
  if (landed_ != sent_)
    next_psn_ = ring_[landed_].psn;
  sent_ = landed_;
  last_land_at_ = 0;
  is_lost_ = is_not_ready_ = false;
  probe_at_ = never;
}

/// Without an acknowledge time-out nothing is ever sent again by itself: see post_send().
void soft_qp::retry_now(nanos now) {
  std::lock_guard lock{mutex_};
  if (retired_ || !is_lost_ || is_not_ready_ || attributes_.timeout == 0)
    return;
  if (probe_at_ == never) { // held: its patience begins now
    is_retrying_ = true;
    retrying_since_ = now;
  }
  probe_at_ = now;
  reschedule();
}

} // namespace actor_rdma::verbs::soft
