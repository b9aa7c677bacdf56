// SPDX-License-Identifier: Apache-2.0
// Stands between an initiator and a target on the control connection, so that a test can cut that and nothing
// else.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace actor_rdma::process {

class tcp_proxy {
public:
  /// Passes everything on to `target`, "127.0.0.1:port".
  explicit tcp_proxy(const std::string& target);
  ~tcp_proxy();
  tcp_proxy(const tcp_proxy&) = delete;
  tcp_proxy& operator=(const tcp_proxy&) = delete;

  const std::string& address() const noexcept { return address_; }
  /// Resets every connection there is now; new ones are accepted.
  void cut();
  /// Connections that were made through it so far.
  unsigned connections() const noexcept { return connections_.load(); }

private:
  struct connection {
    int near = -1;
    int far = -1;
  };
  void loop();
  void accept_one();
  void drop(std::size_t which);

  std::uint16_t target_port_ = 0;
  std::string address_;
  int listener_ = -1;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> cutting_{false};
  std::atomic<unsigned> connections_{0};
  std::vector<connection> open_; ///< of the thread
  std::thread thread_;
};

} // namespace actor_rdma::process
