// SPDX-License-Identifier: Apache-2.0
// A QP's stall clock: how fast it is, how long its silence may last, and what its progress ends.
#include "actors/qp.hpp"

#include <algorithm>
#include <utility>

namespace actor_rdma::actors {

namespace {

/// A new QP is measured this often before its own rate is believed; until then the port's speed is.
constexpr std::uint32_t samples_needed = 64;
constexpr std::uint32_t most_patience = 64;
constexpr double smoothing = 0.1;

} // namespace

void qp::progress_made() {
  const auto now = env().now();
  const auto busy = now - last_progress_;
  if (busy > base::duration::zero() && ended_->count > 0 && !ledger_.empty()) {
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < ended_->count; ++i)
      bytes += ended_->slices[i].what.length;
    const auto seen = static_cast<double>(bytes) / std::chrono::duration<double>(busy).count();
    rate_ = samples_ == 0 ? seen : rate_ + smoothing * (seen - rate_);
    ++samples_;
  }
  last_progress_ = now;
  lost_at_progress_ = env().lost_time();
  stall_rechecked_ = false;
  if (patience_ > 1 && ++works_since_ >= samples_needed)
    patience_ = 1;
  if (machine_.state() == qp_state::paused && std::exchange(paused_.stalled, false)) {
    note(observe::event_kind::false_alarm, "the QP goes on after all", 0, base::level::debug);
    disarm(timer::path_fence);
    arm(timer::stall, stall_limit());
    if (!paused_.held && !paused_.proving)
      raise(qp_event::resume, "it made progress");
  }
}

/// Four times what the bytes ahead should take, and never less than the floor: tail loss, incast and pauses
/// are no hangs. A fence loses what was under way: a link slower than its port says needs growing patience.
base::duration qp::stall_limit() const noexcept {
  const auto rate = samples_ >= samples_needed ? rate_ : device_->port_bytes_per_second();
  const auto ahead = samples_ >= samples_needed ? ledger_.bytes() : device_->bytes_in_flight;
  if (rate <= 0)
    return config_.stall_floor * patience_;
  const std::chrono::duration<double> expected{4.0 * static_cast<double>(ahead) / rate};
  return std::max(config_.stall_floor, std::chrono::duration_cast<base::duration>(expected)) * patience_;
}

void qp::fenced_for_silence() noexcept {
  patience_ = std::min(patience_ * 2, most_patience);
  works_since_ = 0;
}

void qp::start_stall_clock() {
  last_progress_ = env().now();
  lost_at_progress_ = env().lost_time();
  stall_rechecked_ = false;
  if (timers_[static_cast<std::size_t>(timer::stall)] == deadline_id::none)
    arm(timer::stall, stall_limit());
}

/// The clock is armed once and looks when it fires, so that posting and completing never touch it.
void qp::check_stall() {
  if (ledger_.empty() || paused_.stalled)
    return;
  const auto limit = stall_limit();
  const auto waited = env().now() - last_progress_ - (env().lost_time() - lost_at_progress_);
  if (waited < limit)
    return arm(timer::stall, limit - waited);
  if (!std::exchange(stall_rechecked_, true))
    return arm(timer::stall, base::duration::zero()); // once more, after another empty poll
  raise(qp_event::stall, "no completion for the stall limit");
}

} // namespace actor_rdma::actors
