// SPDX-License-Identifier: Apache-2.0
// The end of an open device, and the next beginning of a lost one. First its QPs have to be gone, which is
// the local fence of everything that was posted; then the node takes back what it has registered, and all
// that is left is closed; then it is opened again, with back-off and for as long as it takes. The node
// registers memory on what was opened before the port is even read, so that nobody can meet the device
// without its keys.
#include "actors/device.hpp"
#include "actors/qp.hpp"
#include "actors/qp_connect.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace actor_rdma::actors {

namespace {

/// How often it is looked whether what stands in the way of closing has gone.
constexpr base::duration look_again = std::chrono::milliseconds{20};

} // namespace

void device::watch() {
  env().watch_cq(parts_->cq.get(), parts_->channel, *this);
  env().watch_fd(parts_->ctx.async_fd(), *this);
  watches_cq_ = watches_events_ = true;
}

void device::unwatch() {
  if (std::exchange(watches_cq_, false))
    env().unwatch_cq(parts_->cq.get());
  unwatch_events();
}

void device::unwatch_events() {
  if (std::exchange(watches_events_, false))
    env().unwatch_fd(parts_->ctx.async_fd());
}

// -- the end --------------------------------------------------------------------------------------

/// Nothing that was posted can be waited for, and no event will come: what is left is to take everything
/// down, and to begin anew.
void device::lose(std::string cause) {
  if (std::exchange(lost_, true))
    return;
  parts_->ctx.mark_gone();
  unwatch_events(); // a dead descriptor stays readable
  schedule_.lost(env().now());
  quarantine_told_ = memory_released_ = memory_refused_ = false;
  note(observe::event_kind::device_lost, cause, opening_,
       schedule_.is_old_news() ? base::level::debug : base::level::warn);
  raise(device_event::lost, std::move(cause));
}

bool device::is_ending() const noexcept {
  return machine_.state() == device_state::draining || machine_.state() == device_state::retired;
}

/// Whether no WR of ours and no call can touch what is to be closed.
bool device::is_quiet() const noexcept {
  return undead_.empty() && !reading_ && !being_opened_ &&
         std::none_of(qps_.begin(), qps_.end(), [&](auto* q) {
           return q != nullptr && (!lost_ || q->has_pair()); // of a lost one they stay, and wait
         });
}

/// Closes once the last QP is gone. Destroys are retried for as long as it takes, so this may wait for ever;
/// shutdown does not, it reports what is left.
void device::try_to_close() {
  if (machine_.state() == device_state::retired)
    return close(); // once more
  if (only_refused_is_left())
    return close_over();
  if (!is_quiet()) {
    say_what_is_left();
    return next_read(look_again);
  }
  unwatch();
  if (!lost_ || stop_asked_by_)
    return raise(device_event::drained, "its QPs are gone");
  if (!std::exchange(being_closed_, true))
    announce(); // for the node, whose regions have to go now: no call may follow the close of their context
  if (memory_released_)
    return close();
  say_what_is_left();
  next_read(look_again);
}

/// Of a device that is lost: everything that could be destroyed has been, and nobody calls the rest but to
/// destroy it.
bool device::only_refused_is_left() const noexcept {
  if (!lost_ || !parts_ || reading_ || being_opened_ || closing_over_ || *parts_->ctx.closed())
    return false;
  bool any = memory_refused_ && !memory_released_;
  for (const auto* q : qps_)
    if (q != nullptr && q->has_pair()) {
      if (!q->refuses_to_go())
        return false;
      any = true;
    }
  for (const auto& dead : undead_) {
    if (!dead->refused)
      return false;
    any = true;
  }
  return any && env().now() >= close_over_again_;
}

/// The one call that is left. It is also the fence of what was posted, and is told to those who wait for it.
void device::close_over() {
  closing_over_ = true;
  close_over_again_ = env().now() + config_.drain_deadline;
  unwatch();
  auto failure = std::make_shared<base::error>(base::error{base::reason::none});
  env().run_slow(
      number_,
      [parts = parts_, failure] {
        if (auto closed = parts->close_over(); !closed)
          *failure = closed.error();
      },
      [self = shared(this), failure] { self->guarded([&] { self->closed_over(*failure); }); });
}

void device::closed_over(const base::error& failure) {
  closing_over_ = false;
  if (failure.why != base::reason::none) {
    left_behind_ = {failure.to_string()};
  } else {
    for (auto* q : qps_)
      if (q != nullptr)
        q->on_context_closed();
    for (const auto& dead : std::vector(undead_))
      dig(dead);
  }
  try_to_close();
}

/// A destroying call failed. If it is the device that is lost, there is another way.
void device::destroy_refused() {
  if (lost_ && machine_.state() == device_state::draining)
    guarded([&] { try_to_close(); });
}

