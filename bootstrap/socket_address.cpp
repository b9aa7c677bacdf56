// SPDX-License-Identifier: Apache-2.0
//
// Reading and writing socket addresses. All parsing of numbers is left to the system, which knows about zones
// and embedded IPv4.
#include "bootstrap/socket_address.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <memory>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

namespace actor_rdma::bootstrap {

namespace {

template <class T>
T read_as(const sockaddr_storage& storage) noexcept {
  T address;
  std::memcpy(&address, &storage, sizeof address);
  return address;
}

base::expected<std::vector<socket_address>> look_up(const host_port& where, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int status = getaddrinfo(where.host.c_str(), std::to_string(where.port).c_str(), &hints, &list);
  if (status != 0)
    return base::fail(base::reason::not_found, "bootstrap",
                      "cannot resolve \"" + where.host + "\": " + gai_strerror(status));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner{list, &freeaddrinfo};
  std::vector<socket_address> result;
  for (const auto* entry = list; entry; entry = entry->ai_next)
    result.emplace_back(entry->ai_addr, entry->ai_addrlen);
  return result;
}

} // namespace

socket_address::socket_address(const sockaddr* address, socklen_t size) noexcept
    : size_{std::min(size, static_cast<socklen_t>(sizeof storage_))} {
  std::memcpy(&storage_, address, size_);
}

bool socket_address::is_wildcard() const noexcept {
  if (family() == AF_INET)
    return read_as<sockaddr_in>(storage_).sin_addr.s_addr == htonl(INADDR_ANY);
  if (family() != AF_INET6)
    return false;
  const auto address = read_as<sockaddr_in6>(storage_).sin6_addr;
  return std::memcmp(&address, &in6addr_any, sizeof address) == 0;
}

std::uint16_t socket_address::port() const noexcept {
  // The port is at the same place in both families.
  static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));
  return ntohs(read_as<sockaddr_in>(storage_).sin_port);
}

void socket_address::set_port(std::uint16_t port) noexcept {
  const auto value = htons(port);
  std::memcpy(reinterpret_cast<char*>(&storage_) + offsetof(sockaddr_in, sin_port), &value, sizeof value);
}

std::string socket_address::to_string() const {
  if (family() == AF_INET6) {
    const auto address = read_as<sockaddr_in6>(storage_).sin6_addr;
    if (IN6_IS_ADDR_V4MAPPED(&address)) {
      std::array<char, INET_ADDRSTRLEN> text{};
      inet_ntop(AF_INET, &address.s6_addr[12], text.data(), text.size());
      return join_host_port(text.data(), port());
    }
  }
  std::array<char, NI_MAXHOST> host{};
  if (getnameinfo(get(), size_, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST) != 0)
    return "unknown address";
  return join_host_port(host.data(), port());
}

base::expected<host_port> split_host_port(const std::string& text) {
  const auto bad = [&](const char* complaint) {
    return base::fail(base::reason::not_found, "bootstrap", "address \"" + text + "\" " + complaint);
  };
  const auto colon = text.rfind(':');
  if (colon == std::string::npos)
    return bad("has no port: write host:port");
  host_port result;
  result.host = text.substr(0, colon);
  if (result.host.size() >= 2 && result.host.front() == '[' && result.host.back() == ']')
    result.host = result.host.substr(1, result.host.size() - 2);
  else if (result.host.find_first_of(":[]") != std::string::npos)
    return bad("is ambiguous: write an IPv6 host in brackets");
  if (result.host.empty())
    result.host = "127.0.0.1";
  const char* const end = text.data() + text.size();
  const auto number = std::from_chars(text.data() + colon + 1, end, result.port);
  if (number.ec != std::errc{} || number.ptr != end)
    return bad("has no port between 0 and 65535");
  return result;
}

std::string join_host_port(const std::string& host, std::uint16_t port) {
  const bool brackets = host.find(':') != std::string::npos;
  return (brackets ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

base::expected<std::vector<socket_address>> system_lookup(const host_port& where) {
  return look_up(where, 0);
}

std::optional<socket_address> numeric_address(const host_port& where) {
  const auto found = look_up(where, AI_NUMERICHOST);
  return found ? std::optional{found->front()} : std::nullopt;
}

socket_address reachable_address(int family) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) == 0) {
    const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner{list, &freeifaddrs};
    for (const auto* entry = list; entry; entry = entry->ifa_next) {
      const bool usable = (entry->ifa_flags & IFF_UP) && !(entry->ifa_flags & IFF_LOOPBACK);
      if (!usable || !entry->ifa_addr || entry->ifa_addr->sa_family != family)
        continue;
      if (family == AF_INET)
        return {entry->ifa_addr, sizeof(sockaddr_in)};
      // A link-local address would need a zone, which differs from machine to machine.
      const socket_address address{entry->ifa_addr, sizeof(sockaddr_in6)};
      const auto* bytes = reinterpret_cast<const sockaddr_in6*>(address.get());
      if (!IN6_IS_ADDR_LINKLOCAL(&bytes->sin6_addr))
        return address;
    }
  }
  return *numeric_address({family == AF_INET ? "127.0.0.1" : "::1", 0});
}

} // namespace actor_rdma::bootstrap
