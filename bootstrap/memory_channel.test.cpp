// SPDX-License-Identifier: Apache-2.0
//
// Tests of the simulated channel: what waits, what happens when and in which order, and what each fault does.
#include "bootstrap/memory_channel.hpp"

#include "base/random.hpp"
#include "bootstrap/testing/recorder.hpp"
#include "bootstrap/testing/sample_messages.hpp"

#include <cerrno>

#include <doctest/doctest.h>
#include <fmt/format.h>

using namespace actor_rdma;
using namespace actor_rdma::bootstrap;
using namespace actor_rdma::bootstrap::testing;
using namespace std::chrono_literals;
using base::reason;
using kind = recorder::kind;

namespace {

struct node {
  recorder heard;
  std::unique_ptr<channel> link_maker;
  std::string address;

  node(memory_network& network, const std::string& name) : link_maker{network.make_channel(name)} {
    link_maker->start(heard);
    address = link_maker->listen(":7000").value_or("");
  }
  channel* operator->() const { return link_maker.get(); }
  [[nodiscard]] link_id last_accepted() const { return heard.events(kind::accepted).back().link; }
};

/// Lets time pass until nothing is left to happen, or until `end`.
void run(memory_network& network, base::duration end = 60s) {
  const auto until = network.now() + end;
  for (auto next = network.next_event(); next && *next <= until; next = network.next_event()) {
    network.set_now(std::max(network.now(), *next));
    while (network.deliver_one()) {
    }
  }
}

message numbered(std::uint64_t number) {
  return {1, 1, 2, ping{number}};
}

std::vector<std::uint64_t> numbers(const recorder& heard) {
  std::vector<std::uint64_t> result;
  for (const auto& it : heard.events(kind::message))
    result.push_back(std::get<ping>(it.content.what).token);
  return result;
}

/// Two nodes and a link between them that is up.
struct pair_of_nodes {
  memory_network network;
  node a;
  node b;
  link_id near;
  link_id far;

  explicit pair_of_nodes(memory_options options = {})
      : network{options}, a{network, "a"}, b{network, "b"}, near{a->dial(b.address)}, far{0} {
    run(network);
    far = b.last_accepted();
  }
};

} // namespace

TEST_CASE("nothing happens before its time, and a dial takes one way there and one back") {
  memory_options options;
  options.latency = 1ms;
  memory_network network{options};
  node a{network, "a"};
  node b{network, "b"};
  CHECK(b.address == "b:7000");
  const auto start = network.now();
  const auto link = a->dial(b.address);
  CHECK(a.heard.events().empty());
  CHECK_FALSE(network.deliver_one());
  CHECK(network.next_event() == start + 1ms);
  network.set_now(start + 1ms);
  CHECK(network.due().size() == 1);
  CHECK(network.due()[0].what == "dial");
  CHECK(network.deliver_one());
  CHECK(b.heard.events(kind::accepted)[0].peer == "a");
  CHECK(a.heard.events().empty());
  CHECK(network.next_event() == start + 2ms);
  network.set_now(start + 2ms);
  CHECK(network.due()[0].node == "a");
  CHECK(network.due()[0].what == "dialled");
  CHECK(network.deliver_one());
  CHECK(a.heard.of_link(link)[0].what == kind::dialled);
  CHECK_FALSE(network.next_event().has_value());
}

TEST_CASE("every kind of message goes through the codec and arrives as it was sent") {
  pair_of_nodes nodes;
  for (const auto& what : sample_messages())
    CHECK(nodes.a->send(nodes.near, what));
  CHECK(nodes.b.heard.count(kind::message) == 0);
  run(nodes.network);
  const auto received = nodes.b.heard.events(kind::message);
  const auto sent = sample_messages();
  REQUIRE(received.size() == sent.size());
  for (std::size_t i = 0; i < sent.size(); ++i)
    CHECK(received[i].content == sent[i]);
}

