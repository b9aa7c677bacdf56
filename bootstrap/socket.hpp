// SPDX-License-Identifier: Apache-2.0
//
// The few socket calls of the TCP channel, with their options set: everything is non-blocking and closed on
// exec.
#pragma once

#include "base/error.hpp"
#include "base/time.hpp"
#include "bootstrap/socket_address.hpp"

#include <cstdint>
#include <span>
#include <utility>

#include <unistd.h>

namespace actor_rdma::bootstrap {

class unique_fd {
public:
  unique_fd() = default;
  explicit unique_fd(int fd) noexcept : fd_{fd} {}
  unique_fd(unique_fd&& other) noexcept : fd_{std::exchange(other.fd_, -1)} {}
  unique_fd& operator=(unique_fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~unique_fd() {
    if (fd_ >= 0)
      ::close(fd_);
  }

  [[nodiscard]] int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }

private:
  int fd_ = -1;
};

/// Bound and listening, so that it can be dialled before anyone accepts.
[[nodiscard]] base::expected<unique_fd> open_listener(const socket_address& address);
/// A socket that has begun to connect; writable when the outcome is known.
[[nodiscard]] base::expected<unique_fd> begin_connect(const socket_address& address);
/// The next connection of a listener, or an empty descriptor with errno set.
[[nodiscard]] unique_fd accept_one(const unique_fd& listener, socket_address& peer) noexcept;

/// The outcome of a connect: 0 or an errno.
[[nodiscard]] int take_socket_error(const unique_fd& socket) noexcept;
/// Dialling an unused port of this host can meet itself: the system may choose that very port for our end.
[[nodiscard]] bool is_connected_to_itself(const unique_fd& socket) noexcept;
[[nodiscard]] socket_address local_address(const unique_fd& socket) noexcept;

/// Small messages leave at once, and a peer that acknowledges nothing for `silence` ends the connection,
/// whether something is on its way to it or not.
void tune_stream(const unique_fd& socket, base::duration silence) noexcept;

} // namespace actor_rdma::bootstrap
