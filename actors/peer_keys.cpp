// SPDX-License-Identifier: Apache-2.0
// Keys that the peer refused: its published memory is read again before anything of the range is posted. The
// peer publishes before it takes a region away, and a ping that is sent after the refusal comes behind that
// on the same link; so when its pong is here, what was published by then is here too.
#include "actors/peer.hpp"

#include <chrono>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace actor_rdma::actors {

void peer::keys_refused() {
  if (refresh_token_ != 0) {
    refresh_again_ = true;
    return;
  }
  refresh_token_ = ++last_token_;
  refresh_timer_ = env().arm(env().now() + config_.connect_deadline, *this, refresh_due_token);
  ask_for_refresh();
}

void peer::source_barred(const refusal_budget::source& who, base::time_point) {
  note(observe::event_kind::barred,
       fmt::format("devices refused {} requests between our buffer {} and the peer's {} within {} s: such "
                   "requests fail for a while without being posted",
                   refusal_budget::allowed, who.local, who.remote,
                   refusal_budget::window / std::chrono::seconds{1}),
       refusal_budget::allowed, base::level::warn);
}

std::string peer::describe(const reach::pair& which) const {
  const bool ours = which.whose == reach::side::ours;
  const auto& devices = memory_->published.devices;
  return fmt::format("{} {} and {} buffer {}", ours ? "our device" : "the peer's device",
                     ours                            ? where_.devices.at(which.device).object->name()
                     : which.device < devices.size() ? devices[which.device].device
                                                     : std::to_string(which.device),
                     ours ? "our" : "its", which.buffer);
}

void peer::pair_avoided(const reach::pair& which, base::time_point retry_at) {
  const auto pause = std::chrono::duration_cast<std::chrono::milliseconds>(retry_at - env().now());
  note(observe::event_kind::memory_avoided,
       fmt::format(
           "{}: the device does not reach the memory, though the same request succeeds by another one; the "
           "pair is avoided and tried again in {} ms",
           describe(which), pause.count()),
       static_cast<std::uint64_t>(pause.count()), base::level::warn);
}

void peer::pair_works(const reach::pair& which) {
  note(observe::event_kind::memory_reached, describe(which) + ": requests succeed again", 0,
       base::level::info);
}

/// Something waits until such a pair is tried again.
void peer::arm_reach() {
  const auto due = queue_.next_try();
  if (due == base::time_point::max() || (reach_timer_ != deadline_id::none && reach_due_ <= due))
    return;
  if (reach_timer_ != deadline_id::none)
    env().cancel(std::exchange(reach_timer_, deadline_id::none));
  reach_timer_ = env().arm(due, *this, reach_token);
  reach_due_ = due;
}

/// Also when the link is back: what was asked on the old one may be lost.
void peer::ask_for_refresh() {
  if (refresh_token_ != 0 && machine_.state() == session_state::ready)
    send(bootstrap::ping{refresh_token_});
}

void peer::refresh_answered(std::uint64_t token) {
  if (token != refresh_token_ || token == 0)
    return;
  if (std::exchange(refresh_again_, false)) {
    refresh_token_ = ++last_token_;
    return ask_for_refresh();
  }
  end_refresh();
  const auto going_on = queue_.refreshed(memory_);
  note(observe::event_kind::keys_refreshed,
       fmt::format("a key was refused; by what it publishes now (version {}), {} transfers go on",
                   memory_->published.version, going_on),
       going_on, base::level::info);
  pump();
}

void peer::end_refresh() noexcept {
  refresh_token_ = 0;
  refresh_again_ = false;
  if (refresh_timer_ != deadline_id::none)
    env().cancel(std::exchange(refresh_timer_, deadline_id::none));
}

} // namespace actor_rdma::actors