/// What refuses to go is tried again for as long as the node goes on, and for a while when that ends.
void device::close() {
  if (poll_ != deadline_id::none)
    env().cancel(std::exchange(poll_, deadline_id::none));
  if (!parts_)
    return closed();
  if (close_until_ == base::time_point{})
    close_until_ = env().now() + config_.remote_fence_timeout;
  env().run_slow(
      number_, [self = shared(this), parts = parts_] { self->left_behind_ = parts->close(); },
      [self = shared(this)] { self->guarded([&] { self->closed(); }); });
}

void device::closed() {
  if (machine_.state() == device_state::retired) {
    if (left_behind_.empty() || env().now() >= close_until_)
      return answer_stop();
    return next_read(look_again);
  }
  if (stop_asked_by_)
    return try_to_close();
  if (!left_behind_.empty()) {
    say_what_is_left();
    return next_read(look_again);
  }
  parts_ = nullptr;
  being_closed_ = false;
  close_over_again_ = close_until_ = {};
  raise(device_event::released, "everything of it is released");
}

/// Once, when it takes longer than it should.
void device::say_what_is_left() {
  if (!lost_ || schedule_.away(env().now()) < config_.remote_fence_timeout ||
      std::exchange(quarantine_told_, true))
    return;
  const auto pairs = std::count_if(qps_.begin(), qps_.end(), [](auto* q) { return q && q->has_pair(); });
  std::string left =
      fmt::format("{} QPs that could not be destroyed", undead_.size() + static_cast<std::size_t>(pairs));
  if (!memory_released_)
    left += "; memory regions";
  for (const auto& what : left_behind_)
    left += "; " + what;
  cause_ = "not released yet: " + left;
  note(observe::event_kind::quarantined, cause_, undead_.size(), base::level::error);
}

void device::answer_stop() {
  if (stop_asked_by_)
    caf::anon_send(std::exchange(stop_asked_by_, nullptr), stopped{name_, std::move(left_behind_)});
  subscribers_.clear();
  end_actor();
}

// -- the beginning --------------------------------------------------------------------------------

void device::open_later() {
  open_timer_ =
      env().arm(env().now() + schedule_.next(env().random()), *this, static_cast<std::uint64_t>(timer::open));
}

void device::open() {
  being_opened_ = true;
  open_timer_ =
      env().arm(env().now() + config_.connect_deadline, *this, static_cast<std::uint64_t>(timer::attempt));
  auto made = std::make_shared<base::expected<open_device>>(base::fail(base::reason::none, "", ""));
  env().run_slow(
      number_, [made, recipe = recipe_] { *made = open_device::open(recipe); },
      [self = shared(this), made] { self->guarded([&] { self->opened(*made); }); });
}

void device::opened(base::expected<open_device>& made) {
  being_opened_ = false;
  if (open_timer_ != deadline_id::none)
    env().cancel(std::exchange(open_timer_, deadline_id::none));
  if (machine_.state() != device_state::rebuilding) { // it is being stopped
    if (made)
      parts_ = std::make_shared<open_device>(std::move(*made));
    return try_to_close();
  }
  if (!made) {
    const auto why = made.error().to_string();
    const bool is_known = std::exchange(last_open_failure_, why) == why;
    note(observe::event_kind::attempt_failed, "it cannot be opened: " + why, schedule_.attempts(),
         is_known ? base::level::debug : base::level::warn);
    return raise(device_event::open_failed, why);
  }
  if (made->cq_entries < cq_reserved_)
    return dismiss(std::move(*made), fmt::format("its CQ has {} entries now, and {} are needed",
                                                 made->cq_entries, cq_reserved_));
  parts_ = std::make_shared<open_device>(std::move(*made));
  ++opening_;
  lost_ = memory_ready_ = false;
  last_open_failure_.clear();
  watch();
  note(observe::event_kind::device_opened,
       fmt::format("open again at attempt {}, {:.3f} s after it was lost", schedule_.attempts(),
                   std::chrono::duration<double>(schedule_.away(env().now())).count()),
       schedule_.attempts(), schedule_.is_old_news() ? base::level::debug : base::level::info);
  raise(device_event::opened, "it is open again");
  next_read(10 * config_.port_poll);
}

/// What was opened cannot be used.
void device::dismiss(open_device&& made, std::string why) {
  being_opened_ = true;
  auto unwanted = std::make_shared<open_device>(std::move(made));
  unwanted->ctx.mark_gone(); // nothing was posted on it
  auto failed = std::make_shared<base::expected<open_device>>(
      base::fail(base::error{base::reason::resource, "verbs", name_, {}, {}, std::move(why)}));
  env().run_slow(
      number_, [unwanted] { (void)unwanted->close(); },
      [self = shared(this), failed] { self->guarded([&] { self->opened(*failed); }); });
}

} // namespace actor_rdma::actors
