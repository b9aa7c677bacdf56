// SPDX-License-Identifier: Apache-2.0
// Jobs of a simulated lane.
#include "actors/sim_lane.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <caf/send.hpp>
#include <fmt/format.h>
#include <poll.h>

namespace actor_rdma::actors {

namespace {

/// How long a slow verbs call takes in virtual time.
constexpr std::int64_t slow_min_ns = 5'000;
constexpr std::int64_t slow_max_ns = 300'000;
constexpr int poll_batch = 64;

} // namespace

sim_lane::sim_lane(sim_world& world, std::string name, std::uint64_t seed)
    : world_(world), name_(std::move(name)), random_(seed) {}

deadline_id sim_lane::arm(base::time_point when, deadline_sink& sink, std::uint64_t token) {
  if (world_.arming)
    world_.arming();
  const auto id = next_timer_++;
  timers_[{when, id}] = armed{&sink, token};
  armed_at_[id] = when;
  return static_cast<deadline_id>(id);
}

bool sim_lane::cancel(deadline_id id) {
  const auto at = armed_at_.find(static_cast<std::uint64_t>(id));
  if (at == armed_at_.end())
    return false;
  timers_.erase({at->second, at->first});
  armed_at_.erase(at);
  return true;
}

void sim_lane::cancel_all(const deadline_sink& sink) {
  std::erase_if(timers_, [&](const auto& timer) {
    if (timer.second.sink != &sink)
      return false;
    armed_at_.erase(timer.first.second);
    return true;
  });
}

void sim_lane::watch_cq(ibv_cq* cq, verbs::completion_channel&, cq_sink& sink) {
  cqs_.push_back({cq, &sink, true});
}

void sim_lane::unwatch_cq(ibv_cq* cq) {
  std::erase_if(cqs_, [&](const auto& w) { return w.cq == cq; });
}

void sim_lane::watch_fd(int fd, fd_sink& sink) {
  fds_.push_back({fd, &sink, true});
}

void sim_lane::unwatch_fd(int fd) {
  std::erase_if(fds_, [&](const auto& w) { return w.fd == fd; });
}

void sim_lane::run_slow(std::uint32_t queue, std::function<void()> work, std::function<void()> done) {
  auto& q = slow_[queue];
  const auto after = q.empty() ? now() : std::max(now(), q.back().starts);
  q.push_back(
      {after + base::duration{random_.between(slow_min_ns, slow_max_ns)}, std::move(work), std::move(done)});
}

void sim_lane::look_at_everything() noexcept {
  for (auto& w : cqs_)
    w.look = true;
  for (auto& w : fds_)
    w.look = true;
}

// Jobs in a fixed order: ring, due timers (one: the earliest), slow calls by queue, CQs, descriptors.

void sim_lane::set_frozen(bool on) {
  if (on == is_frozen())
    return;
  if (on) {
    frozen_since_ = now();
    return;
  }
  lost_ += now() - *frozen_since_;
  frozen_since_.reset();
}

std::size_t sim_lane::jobs() {
  if (is_frozen())
    return 0;
  if (arrivals_)
    if (const auto now_at = arrivals_(); std::exchange(arrivals_seen_, now_at) != now_at)
      look_at_everything();
  std::size_t n = ring_.empty() ? 0 : 1;
  n += !timers_.empty() && timers_.begin()->first.first <= now() ? 1 : 0;
  for (const auto& [queue, calls] : slow_)
    n += !calls.empty() && calls.front().starts <= now() ? 1 : 0;
  for (const auto& w : cqs_)
    n += w.look ? 1 : 0;
  for (const auto& w : fds_)
    n += w.look ? 1 : 0;
  return n;
}

void sim_lane::run(std::size_t k) {
  if (!ring_.empty() && k-- == 0) {
    auto job = std::move(ring_.front());
    ring_.pop_front();
    return job();
  }
  if (!timers_.empty() && timers_.begin()->first.first <= now() && k-- == 0) {
    // Completions that are there are looked at before a deadline is believed.
    for (auto& w : std::vector(cqs_))
      if (std::any_of(cqs_.begin(), cqs_.end(), [&](const auto& x) { return x.cq == w.cq; }))
        poll(w);
    if (timers_.empty() || timers_.begin()->first.first > now())
      return;
    const auto [key, what] = *timers_.begin();
    timers_.erase(timers_.begin());
    armed_at_.erase(key.second);
    return what.sink->on_deadline(what.token);
  }
  for (auto& [queue, calls] : slow_) {
    if (calls.empty() || calls.front().starts > now() || k-- != 0)
      continue;
    auto call = std::move(calls.front());
    calls.pop_front();
    base::duration longer{};
    if (call.work) { // otherwise it took longer than usual, and ends now
      world_.set_running(sim_world::job::slow_call, this);
      take_slow_time(); // what calls on the lane took is not this one's
      call.work();
      world_.everything_may_have_changed(); // a move to ERR flushes
      longer = take_slow_time();
    }
    if (longer > base::duration{})
      calls.push_front({now() + longer, {}, std::move(call.done)});
    else
      ring_.push_back(std::move(call.done));
    if (calls.empty())
      slow_.erase(queue);
    return;
  }
  for (auto& w : cqs_)
    if (w.look && k-- == 0) {
      w.look = false;
      auto copy = w;
      return poll(copy);
    }
  for (auto& w : fds_)
    if (w.look && k-- == 0) {
      w.look = false;
      pollfd p{w.fd, POLLIN, 0};
      if (::poll(&p, 1, 0) == 1)
        w.sink->on_readable(w.fd);
      return;
    }
}

base::duration sim_lane::take_slow_time() const {
  return world_.take_slow_time ? world_.take_slow_time() : base::duration{};
}

void sim_lane::poll(watched_cq& w) {
  std::array<ibv_wc, poll_batch> wcs;
  const auto n = ::ibv_poll_cq(w.cq, poll_batch, wcs.data());
  if (n < 0)
    return w.sink->on_cq_failed(-n);
  if (n == 0)
    return;
  world_.trace(fmt::format("{}: {} completions", name_, n));
  for (auto& again : cqs_)
    again.look = again.look || again.cq == w.cq;
  w.sink->on_completions({wcs.data(), static_cast<std::size_t>(n)});
}

std::optional<base::time_point> sim_lane::next_time() const {
  std::optional<base::time_point> next;
  if (is_frozen())
    return next;
  const auto consider = [&](base::time_point t) { next = next ? std::min(*next, t) : t; };
  if (!timers_.empty())
    consider(timers_.begin()->first.first);
  for (const auto& [queue, calls] : slow_)
    if (!calls.empty())
      consider(calls.front().starts);
  return next;
}

void sim_lane::end_actors() {
  for (const auto& a : actors_)
    caf::anon_send_exit(a, caf::exit_reason::kill);
  actors_.clear();
  ring_.clear();
  slow_.clear();
  timers_.clear();
  armed_at_.clear();
}

} // namespace actor_rdma::actors
