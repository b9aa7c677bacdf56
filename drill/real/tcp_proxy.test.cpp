// SPDX-License-Identifier: Apache-2.0
#include "drill/real/tcp_proxy.hpp"

#include "bootstrap/codec.hpp"
#include "bootstrap/limits.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace actor_rdma::drill {

namespace {

/// 0, or the errno.
int dial(const std::string& address) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(static_cast<std::uint16_t>(std::atoi(address.c_str() + address.rfind(':') + 1)));
  const int outcome = ::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0 ? 0 : errno;
  ::close(fd);
  return outcome;
}

/// Takes one connection and reads the tokens of the pings that come on it.
std::vector<std::uint64_t> tokens_at(int listener, std::size_t count) {
  const int fd = ::accept(listener, nullptr, nullptr);
  const timeval patience{5, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  bootstrap::frame_decoder frames(bootstrap::max_message_bytes);
  std::vector<std::uint64_t> all;
  std::array<std::uint8_t, 4096> part{};
  while (all.size() < count) {
    const auto n = ::recv(fd, part.data(), part.size(), 0);
    if (n <= 0)
      break;
    frames.push({part.data(), static_cast<std::size_t>(n)});
    for (auto next = frames.next(); next && *next; next = frames.next())
      all.push_back(std::get<bootstrap::ping>(bootstrap::decode(**next)->what).token);
  }
  ::close(fd);
  return all;
}

} // namespace

TEST_CASE("a proxy lets a message be overtaken by the next one and by no other") {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof at;
  REQUIRE(::bind(listener, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0);
  REQUIRE(::listen(listener, 1) == 0);
  REQUIRE(::getsockname(listener, reinterpret_cast<sockaddr*>(&at), &length) == 0);
  tcp_proxy proxy("127.0.0.1:" + std::to_string(ntohs(at.sin_port)));
  bootstrap::message_fault what;
  what.fate = bootstrap::message_fate::overtaken;
  what.count = 2;
  what.by = std::chrono::seconds{1};
  proxy.set_trap(true, std::make_shared<message_trap>(what));
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const auto& to = proxy.address();
  at.sin_port = htons(static_cast<std::uint16_t>(std::atoi(to.c_str() + to.rfind(':') + 1)));
  REQUIRE(::connect(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0);
  for (std::uint64_t token = 1; token <= 5; ++token) {
    const auto frame = bootstrap::make_frame(*bootstrap::encode({1, 1, 2, bootstrap::ping{token}}));
    REQUIRE(::send(fd, frame.data(), frame.size(), 0) == static_cast<ssize_t>(frame.size()));
  }
  CHECK(tokens_at(listener, 5) == std::vector<std::uint64_t>{2, 1, 4, 3, 5});
  ::close(fd);
  ::close(listener);
}

TEST_CASE("a proxy that refused dials for a while takes them again at the same address") {
  tcp_proxy proxy("127.0.0.1:1"); // whoever is there: the dial itself is the proxy's to take
  const auto address = proxy.address();
  for (int round = 0; round < 20; ++round) {
    CHECK(dial(address) == 0);
    proxy.refuse(true);
    CHECK(dial(address) == ECONNREFUSED);
    proxy.refuse(false);
  }
  CHECK(dial(address) == 0);
}

} // namespace actor_rdma::drill
