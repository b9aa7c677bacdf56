// SPDX-License-Identifier: Apache-2.0
//
// The loop itself: events, timers, commands and the one exit of every link.
#include "bootstrap/tcp_loop.hpp"

#include "bootstrap/link_end.hpp"

#include <algorithm>
#include <array>
#include <cerrno>

#include <sys/epoll.h>

namespace actor_rdma::bootstrap::tcp {

namespace {

constexpr base::duration stop_patience = std::chrono::milliseconds{300};
constexpr link_id mailbox_id = 0; // what epoll says for the mailbox; links and listeners begin at 1

} // namespace

base::expected<unique_fd> open_epoll(const mailbox& mail) {
  unique_fd epoll{::epoll_create1(EPOLL_CLOEXEC)};
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = mailbox_id;
  if (!epoll || ::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, mail.wake_fd(), &event) != 0)
    return base::fail(base::reason::resource, "bootstrap", "cannot create an epoll", errno);
  return epoll;
}

loop::loop(mailbox& mail, unique_fd epoll, name_resolver& names, const tcp_options& options,
           channel_handler& handler)
    : mail_{mail}, epoll_{std::move(epoll)}, names_{names}, options_{options}, handler_{handler},
      read_buffer_(std::size_t{64} << 10) {}

void loop::run() {
  while (!stop_deadline_ || (!links_.empty() && base::mono_clock::now() < *stop_deadline_)) {
    std::array<epoll_event, 64> events{};
    const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), wait_ms());
    for (int i = 0; i < count; ++i) {
      const auto& event = events[static_cast<std::size_t>(i)];
      if (event.data.u64 != mailbox_id)
        on_event(event.data.u64, event.events);
    }
    for (auto& what : mail_.take())
      std::visit([this](auto& it) { on(std::move(it)); }, what);
    const auto now = base::mono_clock::now();
    while (!timers_.empty() && timers_.begin()->first <= now)
      on_timer(timers_.begin()->second);
  }
  mail_.close_all();
  while (!links_.empty())
    finish(*links_.begin()->second, links_.begin()->second->end);
}

void loop::on_event(link_id id, std::uint32_t events) {
  if (const auto found = listeners_.find(id); found != listeners_.end()) {
    accept_all(id, found->second);
    return;
  }
  auto* const at = find(id); // it may have ended earlier in this turn
  if (!at)
    return;
  if (at->state == link_state::connecting) {
    on_connect_done(*at);
    return;
  }
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0 && !read(*at))
    return;
  if ((events & EPOLLOUT) != 0)
    flush(*at);
}

void loop::on_timer(link_id id) {
  if (const auto found = listeners_.find(id); found != listeners_.end()) {
    on_rest_over(id, found->second);
    return;
  }
  auto& at = *links_.at(id);
  switch (at.state) {
  case link_state::resolving:
    finish(at, link_end::timed_out(at.peer, "the name could not be resolved in time"));
    break;
  case link_state::connecting: on_connect_expired(at); break;
  case link_state::open:
    complain("closed the link from {}: no valid message came in time", at.peer);
    finish(at, link_end::timed_out(at.peer, "no valid message came in time"));
    break;
  case link_state::closing: finish(at, at.end); break;
  }
}

void loop::on(flush_link&& what) {
  if (auto* const at = find(what.link);
      at && (at->state == link_state::open || at->state == link_state::closing))
    flush(*at);
}

void loop::on(close_link&& what) {
  if (auto* const at = find(what.link))
    begin_close(*at, link_end::closed_by_us(at->peer));
}

void loop::on(abort_link&& what) {
  auto* const at = find(what.link);
  if (!at)
    return;
  what.why.peer = at->peer;
  complain("closed the link with {}: {}", at->peer, what.why.what);
  finish(*at, what.why);
}

void loop::on(stop_loop&&) {
  stop_deadline_ = base::mono_clock::now() + std::min(options_.linger, stop_patience);
  for (auto& [id, from] : listeners_)
    arm(id, from.timer, base::time_never);
  listeners_.clear();
  std::vector<link_id> ids;
  for (const auto& entry : links_)
    ids.push_back(entry.first);
  for (const auto id : ids) {
    if (auto* const at = find(id))
      begin_close(*at, link_end::stopped(at->peer));
  }
}

void loop::finish(link& at, const base::error& why) {
  base::log(base::level::debug, "bootstrap", "link {} ended: {}", at.id, why.to_string());
  mail_.forget(at.id);
  arm(at.id, at.timer, base::time_never);
  at.socket = unique_fd{};                  // which takes it out of epoll
  const auto ended = links_.extract(at.id); // not destroyed yet, as `why` may be a part of it
  handler_.on_closed(ended.key(), why);
}

bool loop::watch(link& at, std::uint32_t interest) {
  if (interest == at.interest)
    return true;
  const int how = at.interest == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
  at.interest = interest;
  return control(how, at.socket, at.id, interest);
}

bool loop::control(int how, const unique_fd& socket, link_id id, std::uint32_t interest) {
  epoll_event event{};
  event.events = interest;
  event.data.u64 = id;
  return ::epoll_ctl(epoll_.get(), how, socket.get(), &event) == 0;
}

void loop::arm(link_id id, base::time_point& timer, base::time_point when) {
  if (timer != base::time_never)
    timers_.erase({timer, id});
  timer = when;
  if (timer != base::time_never)
    timers_.insert({timer, id});
}

int loop::wait_ms() const {
  auto until = stop_deadline_.value_or(base::time_never);
  if (!timers_.empty())
    until = std::min(until, timers_.begin()->first);
  if (until == base::time_never)
    return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - base::mono_clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000));
}

loop::link* loop::find(link_id id) {
  const auto found = links_.find(id);
  return found == links_.end() ? nullptr : found->second.get();
}

} // namespace actor_rdma::bootstrap::tcp
