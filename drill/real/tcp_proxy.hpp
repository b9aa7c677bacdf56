// SPDX-License-Identifier: Apache-2.0
// Stands between an initiator and a target on the control connection, so that this can be cut, slowed down,
// stopped or refused, and nothing else; and so that single messages can get lost on it.
#pragma once

#include "base/time.hpp"
#include "bootstrap/framing.hpp"
#include "bootstrap/memory_channel.hpp"

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace actor_rdma::drill {

/// The next messages of one direction between two hosts, on whichever of their connections they come.
struct message_trap {
  bootstrap::message_fault what;
  std::atomic<std::uint64_t> left;
  std::atomic<base::time_point> met{base::time_never}; ///< the last one
  explicit message_trap(bootstrap::message_fault f) : what(std::move(f)), left(what.count) {}
};

class tcp_proxy {
public:
  /// Passes everything on to `target`, "127.0.0.1:port".
  explicit tcp_proxy(const std::string& target);
  ~tcp_proxy();
  tcp_proxy(const tcp_proxy&) = delete;
  tcp_proxy& operator=(const tcp_proxy&) = delete;

  const std::string& address() const noexcept { return address_; }
  // Any thread.
  /// Resets every connection there is now; new ones are accepted.
  void cut();
  /// While on, nothing is passed on, and dials are answered by the kernel but by nobody behind it. What was
  /// sent meanwhile arrives afterwards, as far as both ends still want it.
  void hold(bool on);
  /// While on, dials are refused, as if nobody listened. Connections stay.
  void refuse(bool on);
  /// Bytes wait so long before they are passed on.
  void set_latency_to_target(base::duration by);
  void set_latency_from_target(base::duration by);
  /// Strikes at messages of this direction; the trap's own names of hosts do not matter here.
  void set_trap(bool towards_target, std::shared_ptr<message_trap> what);
  /// Connections that were made through it so far.
  unsigned connections() const noexcept { return connections_.load(); }

private:
  struct chunk {
    base::time_point due;
    std::string data;
    bool lets_next_pass = false; ///< the next message goes before it, if it comes in time
  };
  struct stream {
    int from;
    int to;
    bool towards_target;
    bool ended = false; ///< what waits is still passed on
    bootstrap::frame_decoder decoder;
    std::deque<chunk> waiting;
    std::size_t bytes = 0;
    stream(int from_fd, int to_fd, bool is_towards_target);
    void add(base::time_point due, std::span<const std::uint8_t> payload);
    bool waits_to_be_overtaken(base::time_point now) const;
  };
  struct connection {
    stream there;
    stream back;
  };
  void loop();
  void accept_one();
  bool read_some(stream& s, stream& other);
  void pass_on(stream& s, stream& other, std::span<const std::uint8_t> payload);
  const bootstrap::message_fault* take_fault(const stream& s, const bootstrap::message& what);
  bool write_some(stream& s) const;
  void drop(std::size_t which);

  std::uint16_t target_port_ = 0;
  std::string address_;
  int listener_ = -1;
  std::atomic<bool> stopping_{false};
  std::atomic<unsigned> connections_{0};
  std::mutex mutex_; ///< of all below
  bool held_ = false;
  bool refusing_ = false;
  base::duration to_target_{};
  base::duration from_target_{};
  std::vector<std::pair<bool, std::shared_ptr<message_trap>>>
      traps_; ///< and whether it is towards the target
  std::vector<connection> open_;
  std::thread thread_;
};

} // namespace actor_rdma::drill
