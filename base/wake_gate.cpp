// SPDX-License-Identifier: Apache-2.0
//
// The gate over an eventfd inside an epoll set. The eventfd is edge-triggered and never read: each write is
// an edge, which saves the consumer a system call per wake-up.
#include "base/wake_gate.hpp"

#include <algorithm>
#include <cerrno>
#include <limits>

#include <sys/eventfd.h>
#include <unistd.h>

namespace actor_rdma::base {

namespace {

constexpr std::uint64_t wake_token = std::numeric_limits<std::uint64_t>::max();

/// Orders this thread's earlier store before its later load, as seen by another thread that does the same.
void full_fence() noexcept {
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpragmas"
  // The thread sanitizer does not model fences. Here it need not: everything around them is atomic.
#pragma GCC diagnostic ignored "-Wtsan"
#endif
  std::atomic_thread_fence(std::memory_order_seq_cst);
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
}

} // namespace

expected<std::unique_ptr<wake_gate>> wake_gate::make() {
  const int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  if (epoll_fd < 0)
    return fail(reason::resource, "base", "cannot create an epoll set", errno);
  const int event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (event_fd < 0) {
    const int why = errno;
    close(epoll_fd);
    return fail(reason::resource, "base", "cannot create an eventfd", why);
  }
  std::unique_ptr<wake_gate> gate{new wake_gate{epoll_fd, event_fd}};
  if (auto added = gate->control(EPOLL_CTL_ADD, event_fd, wake_token, EPOLLIN | EPOLLET); !added)
    return fail(std::move(added).error());
  return gate;
}

wake_gate::~wake_gate() {
  close(event_fd_);
  close(epoll_fd_);
}

void wake_gate::prepare_sleep() noexcept {
  asleep_.store(true, std::memory_order_relaxed);
  full_fence();
}

void wake_gate::cancel_sleep() noexcept {
  asleep_.store(false, std::memory_order_relaxed);
}

std::span<const wake_gate::ready> wake_gate::wait(duration timeout) noexcept {
  std::array<epoll_event, max_ready> events{};
  const int n = wait_for_events(events, timeout);
  asleep_.store(false, std::memory_order_relaxed);
  std::size_t count = 0;
  for (std::size_t i = 0; n > 0 && i < static_cast<std::size_t>(n); ++i) {
    if (events[i].data.u64 != wake_token)
      ready_[count++] = ready{events[i].data.u64, events[i].events};
  }
  return {ready_.data(), count};
}

int wake_gate::wait_for_events(std::span<epoll_event> events, duration timeout) noexcept {
  using namespace std::chrono;
  const int room = static_cast<int>(events.size());
  if (timeout == forever)
    return epoll_pwait(epoll_fd_, events.data(), room, -1, nullptr);
  timeout = std::max(timeout, duration::zero());
  if (has_pwait2_) {
    const auto whole = duration_cast<seconds>(timeout);
    const timespec ts{.tv_sec = whole.count(), .tv_nsec = (timeout - whole).count()};
    const int n = epoll_pwait2(epoll_fd_, events.data(), room, &ts, nullptr);
    if (n >= 0 || errno != ENOSYS)
      return n; // an interruption by a signal is a spurious wake-up
    has_pwait2_ = false;
  }
  // An old kernel counts milliseconds. Too late by one is harmless, too early would be a busy loop.
  const auto ms =
      std::min<std::int64_t>(ceil<milliseconds>(timeout).count(), std::numeric_limits<int>::max());
  return epoll_wait(epoll_fd_, events.data(), room, static_cast<int>(ms));
}

void wake_gate::wake() noexcept {
  full_fence();
  // The load first: in the usual case, an awake consumer, producers only share the line.
  if (!asleep_.load(std::memory_order_relaxed) || !asleep_.exchange(false, std::memory_order_relaxed))
    return;
  // Cannot block or fill up: the counter would need 2^64 writes.
  [[maybe_unused]] const auto written = eventfd_write(event_fd_, 1);
  wakes_written_.fetch_add(1, std::memory_order_relaxed);
}

expected<void> wake_gate::add_fd(int fd, std::uint64_t token, std::uint32_t events) {
  return control(EPOLL_CTL_ADD, fd, token, events);
}

expected<void> wake_gate::modify_fd(int fd, std::uint64_t token, std::uint32_t events) {
  return control(EPOLL_CTL_MOD, fd, token, events);
}

void wake_gate::remove_fd(int fd) noexcept {
  epoll_event ignored{};
  epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, &ignored);
}

expected<void> wake_gate::control(int op, int fd, std::uint64_t token, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = token;
  if (epoll_ctl(epoll_fd_, op, fd, &event) != 0)
    return fail(reason::resource, "base", "cannot watch descriptor " + std::to_string(fd), errno);
  return {};
}

} // namespace actor_rdma::base