TEST_CASE("the simulation chooses among what is due, and each direction keeps its order all the same") {
  const auto trace_of = [](std::uint64_t seed) {
    pair_of_nodes nodes;
    const auto second = nodes.a->dial(nodes.b.address);
    run(nodes.network);
    const auto second_far = nodes.b.last_accepted();
    for (std::uint64_t i = 0; i < 20; ++i) {
      nodes.a->send(nodes.near, numbered(i));
      nodes.b->send(nodes.far, numbered(100 + i));
      nodes.a->send(second, numbered(200 + i));
    }
    nodes.network.set_now(nodes.network.now() + 1s);
    base::rng random{seed};
    std::string trace;
    for (auto due = nodes.network.due(); !due.empty(); due = nodes.network.due()) {
      CHECK(due.size() <= 3);
      const auto choice = random.below(due.size());
      trace += fmt::format("{}{} ", due[choice].node, due[choice].link);
      CHECK(nodes.network.deliver_one(choice));
    }
    for (const auto link : {nodes.near, nodes.far, second, second_far}) {
      std::uint64_t last = 0;
      for (const auto* end : {&nodes.a.heard, &nodes.b.heard}) {
        for (const auto& it : end->of_link(link)) {
          if (it.what != kind::message)
            continue;
          const auto number = std::get<ping>(it.content.what).token;
          CHECK(number + 1 > last);
          last = number + 1;
        }
      }
    }
    CHECK(nodes.b.heard.count(kind::message) == 40);
    CHECK(nodes.a.heard.count(kind::message) == 20);
    return trace;
  };
  CHECK(trace_of(1) == trace_of(1));
  CHECK(trace_of(1) != trace_of(2));
}

TEST_CASE("a latency that shrinks does not let a later message overtake an earlier one") {
  pair_of_nodes nodes;
  nodes.network.set_latency("a", "b", 10ms);
  nodes.a->send(nodes.near, numbered(1));
  nodes.network.set_latency("a", "b", 1us);
  nodes.a->send(nodes.near, numbered(2));
  const auto start = nodes.network.now();
  run(nodes.network);
  CHECK(numbers(nodes.b.heard) == std::vector<std::uint64_t>{1, 2});
  CHECK(nodes.network.now() - start == 10ms);
}

TEST_CASE("closing sends what is queued first, and each end hears of it once") {
  pair_of_nodes nodes;
  nodes.a->send(nodes.near, numbered(1));
  nodes.a->close(nodes.near);
  nodes.a->close(nodes.near);
  CHECK_FALSE(nodes.a->send(nodes.near, numbered(2)));
  CHECK(nodes.a.heard.count(kind::closed) == 0);
  run(nodes.network);
  CHECK(numbers(nodes.b.heard) == std::vector<std::uint64_t>{1});
  CHECK(nodes.a.heard.end_of(nodes.near).why == reason::cancelled);
  CHECK(nodes.b.heard.end_of(nodes.far).why == reason::peer_dead);
  CHECK(nodes.b.heard.end_of(nodes.far).sys_errno == 0);
  CHECK(nodes.a.heard.count(kind::closed) == 1);
  CHECK(nodes.b.heard.count(kind::closed) == 1);
}

TEST_CASE("a dial to nobody or to an address that refuses is refused") {
  memory_network network;
  node a{network, "a"};
  node b{network, "b"};
  const auto nobody = a->dial("c:1");
  network.refuse(b.address, true);
  const auto refused = a->dial(b.address);
  run(network);
  for (const auto link : {nobody, refused}) {
    CHECK(a.heard.of_link(link).size() == 1);
    CHECK(a.heard.end_of(link).why == reason::peer_dead);
    CHECK(a.heard.end_of(link).sys_errno == ECONNREFUSED);
  }
  network.refuse(b.address, false);
  const auto welcome = a->dial(b.address);
  run(network);
  CHECK(a.heard.of_link(welcome)[0].what == kind::dialled);
}

