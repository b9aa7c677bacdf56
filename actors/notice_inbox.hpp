// SPDX-License-Identifier: Apache-2.0
// Notices that have arrived and that the program has not taken yet. Bounded twice: each sender has a share of
// notice_window places, and all of them together `capacity`. A full inbox refuses, and tells a refused sender
// when there is room again, so that nothing is dropped. Lanes put in, any thread takes out; the lock is held
// for one move and never while foreign code runs.
#pragma once

#include "bootstrap/limits.hpp"
#include "observe/notice.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace actor_rdma::actors {

class notice_inbox {
public:
  /// One sender's account. Its fields belong to the inbox.
  class source {
    friend class notice_inbox;
    std::function<void()> room_again_;
    std::uint64_t held_ = 0;
    bool waits_ = false;   ///< for its own share
    bool starved_ = false; ///< for a place among all
  };

  /// `arrived` is called after every push, on the pushing lane; it must not block.
  explicit notice_inbox(std::size_t capacity, std::function<void()> arrived = {})
      : capacity_(capacity), arrived_(std::move(arrived)) {}

  /// `room_again` is called on any thread, after a push that was refused or a share that was nearly used up,
  /// once room has come.
  std::shared_ptr<source> open(std::function<void()> room_again) const;
  /// The sender is gone: its notices stay, `room_again` is not called any more (but one call may be under
  /// way).
  void close(source& whose);

  /// False when there is no room; nothing is kept then.
  bool push(const std::shared_ptr<source>& from, received_notice&& what);
  /// Free places of the sender's own share.
  std::uint64_t room_of(source& whose);
  /// The oldest. Any thread.
  std::optional<received_notice> take();
  std::size_t size() const;

private:
  struct entry {
    std::shared_ptr<source> from;
    received_notice what;
  };

  const std::size_t capacity_;
  const std::function<void()> arrived_;
  mutable std::mutex mutex_;
  std::deque<entry> entries_;
  std::vector<std::shared_ptr<source>> starved_;
};

} // namespace actor_rdma::actors
