// SPDX-License-Identifier: Apache-2.0
//
// Sockets as the TCP channel wants them.
#include "bootstrap/socket.hpp"

#include <algorithm>
#include <cerrno>

#include <netinet/in.h>
#include <netinet/tcp.h>

namespace actor_rdma::bootstrap {

namespace {

void set_option(const unique_fd& socket, int level, int name, int value) noexcept {
  // None of the options in this file can fail on a TCP socket; a kernel without one of them works all the
  // same.
  (void)::setsockopt(socket.get(), level, name, &value, sizeof value);
}

base::expected<unique_fd> open_stream(const socket_address& address) {
  unique_fd socket{::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
  if (!socket)
    return base::fail(base::reason::resource, "bootstrap", "cannot create a socket", errno);
  return socket;
}

template <class Get>
socket_address address_of(const unique_fd& socket, Get get) noexcept {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (get(socket.get(), reinterpret_cast<sockaddr*>(&storage), &size) != 0)
    return {};
  return {reinterpret_cast<const sockaddr*>(&storage), size};
}

} // namespace

base::expected<unique_fd> open_listener(const socket_address& address) {
  auto socket = open_stream(address);
  if (!socket)
    return socket;
  // A process that was restarted finds its address held by connections of its former life; this lets it
  // listen.
  set_option(*socket, SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.family() == AF_INET6)
    set_option(*socket, IPPROTO_IPV6, IPV6_V6ONLY, address.is_wildcard() ? 0 : 1);
  if (::bind(socket->get(), address.get(), address.size()) != 0 || ::listen(socket->get(), SOMAXCONN) != 0) {
    const int code = errno;
    const auto why = code == EADDRINUSE ? base::reason::busy
                     : code == EACCES   ? base::reason::permission
                                        : base::reason::invalid_argument;
    return base::fail(why, "bootstrap", "cannot listen on " + address.to_string(), code);
  }
  return socket;
}

base::expected<unique_fd> begin_connect(const socket_address& address) {
  auto socket = open_stream(address);
  if (socket && ::connect(socket->get(), address.get(), address.size()) != 0 && errno != EINPROGRESS)
    return base::fail(base::reason::path, "bootstrap", "cannot connect", errno);
  return socket;
}

unique_fd accept_one(const unique_fd& listener, socket_address& peer) noexcept {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  unique_fd socket{
      ::accept4(listener.get(), reinterpret_cast<sockaddr*>(&storage), &size, SOCK_NONBLOCK | SOCK_CLOEXEC)};
  if (socket)
    peer = {reinterpret_cast<const sockaddr*>(&storage), size};
  return socket;
}

int take_socket_error(const unique_fd& socket) noexcept {
  int code = 0;
  socklen_t size = sizeof code;
  return ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &code, &size) == 0 ? code : errno;
}

socket_address local_address(const unique_fd& socket) noexcept {
  return address_of(socket, ::getsockname);
}
bool is_connected_to_itself(const unique_fd& socket) noexcept {
  return address_of(socket, ::getsockname) == address_of(socket, ::getpeername);
}

void tune_stream(const unique_fd& socket, base::duration silence) noexcept {
  using namespace std::chrono;
  const auto total = std::max(duration_cast<seconds>(silence), seconds{3});
  const auto probes = 3;
  const auto interval = std::max<int>(1, static_cast<int>(total.count()) / (probes + 2));
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, 2 * interval);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, interval);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, probes);
  set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT,
             static_cast<int>(duration_cast<milliseconds>(silence).count()));
}

} // namespace actor_rdma::bootstrap
