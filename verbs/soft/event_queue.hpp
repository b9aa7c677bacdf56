// SPDX-License-Identifier: Apache-2.0
//
// Events behind a descriptor that applications poll themselves: the async events of a context and the events
// of a completion channel. The descriptor is an eventfd that counts like a semaphore, the events wait here,
// so the queue is unbounded, level-triggered, and blocks or not as the application sets O_NONBLOCK. An event
// may belong to an object, whose destruction drops what was not yet read and waits until everything that was
// read is acknowledged.
#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include <sys/eventfd.h>
#include <unistd.h>

namespace actor_rdma::verbs::soft {

/// Counts the events of one object that were handed out and not yet acknowledged.
class event_ledger {
public:
  void hand_out() noexcept { pending_.fetch_add(1, std::memory_order_relaxed); }
  void acknowledge(std::uint32_t count) noexcept {
    auto pending = pending_.load(std::memory_order_relaxed);
    while (!pending_.compare_exchange_weak(pending, pending - std::min(count, pending),
                                           std::memory_order_release)) {
    }
  }
  /// As libibverbs does: for ever, if need be. Whoever waits is about to free this, so acknowledging must be
  /// over with one instruction: hence no condition variable.
  void wait() const {
    while (pending_.load(std::memory_order_acquire) != 0)
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }

private:
  std::atomic<std::uint32_t> pending_{0};
};

template <class Event>
class event_queue {
public:
  event_queue() : fd_{::eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE)} {}
  ~event_queue() {
    if (fd_ >= 0)
      ::close(fd_);
  }
  event_queue(const event_queue&) = delete;
  event_queue& operator=(const event_queue&) = delete;

  /// -1 when the process had no descriptor left.
  [[nodiscard]] int fd() const noexcept { return fd_; }

  void push(const Event& event, event_ledger* ledger) {
    std::lock_guard lock{mutex_};
    waiting_.push_back({event, ledger});
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(fd_, &one, sizeof one);
  }

  /// Blocks if the descriptor does. Nothing, with errno, when there is no event.
  [[nodiscard]] std::optional<Event> pop() {
    for (;;) {
      std::uint64_t one = 0;
      if (::read(fd_, &one, sizeof one) != static_cast<ssize_t>(sizeof one))
        return std::nullopt;
      std::lock_guard lock{mutex_};
      if (waiting_.empty()) {
        if (!std::exchange(is_interrupted_, false))
          continue; // the count of an event that drop() took away
        errno = EINTR;
        return std::nullopt;
      }
      const auto first = waiting_.front();
      waiting_.pop_front();
      if (first.ledger != nullptr)
        first.ledger->hand_out();
      return first.event;
    }
  }

  [[nodiscard]] bool has_any() {
    std::lock_guard lock{mutex_};
    return !waiting_.empty();
  }

  /// Makes the descriptor readable though nothing happened: one pop() returns with EINTR.
  void interrupt() {
    std::lock_guard lock{mutex_};
    is_interrupted_ = true;
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(fd_, &one, sizeof one);
  }

  /// Takes away what waits for an object that goes.
  void drop(const event_ledger& ledger) {
    std::lock_guard lock{mutex_};
    std::erase_if(waiting_, [&](const item& i) { return i.ledger == &ledger; });
  }

private:
  struct item {
    Event event;
    event_ledger* ledger;
  };

  const int fd_;
  std::mutex mutex_;
  std::deque<item> waiting_;
  bool is_interrupted_ = false;
};

} // namespace actor_rdma::verbs::soft
