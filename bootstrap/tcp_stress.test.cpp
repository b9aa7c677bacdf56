// SPDX-License-Identifier: Apache-2.0
//
// Many threads use two TCP channels at once while links come and go: the promises of a channel hold for every
// link.
#include "base/random.hpp"
#include "bootstrap/testing/link_rules.hpp"
#include "bootstrap/testing/tcp_node.hpp"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace actor_rdma::bootstrap;
using namespace actor_rdma::bootstrap::testing;
using kind = recorder::kind;

TEST_CASE("links that several threads open, use, close and abandon keep every promise of a channel") {
  const auto before = open_descriptors();
  {
    tcp_node a{{}, ":0"};
    tcp_node b{{}, ":0"};
    std::atomic<std::uint64_t> number{1};
    std::atomic<std::uint64_t> dialled{0};
    const auto work = [&](tcp_node& from, tcp_node& to, std::uint64_t seed) {
      base::rng random{seed};
      std::vector<link_id> own;
      for (int i = 0; i < 300; ++i) {
        if (own.empty() || random.chance(0.2)) {
          own.push_back(from.channel->dial(to.address));
          ++dialled;
        }
        const auto link = own[random.below(own.size())];
        // One thread sends on a link, so the numbers on it grow.
        if (random.chance(0.8))
          from.channel->send(link, {1, 1, 2, ping{number++}});
        else
          from.channel->close(link);
      }
    };
    std::vector<std::thread> threads;
    for (std::uint64_t seed = 1; seed <= 4; ++seed)
      threads.emplace_back([&, seed] { seed % 2 ? work(a, b, seed) : work(b, a, seed); });
    for (auto& thread : threads)
      thread.join();
    a.channel->stop();
    b.channel->stop();
    CHECK(breach_of_link_rules(a.heard) == "");
    CHECK(breach_of_link_rules(b.heard) == "");
    // Every dial was answered with one end at the side that dialled.
    CHECK(a.heard.count(kind::closed) + b.heard.count(kind::closed) ==
          dialled + a.heard.count(kind::accepted) + b.heard.count(kind::accepted));
  }
  CHECK(open_descriptors() == before);
}

TEST_CASE("a channel may be stopped at any moment while others use it") {
  for (std::uint64_t round = 0; round < 20; ++round) {
    tcp_node a{{}, ":0"};
    tcp_node b{{}, ":0"};
    std::atomic<bool> done{false};
    std::thread user{[&] {
      std::uint64_t number = 1;
      while (!done) {
        const auto link = a.channel->dial(b.address);
        for (int i = 0; i < 5; ++i)
          a.channel->send(link, {1, 1, 2, ping{number++}});
        a.channel->close(link);
      }
    }};
    std::this_thread::sleep_for(std::chrono::milliseconds{round % 5});
    (round % 2 ? a : b).channel->stop();
    const auto& stopped = (round % 2 ? a : b).heard;
    const auto calls = stopped.events().size();
    CHECK(breach_of_link_rules(stopped) == "");
    done = true;
    user.join();
    CHECK(stopped.events().size() == calls);
  }
}
