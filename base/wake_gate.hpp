// SPDX-License-Identifier: Apache-2.0
//
// How one consuming thread sleeps and many producing threads wake it, without a lost wake-up and without a
// system call per push.
//
//   consumer                                     producer
//     prepare_sleep()   asleep = true, fence       push to the source
//     look at every source once more               wake()   fence, then if asleep: write the eventfd
//     something there: cancel_sleep()
//     nothing:         wait(timeout)
//
// The two fences order "publish, then look" on both sides, so at least one side sees the other: either the
// consumer finds the push when it looks again, or the producer finds it asleep. Only the producer that turns
// asleep off writes, so a burst of pushes costs one system call. Wake-ups may be spurious, never lost.
//
// Other descriptors (channels, completion channels, async events) sleep in the same epoll set. The gate does
// not own them.
#pragma once

#include "base/error.hpp"
#include "base/time.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <sys/epoll.h>

namespace actor_rdma::base {

class wake_gate {
public:
  static constexpr duration forever = duration::max();
  static constexpr std::size_t max_ready = 16; // per wait, the kernel keeps the others for the next one

  struct ready {
    std::uint64_t token;
    std::uint32_t events; // EPOLLIN and so on
  };

  [[nodiscard]] static expected<std::unique_ptr<wake_gate>> make();
  ~wake_gate();
  wake_gate(const wake_gate&) = delete;
  wake_gate& operator=(const wake_gate&) = delete;

  // -- consumer -----------------------------------------------------------------------------------

  void prepare_sleep() noexcept;
  void cancel_sleep() noexcept;

  /// Sleeps until woken, a descriptor is ready, or the timeout has passed; zero only looks at the
  /// descriptors. Never returns before its timeout for want of resolution. The result lives until the next
  /// wait. It may be empty.
  [[nodiscard]] std::span<const ready> wait(duration timeout) noexcept;

  /// Level-triggered; `token` comes back from wait and must not be UINT64_MAX.
  [[nodiscard]] expected<void> add_fd(int fd, std::uint64_t token, std::uint32_t events = EPOLLIN);
  [[nodiscard]] expected<void> modify_fd(int fd, std::uint64_t token, std::uint32_t events);
  /// Must be called before the descriptor is closed. An unknown one is left alone.
  void remove_fd(int fd) noexcept;

  // -- producers ----------------------------------------------------------------------------------

  /// Any thread, after its push.
  void wake() noexcept;

  // -- figures ------------------------------------------------------------------------------------

  /// How often a producer had to write the eventfd.
  [[nodiscard]] std::uint64_t wakes_written() const noexcept {
    return wakes_written_.load(std::memory_order_relaxed);
  }

private:
  wake_gate(int epoll_fd, int event_fd) noexcept : epoll_fd_{epoll_fd}, event_fd_{event_fd} {}
  [[nodiscard]] expected<void> control(int op, int fd, std::uint64_t token, std::uint32_t events);
  int wait_for_events(std::span<epoll_event> events, duration timeout) noexcept;

  const int epoll_fd_;
  const int event_fd_;
  bool has_pwait2_ = true;
  std::array<ready, max_ready> ready_{};
  // A line of its own: every producer reads it after every push.
  alignas(64) std::atomic<bool> asleep_{false};
  std::atomic<std::uint64_t> wakes_written_{0};
};

} // namespace actor_rdma::base
