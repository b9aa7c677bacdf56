// SPDX-License-Identifier: Apache-2.0
//
// Events behind a descriptor that applications poll themselves: the async events of a context and the events
// of a completion channel. The descriptor is an eventfd that counts like a semaphore, the events wait here,
// so the queue is unbounded, level-triggered, and blocks or not as the application sets O_NONBLOCK. An event
// may belong to an object, whose destruction drops what was not yet read and waits until everything that was
// read is acknowledged.
#pragma once

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>

#include <sys/eventfd.h>
#include <unistd.h>

namespace actor_rdma::verbs::soft {

/// Counts the events of one object that were handed out and acknowledged.
class event_ledger {
public:
  void hand_out() {
    std::lock_guard lock{mutex_};
    ++pending_;
  }
  void acknowledge(std::uint32_t count) {
    {
      std::lock_guard lock{mutex_};
      pending_ -= std::min(count, pending_);
    }
    all_acknowledged_.notify_all();
  }
  /// As libibverbs does: for ever, if need be.
  void wait() {
    std::unique_lock lock{mutex_};
    all_acknowledged_.wait(lock, [&] { return pending_ == 0; });
  }

private:
  std::mutex mutex_;
  std::condition_variable all_acknowledged_;
  std::uint32_t pending_ = 0;
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
      if (waiting_.empty())
        continue; // the count of an event that drop() took away
      const auto first = waiting_.front();
      waiting_.pop_front();
      if (first.ledger != nullptr)
        first.ledger->hand_out();
      return first.event;
    }
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
};

} // namespace actor_rdma::verbs::soft
