// SPDX-License-Identifier: Apache-2.0
//
// Tests of addresses, of the trap of a socket that is connected to itself, and of the name resolver.
#include "bootstrap/socket.hpp"

#include "bootstrap/name_resolver.hpp"
#include "bootstrap/testing/raw_socket.hpp"

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace actor_rdma::bootstrap;
using bootstrap::testing::address_of;
using namespace std::chrono_literals;

namespace {

std::string split(const std::string& text) {
  const auto parts = split_host_port(text);
  return parts ? parts->host + "|" + std::to_string(parts->port) : parts.error().what;
}

} // namespace

TEST_CASE("addresses are split at their port, and an empty host is loopback") {
  CHECK(split("host:80") == "host|80");
  CHECK(split(":0") == "127.0.0.1|0");
  CHECK(split("[]:7") == "127.0.0.1|7");
  CHECK(split("[::1]:65535") == "::1|65535");
  CHECK(split("[fe80::1%eth0]:5") == "fe80::1%eth0|5");
  CHECK(split("host") == "address \"host\" has no port: write host:port");
  CHECK(split("::1:5") == "address \"::1:5\" is ambiguous: write an IPv6 host in brackets");
  for (const auto* bad : {"host:", "host:x", "host:65536", "host:-1", "host:+1", "host:1 "})
    CHECK(split(bad) == "address \"" + std::string{bad} + "\" has no port between 0 and 65535");
}

TEST_CASE("addresses read as they are written") {
  for (const auto* text : {"127.0.0.1:80", "[::1]:80", "[2001:db8::7]:1"})
    CHECK(address_of(text).to_string() == text);
  CHECK(address_of("[::ffff:10.1.2.3]:9").to_string() == "10.1.2.3:9");
  CHECK(address_of("0.0.0.0:1").is_wildcard());
  CHECK(address_of("[::]:1").is_wildcard());
  CHECK_FALSE(address_of("[::1]:1").is_wildcard());
  auto moved = address_of("[::1]:1");
  moved.set_port(777);
  CHECK(moved.port() == 777);
  CHECK(moved.to_string() == "[::1]:777");
  CHECK_FALSE(numeric_address({"localhost", 1}).has_value());
}

TEST_CASE("a socket that is connected to itself is recognised") {
  const unique_fd self{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  const auto any = address_of("127.0.0.1:0");
  REQUIRE(::bind(self.get(), any.get(), any.size()) == 0);
  const auto own = local_address(self);
  REQUIRE(::connect(self.get(), own.get(), own.size()) == 0); // nobody listens there
  CHECK(is_connected_to_itself(self));

  const auto listener = open_listener(any);
  REQUIRE(listener.has_value());
  const auto other = begin_connect(local_address(*listener));
  REQUIRE(other.has_value());
  CHECK_FALSE(is_connected_to_itself(*other));
}

TEST_CASE("a resolver drops questions whose time is over and does not wait for a lookup that hangs") {
  const auto lookups = std::make_shared<std::atomic<int>>(0);
  const auto answers = std::make_shared<std::atomic<int>>(0);
  const auto hanging = std::make_shared<std::atomic<bool>>(true);
  {
    name_resolver names{[=](const host_port& where) -> name_resolver::answer {
                          ++*lookups;
                          while (where.host == "hang" && *hanging)
                            std::this_thread::sleep_for(1ms);
                          return std::vector<socket_address>(1);
                        },
                        [=](std::uint64_t, const name_resolver::answer&) { ++*answers; }};
    const auto later = base::mono_clock::now() + 10s;
    names.ask(1, {"late", 1}, base::mono_clock::now() - 1ms);
    names.ask(2, {"hang", 1}, later);
    names.ask(3, {"quick", 1}, later);
    while (*answers < 1)
      std::this_thread::sleep_for(1ms);
    while (*lookups < 2)
      std::this_thread::sleep_for(1ms);
    const auto begin = std::chrono::steady_clock::now();
    names.stop(50ms);
    CHECK(std::chrono::steady_clock::now() - begin < 1s);
    names.ask(4, {"after", 1}, later);
  }
  CHECK(*answers == 1);
  *hanging = false;
  while (*answers < 2) // it owns what it needs
    std::this_thread::sleep_for(1ms);
  CHECK(*lookups == 2);
}
