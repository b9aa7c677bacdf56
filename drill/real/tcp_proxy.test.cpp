// SPDX-License-Identifier: Apache-2.0
#include "drill/real/tcp_proxy.hpp"

#include <cerrno>
#include <cstdlib>
#include <string>

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

} // namespace

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
