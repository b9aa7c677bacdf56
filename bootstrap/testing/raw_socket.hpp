// SPDX-License-Identifier: Apache-2.0
//
// A plain blocking TCP client or server for tests: a peer that does not keep to the protocol.
#pragma once

#include "bootstrap/framing.hpp"
#include "bootstrap/socket.hpp"

#include <string>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

namespace actor_rdma::bootstrap::testing {

inline socket_address address_of(const std::string& text) {
  return *numeric_address(*split_host_port(text));
}

class raw_socket {
public:
  explicit raw_socket(unique_fd socket) : socket_{std::move(socket)} { become_blocking(); }
  /// Dials.
  explicit raw_socket(const std::string& address) : raw_socket{*begin_connect(address_of(address)), 0} {}

  bool send(const std::vector<std::uint8_t>& bytes) {
    return ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
  }
  bool send(const std::string& text) { return send(std::vector<std::uint8_t>(text.begin(), text.end())); }

  /// What comes until the peer closes, or for so long.
  std::vector<std::uint8_t> receive_all(int patience_ms = 5000) {
    std::vector<std::uint8_t> result;
    std::vector<std::uint8_t> buffer(4096);
    for (;;) {
      pollfd waiting{socket_.get(), POLLIN, 0};
      if (::poll(&waiting, 1, patience_ms) <= 0)
        return result;
      const auto got = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
      if (got <= 0) {
        closed_ = true;
        return result;
      }
      result.insert(result.end(), buffer.begin(), buffer.begin() + got);
    }
  }
  /// Whether receive_all() saw the peer close.
  [[nodiscard]] bool closed() const { return closed_; }

  /// Closes with a reset instead of in good order.
  void reset() {
    const linger hard{1, 0};
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    socket_ = unique_fd{};
  }

private:
  raw_socket(unique_fd socket, int) : socket_{std::move(socket)} {
    pollfd waiting{socket_.get(), POLLOUT, 0};
    ::poll(&waiting, 1, 5000);
    become_blocking();
  }
  void become_blocking() { ::fcntl(socket_.get(), F_SETFL, 0); }

  unique_fd socket_;
  bool closed_ = false;
};

} // namespace actor_rdma::bootstrap::testing