TEST_CASE("a cut resets both ends at once and loses what is on its way, and the next dial works") {
  pair_of_nodes nodes;
  node c{nodes.network, "c"};
  const auto other = nodes.a->dial(c.address);
  run(nodes.network);
  nodes.a->send(nodes.near, numbered(1));
  nodes.network.cut("b", "a");
  CHECK_FALSE(nodes.a->send(nodes.near, numbered(2)));
  run(nodes.network);
  CHECK(nodes.b.heard.count(kind::message) == 0);
  CHECK(nodes.a.heard.end_of(nodes.near).sys_errno == ECONNRESET);
  CHECK(nodes.b.heard.end_of(nodes.far).sys_errno == ECONNRESET);
  CHECK(nodes.a.heard.end_of(other).why == reason::none);
  nodes.network.cut(other);
  const auto again = nodes.a->dial(nodes.b.address);
  run(nodes.network);
  CHECK(nodes.a.heard.end_of(other).sys_errno == ECONNRESET);
  CHECK(c.heard.count(kind::closed) == 1);
  CHECK(nodes.a.heard.of_link(again)[0].what == kind::dialled);
}

TEST_CASE("a short black hole delays, a long one ends links and dials in a time-out at each end") {
  pair_of_nodes nodes;
  nodes.network.black_hole("a", "b", true);
  CHECK(nodes.a->send(nodes.near, numbered(1)));
  run(nodes.network, 1s);
  CHECK(nodes.b.heard.count(kind::message) == 0);
  nodes.network.set_now(nodes.network.now() + 1s);
  nodes.network.black_hole("a", "b", false);
  CHECK(nodes.network.next_event() == nodes.network.now() + 100us); // it is sent again
  run(nodes.network);
  CHECK(numbers(nodes.b.heard) == std::vector<std::uint64_t>{1});

  nodes.network.black_hole("b", "a", true);
  CHECK(nodes.a->send(nodes.near, numbered(2)));
  const auto dialled = nodes.a->dial(nodes.b.address);
  run(nodes.network);
  CHECK(nodes.a.heard.end_of(nodes.near).why == reason::peer_silent);
  CHECK(nodes.b.heard.end_of(nodes.far).why == reason::peer_silent);
  CHECK(nodes.a.heard.end_of(dialled).why == reason::peer_silent);
  CHECK(nodes.b.heard.count(kind::message) == 1);

  // The dial that was given up is still on its way, as on TCP: the far end sees it come and go.
  nodes.network.black_hole("a", "b", false);
  run(nodes.network);
  const auto late = nodes.b.last_accepted();
  CHECK(nodes.b.heard.of_link(late).size() == 2);
  CHECK(nodes.b.heard.end_of(late).sys_errno == ECONNRESET);
}

TEST_CASE(
    "a killed node is silent from then on, its peers see a reset, and it can come back at its address") {
  pair_of_nodes nodes;
  nodes.b->send(nodes.far, numbered(1));
  nodes.network.kill("b");
  CHECK_FALSE(nodes.b->send(nodes.far, numbered(2)));
  nodes.a->send(nodes.near, numbered(3));
  const auto refused = nodes.a->dial(nodes.b.address);
  const auto calls = nodes.b.heard.events().size();
  run(nodes.network);
  CHECK(numbers(nodes.a.heard) == std::vector<std::uint64_t>{1}); // what it had sent still arrives
  CHECK(nodes.a.heard.end_of(nodes.near).sys_errno == ECONNRESET);
  CHECK(nodes.a.heard.end_of(refused).sys_errno == ECONNREFUSED);
  CHECK(nodes.b.heard.events().size() == calls);

  node reborn{nodes.network, "b"};
  CHECK(reborn.address == nodes.b.address);
  const auto link = nodes.a->dial(reborn.address);
  run(nodes.network);
  CHECK(nodes.a.heard.of_link(link)[0].what == kind::dialled);
  nodes.b->stop();
  CHECK(nodes.b.heard.events().size() == calls);
}

TEST_CASE("a host that loses power is a killed node in a black hole") {
  pair_of_nodes nodes;
  nodes.network.black_hole("a", "b", true);
  nodes.network.kill("b");
  const auto start = nodes.network.now();
  run(nodes.network);
  CHECK(nodes.a.heard.end_of(nodes.near).why == reason::peer_silent);
  CHECK(nodes.network.now() - start == 5s);
}

