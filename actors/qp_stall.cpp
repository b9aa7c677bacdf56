// SPDX-License-Identifier: Apache-2.0
// A QP's stall clock: how fast it is, how long its silence may last, when that can only be a hang, and what
// its progress ends.
#include "actors/qp.hpp"

#include <algorithm>
#include <utility>

namespace actor_rdma::actors {

namespace {

/// So many completions after a fence for silence show that the QP works.
constexpr std::uint32_t proof_of_work = 64;
constexpr std::uint32_t most_patience = 64;
/// Without a rate that was measured, a silence is explained for no longer.
constexpr base::duration longest_patience = std::chrono::seconds{2};
/// However slow everything is taken to be.
constexpr base::duration longest_limit = std::chrono::seconds{10};

double seconds_for(std::uint64_t bytes, double per_second) noexcept {
  return per_second > 0 ? static_cast<double>(bytes) / per_second : 0;
}

} // namespace

/// Of the QP's own work, the first of it posted at `came`, and that is part of what its device does.
void qp::progress_made(std::uint64_t bytes, std::uint32_t completions, base::time_point came) {
  last_progress_ = env().now();
  lost_at_progress_ = env().lost_time();
  const auto busy_until = last_progress_ - lost_at_progress_;
  const auto busy_from = came - lost_at_progress_;
  drains_.ended(bytes, ledger_.bytes(), busy_from, busy_until);
  device_->drains.ended(bytes, device_->bytes_in_flight - device_->bytes_aside, busy_from, busy_until);
  stall_rechecked_ = false;
  served_ += completions;
  if (patience_ > 1 && (works_since_ += completions) >= proof_of_work)
    patience_ = 1;
  if (machine_.state() == qp_state::paused && std::exchange(paused_.stalled, false)) {
    set_aside(false);
    note(observe::event_kind::false_alarm, "the QP goes on after all", 0, base::level::debug);
    disarm(timer::path_fence);
    arm(timer::stall, stall_limit());
    if (!paused_.held && !paused_.proving)
      raise(qp_event::resume, "it made progress");
  }
}

/// Four times what the bytes ahead should take, and never less than the floor: tail loss, incast and pauses
/// are no hangs. Ahead is what waits on the QP at its rate, and on the device at the device's: QPs that share
/// a slow link take turns, however fast one of them was alone. A fence loses what was under way: a link
/// slower than its port says needs growing patience.
base::duration qp::stall_limit() const noexcept {
  const auto measured = device_->drains.per_second();
  const auto expected = std::max(
      seconds_for(ledger_.bytes(), drains_.per_second()),
      seconds_for(device_->bytes_in_flight, measured > 0 ? measured : device_->port_bytes_per_second()));
  const std::chrono::duration<double> most = longest_limit;
  const std::chrono::duration<double> limit{std::min(4.0 * expected, most.count())};
  const auto known = std::max(config_.stall_floor, std::chrono::duration_cast<base::duration>(limit));
  return std::max(known, std::min(known * patience_, longest_patience));
}

/// The device is not busy with what may hang or waits for a fence: its rate is learned from the rest, and not
/// from the silence that led here.
void qp::set_aside(bool aside) noexcept {
  if (std::exchange(aside_, aside) == aside)
    return;
  if (!aside) {
    device_->bytes_aside -= ledger_.bytes();
    return;
  }
  device_->bytes_aside += ledger_.bytes();
  drains_.doubted();
  device_->drains.doubted();
}

void qp::fenced_for_silence() noexcept {
  patience_ = std::min(patience_ * 2, most_patience);
  works_since_ = 0;
}

void qp::start_stall_clock() {
  last_progress_ = env().now();
  lost_at_progress_ = env().lost_time();
  drains_.began(last_progress_ - lost_at_progress_);
  if (device_->bytes_in_flight == device_->bytes_aside)
    device_->drains.began(last_progress_ - lost_at_progress_);
  stall_rechecked_ = false;
  if (timers_[static_cast<std::size_t>(timer::stall)] == deadline_id::none)
    arm(timer::stall, stall_limit());
}

base::duration qp::silence() const noexcept {
  return env().now() - last_progress_ - (env().lost_time() - lost_at_progress_);
}

/// The clock is armed once and looks when it fires, so that posting and completing never touch it.
void qp::check_stall() {
  if (ledger_.empty() || paused_.stalled)
    return;
  const auto limit = stall_limit();
  const auto waited = silence();
  if (waited < limit)
    return arm(timer::stall, limit - waited);
  if (!std::exchange(stall_rechecked_, true))
    return arm(timer::stall, base::duration::zero()); // once more, after another empty poll
  raise(qp_event::stall, "no completion for the stall limit");
}

// -- from suspicion to a fence --------------------------------------------------------------------

void qp::handle(qp_rail_answers&) {
  if (machine_.state() != qp_state::paused || !paused_.stalled)
    return;
  if (!std::exchange(rail_answers_, true)) {
    silence_at_answer_ = silence();
    reissued_upto_ = ledger_.next() - ledger_.outstanding();
    reissue(offer_to::declined);
  }
  judge_suspect();
}

/// A fence costs both ends a QP and what was under way on it, so its reason must be better than that of a
/// suspicion: the silence is longer than what is under way explains by what is known now (others went on
/// meanwhile, and how fast), and than the device needs to send a lost packet again, which is up to four
/// time-outs of its (IBA, local ACK timeout). That its rail answers is no reason at once: both may have been
/// held up by the same, and its own WRs be the next to end.
base::duration qp::silence_until_hung() const noexcept {
  // 0: the device never sends again
  const base::duration ack_timeout{config_.qp_timeout == 0 ? 0 : 4096LL << config_.qp_timeout};
  const auto since_answer = rail_answers_ ? silence_at_answer_ + config_.stall_floor : base::duration::zero();
  return std::max({stall_limit(), std::min(4 * ack_timeout, config_.path_fence), since_answer}) - silence();
}

breaker::silence qp::silence_of_peer() const noexcept {
  return {where_.peer ? where_.peer->id() : 0, paused_.stalled ? std::optional{suspected_} : std::nullopt};
}

/// An event of the device or the fabric may end by itself. A rail that answers shows that there is none.
bool qp::put_off(timer which) {
  const auto at = device_->fence_at();
  if (at <= env().now())
    return false;
  arm(which, at - env().now());
  return true;
}

void qp::judge_suspect() {
  if (const auto left = silence_until_hung(); left > base::duration::zero())
    return arm(timer::path_fence, left);
  if (!rail_answers_ && put_off(timer::path_fence))
    return;
  fenced_for_silence();
  raise(qp_event::deadline,
        rail_answers_ ? "its rail answers, this QP hangs" : "hung for the stall limit and path_fence");
}

/// A probe waits behind the QP's own work and beside that of the device. Progress in between says that the QP
/// works.
base::duration qp::silence_until_probe_lost() const noexcept {
  const auto waited = env().now() - probe_posted_ - (env().lost_time() - lost_at_probe_);
  return std::max(config_.probe_deadline, stall_limit()) - std::min(waited, silence());
}

void qp::judge_probe() {
  if (const auto left = silence_until_probe_lost(); left > base::duration::zero())
    return arm(timer::probe, left);
  if (machine_.state() == qp_state::rebuilding)
    raise(qp_event::deadline, "the probe was not answered");
  else if (!put_off(timer::probe)) // also one that asked for a sibling: it hangs here as well
    raise(qp_event::fence, "it did not answer a probe");
}

/// Issues every outstanding slice once more, elsewhere. The WRs stay out: they may still succeed, and must be
/// fenced.
void qp::reissue(offer_to to) {
  if (!where_.peer || ledger_.empty())
    return;
  chunk_ptr c;
  std::uint64_t n = 0;
  std::uint64_t trace = 0; // of all of them, if it is one
  auto position = ledger_.next() - ledger_.outstanding();
  const auto hand_over = [&] {
    c->slot = where_.slot;
    c->generation = generation_;
    caf::anon_send(where_.peer, suspected{c, to});
    c = nullptr;
    reissued_upto_ = position;
  };
  try {
    ledger_.each([&](slice& s) {
      if (static_cast<std::int32_t>(position++ - reissued_upto_) < 0)
        return;
      if (!c)
        c = chunks_.take();
      trace = n == 0 || trace == s.batch->trace ? s.batch->trace : 0;
      auto other = again(s);
      other.avoid = device_->number();
      c->add(other, wr_end::flushed);
      ++n;
      if (c->full())
        hand_over();
    });
    if (c)
      hand_over();
  } catch (...) {
    for (std::size_t i = 0; c && i < c->count; ++i)
      --c->slices[i].what.record->holds; // the WR has its own: nobody else carries them
    throw;
  }
  if (n > 0)
    note(observe::event_kind::reissued,
         to == offer_to::declined ? "its own rail may carry outstanding slices"
                                  : "outstanding slices go to another rail",
         n, base::level::debug, trace);
}

} // namespace actor_rdma::actors
