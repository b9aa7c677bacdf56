// SPDX-License-Identifier: Apache-2.0
//
// What lies between the threads that use a TCP channel and its control thread: commands for the thread, and
// of each link the frames that wait to be sent. Every call takes one lock for a few instructions; none
// blocks.
#pragma once

#include "base/error.hpp"
#include "bootstrap/channel.hpp"
#include "bootstrap/socket.hpp"

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <variant>
#include <vector>

namespace actor_rdma::bootstrap::tcp {

using frame = std::vector<std::uint8_t>;

struct add_listener {
  unique_fd socket;
  std::string address;
};
struct begin_dial {
  link_id link = 0;
  std::string address;
};
struct name_resolved {
  link_id link = 0;
  base::expected<std::vector<socket_address>> addresses;
};
/// Something waits to be sent.
struct flush_link {
  link_id link = 0;
};
struct close_link {
  link_id link = 0;
};
/// Ends a link without sending what is queued.
struct abort_link {
  link_id link = 0;
  base::error why;
};
struct stop_loop {};

using command =
    std::variant<add_listener, begin_dial, name_resolved, flush_link, close_link, abort_link, stop_loop>;

class mailbox {
public:
  /// `wake` is an eventfd.
  mailbox(unique_fd wake, std::size_t queue_bytes) : wake_{std::move(wake)}, queue_bytes_{queue_bytes} {}

  // Any thread.

  /// A new link that takes frames; ids are never reused.
  link_id open_link();
  /// An id for something that is not a link.
  [[nodiscard]] link_id new_id() noexcept { return next_id_.fetch_add(1, std::memory_order_relaxed); }
  /// False after close_all().
  bool post(command what);
  /// False when the link is gone, or when its queue is full: then it is aborted.
  bool push(link_id link, frame&& bytes);
  /// The link takes no more frames; those it has are still sent.
  void close(link_id link);
  void abort(link_id link, base::error why);
  /// From now on every link is gone.
  void close_all();

  // The control thread.

  [[nodiscard]] int wake_fd() const noexcept { return wake_.get(); }
  [[nodiscard]] std::vector<command> take();
  /// The frames that came since the last call. They count as queued until sent() says otherwise.
  [[nodiscard]] std::deque<frame> take_frames(link_id link);
  void sent(link_id link, std::size_t bytes);
  void seal(link_id link);
  void forget(link_id link);

private:
  struct outbox {
    std::deque<frame> frames;
    std::size_t bytes = 0; // of these frames and of those that the control thread has not sent yet
    bool sealed = false;
  };

  void add(command&& what); // the lock is held
  void wake() noexcept;

  const unique_fd wake_;
  const std::size_t queue_bytes_;
  std::atomic<link_id> next_id_{1};
  std::mutex mutex_;
  std::map<link_id, outbox> links_;
  std::vector<command> commands_;
  bool closed_ = false;
};

} // namespace actor_rdma::bootstrap::tcp
