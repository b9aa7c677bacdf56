// SPDX-License-Identifier: Apache-2.0
//
// Addresses of TCP sockets, and the text in which people write them: "host:port", "[::1]:port",
// "[fe80::1%eth0]:port". An empty host is the loopback address: nothing is open to the network unless someone
// asked for it.
#pragma once

#include "base/error.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <sys/socket.h>

namespace actor_rdma::bootstrap {

class socket_address {
public:
  socket_address() = default;
  socket_address(const sockaddr* address, socklen_t size) noexcept;

  [[nodiscard]] const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&storage_); }
  [[nodiscard]] socklen_t size() const noexcept { return size_; }
  [[nodiscard]] int family() const noexcept { return storage_.ss_family; }
  [[nodiscard]] bool is_wildcard() const noexcept; ///< 0.0.0.0 or ::
  [[nodiscard]] std::uint16_t port() const noexcept;
  void set_port(std::uint16_t port) noexcept;

  /// "10.0.0.1:5000", "[::1]:5000"; an IPv4 address inside an IPv6 one reads as IPv4.
  [[nodiscard]] std::string to_string() const;
  friend bool operator==(const socket_address& a, const socket_address& b) {
    return a.to_string() == b.to_string();
  }

private:
  sockaddr_storage storage_{};
  socklen_t size_ = 0;
};

struct host_port {
  std::string host; ///< without brackets, never empty
  std::uint16_t port = 0;
};
[[nodiscard]] base::expected<host_port> split_host_port(const std::string& text);
[[nodiscard]] std::string join_host_port(const std::string& host, std::uint16_t port);

/// Turns a host into its addresses, best first and never none. May block for many seconds.
using name_lookup = std::function<base::expected<std::vector<socket_address>>(const host_port&)>;
/// The system's resolver.
[[nodiscard]] base::expected<std::vector<socket_address>> system_lookup(const host_port& where);
/// Nothing unless the host is a number. Does not block.
[[nodiscard]] std::optional<socket_address> numeric_address(const host_port& where);

/// An address of this machine that others may reach, of that family: the first interface that is up and is
/// not loopback, or else loopback.
[[nodiscard]] socket_address reachable_address(int family);

} // namespace actor_rdma::bootstrap