TEST_CASE("stop ends every link before it returns, and the peers see it close") {
  pair_of_nodes nodes;
  nodes.a->send(nodes.near, numbered(1));
  const auto dialled = nodes.a->dial(nodes.b.address);
  nodes.a->stop();
  CHECK(nodes.a.heard.end_of(nodes.near).why == reason::shutting_down);
  CHECK(nodes.a.heard.end_of(dialled).why == reason::shutting_down);
  CHECK_FALSE(nodes.a->listen("x:1").has_value());
  const auto calls = nodes.a.heard.events().size();
  nodes.a->dial(nodes.b.address);
  run(nodes.network);
  CHECK(nodes.a.heard.events().size() == calls);
  CHECK(numbers(nodes.b.heard) == std::vector<std::uint64_t>{1});
  CHECK(nodes.b.heard.end_of(nodes.far).sys_errno == 0);
}

TEST_CASE("another version is answered with a reject, and a truncated message resets its link") {
  pair_of_nodes nodes;
  auto newer = numbered(1);
  newer.version = 2;
  nodes.a->send(nodes.near, newer);
  run(nodes.network);
  const auto calls = nodes.a.heard.of_link(nodes.near);
  REQUIRE(calls.size() == 3);
  CHECK(std::get<reject>(calls[1].content.what).code == reject_code::wrong_version);
  CHECK(calls[2].why.sys_errno == 0);
  CHECK(nodes.b.heard.end_of(nodes.far).why == reason::protocol);

  const auto again = nodes.a->dial(nodes.b.address);
  run(nodes.network);
  nodes.network.truncate_next("a", "b");
  nodes.a->send(again, numbered(2));
  run(nodes.network);
  CHECK(nodes.b.heard.count(kind::message) == 0);
  CHECK(nodes.b.heard.end_of(nodes.b.last_accepted()).what == "message: truncated");
  CHECK(nodes.a.heard.end_of(again).sys_errno == ECONNRESET);
}

TEST_CASE("a send queue that is full or a message out of bounds ends the link") {
  memory_options options;
  options.send_queue_bytes = 10'000;
  pair_of_nodes nodes{options};
  const message big{1, 1, 2, goodbye{std::string(4000, '.')}};
  CHECK(nodes.a->send(nodes.near, big));
  CHECK(nodes.a->send(nodes.near, big));
  CHECK_FALSE(nodes.a->send(nodes.near, big));
  run(nodes.network);
  CHECK(nodes.a.heard.end_of(nodes.near).sys_errno == ENOBUFS);
  CHECK(nodes.b.heard.end_of(nodes.far).sys_errno == ECONNRESET);

  const auto again = nodes.a->dial(nodes.b.address);
  run(nodes.network);
  CHECK_FALSE(nodes.a->send(again, {1, 1, 2, hello{std::string(5000, 'n'), "", 0, ""}}));
  run(nodes.network);
  CHECK(nodes.a.heard.end_of(again).why == reason::invalid_argument);
}

TEST_CASE(
    "handlers may call their channel, and two nodes that dial each other at once both get their links") {
  memory_network network;
  node a{network, "a"};
  node b{network, "b"};
  for (auto* each : {&a, &b}) {
    each->heard.then([each](const recorder::event& what) {
      if (what.what == kind::accepted || what.what == kind::dialled)
        (*each)->send(what.link, numbered(what.link));
      else if (what.what == kind::message)
        (*each)->close(what.link);
    });
  }
  const auto from_a = a->dial(b.address);
  const auto from_b = b->dial(a.address);
  const auto to_self = a->dial(a.address);
  run(network);
  CHECK(a.heard.of_link(from_a)[0].what == kind::dialled);
  CHECK(b.heard.of_link(from_b)[0].what == kind::dialled);
  CHECK(a.heard.of_link(to_self)[0].what == kind::dialled);
  CHECK(a.heard.count(kind::closed) == 4);
  CHECK(b.heard.count(kind::closed) == 2);
}
