// SPDX-License-Identifier: Apache-2.0
// One thread, poll(2), blocking writes: the control connection carries little.
#include "tests/process/tcp_proxy.hpp"

#include <array>
#include <chrono>
#include <cstdlib>
#include <stdexcept>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace actor_rdma::process {

namespace {

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  a.sin_port = htons(port);
  return a;
}

/// Closed with a reset instead of an end of stream.
void reset(int fd) {
  const linger now{1, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  ::close(fd);
}

/// False when the stream has ended.
bool pass_on(int from, int to) {
  std::array<char, 16384> part{};
  const auto n = ::recv(from, part.data(), part.size(), MSG_DONTWAIT);
  if (n <= 0)
    return false;
  for (ssize_t done = 0; done < n;) {
    const auto sent = ::send(to, part.data() + done, static_cast<std::size_t>(n - done), MSG_NOSIGNAL);
    if (sent <= 0)
      return false;
    done += sent;
  }
  return true;
}

} // namespace

tcp_proxy::tcp_proxy(const std::string& target)
    : target_port_(static_cast<std::uint16_t>(std::atoi(target.c_str() + target.rfind(':') + 1))),
      listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  auto at = loopback(0);
  socklen_t length = sizeof at;
  if (::bind(listener_, reinterpret_cast<sockaddr*>(&at), length) != 0 || ::listen(listener_, 16) != 0 ||
      ::getsockname(listener_, reinterpret_cast<sockaddr*>(&at), &length) != 0)
    throw std::runtime_error("the proxy cannot listen");
  address_ = "127.0.0.1:" + std::to_string(ntohs(at.sin_port));
  thread_ = std::thread([this] { loop(); });
}

tcp_proxy::~tcp_proxy() {
  stopping_.store(true);
  thread_.join();
  ::close(listener_);
}

void tcp_proxy::cut() {
  cutting_.store(true);
  while (cutting_.load())
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
}

void tcp_proxy::accept_one() {
  connection c;
  c.near = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  if (c.near < 0)
    return;
  c.far = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const auto to = loopback(target_port_);
  if (::connect(c.far, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) {
    ::close(c.far);
    reset(c.near);
    return;
  }
  ++connections_;
  open_.push_back(c);
}

void tcp_proxy::drop(std::size_t which) {
  reset(open_[which].near);
  reset(open_[which].far);
  open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(which));
}

void tcp_proxy::loop() {
  while (!stopping_.load()) {
    if (cutting_.load()) {
      while (!open_.empty())
        drop(0);
      cutting_.store(false);
    }
    std::vector<pollfd> fds{{listener_, POLLIN, 0}};
    for (const auto& c : open_) {
      fds.push_back({c.near, POLLIN, 0});
      fds.push_back({c.far, POLLIN, 0});
    }
    if (::poll(fds.data(), fds.size(), 5) <= 0)
      continue;
    for (auto i = open_.size(); i-- > 0;) {
      const bool near_ended = fds[1 + 2 * i].revents != 0 && !pass_on(open_[i].near, open_[i].far);
      const bool far_ended = fds[2 + 2 * i].revents != 0 && !pass_on(open_[i].far, open_[i].near);
      if (near_ended || far_ended)
        drop(i);
    }
    if (fds[0].revents != 0)
      accept_one();
  }
  while (!open_.empty())
    drop(0);
}

} // namespace actor_rdma::process
