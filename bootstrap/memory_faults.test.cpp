// SPDX-License-Identifier: Apache-2.0
//
// Tests of the faults of single messages on the simulated channel.
#include "bootstrap/memory_channel.hpp"
#include "bootstrap/testing/recorder.hpp"

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace actor_rdma::bootstrap;
using namespace actor_rdma::bootstrap::testing;
using namespace std::chrono_literals;
using kind = recorder::kind;

namespace {

struct linked_nodes {
  memory_network network;
  recorder heard_by_a;
  recorder heard_by_b;
  std::unique_ptr<channel> a = network.make_channel("a");
  std::unique_ptr<channel> b = network.make_channel("b");
  link_id link = 0;

  linked_nodes() {
    a->start(heard_by_a);
    b->start(heard_by_b);
    link = a->dial(*b->listen("b:7000"));
    run();
  }
  void run() {
    for (auto next = network.next_event(); next; next = network.next_event()) {
      network.set_now(std::max(network.now(), *next));
      while (network.deliver_one()) {
      }
    }
  }
  void pings(std::uint64_t from, std::uint64_t to) {
    for (auto n = from; n <= to; ++n)
      a->send(link, {1, 1, 2, ping{n}});
  }
  std::vector<std::uint64_t> arrived() const {
    std::vector<std::uint64_t> all;
    for (const auto& it : heard_by_b.events(kind::message))
      all.push_back(std::get<ping>(it.content.what).token);
    return all;
  }
  void next(message_fate fate, std::uint64_t count, const char* type = "") {
    message_fault f;
    f.fate = fate;
    f.from = "a";
    f.to = "b";
    f.count = count;
    f.type = type;
    f.by = 5ms;
    network.next_messages(f);
  }
};

} // namespace

TEST_CASE("the next messages of a direction are lost and the link goes on") {
  linked_nodes n;
  n.next(message_fate::lost, 2);
  n.pings(1, 4);
  n.run();
  CHECK(n.arrived() == std::vector<std::uint64_t>{3, 4});
  CHECK(n.heard_by_b.count(kind::closed) == 0);
}

TEST_CASE("the next message arrives twice") {
  linked_nodes n;
  n.next(message_fate::twice, 1);
  n.pings(1, 2);
  n.run();
  CHECK(n.arrived() == std::vector<std::uint64_t>{1, 1, 2});
}

TEST_CASE("a late message holds back what follows it on its link") {
  linked_nodes n;
  const auto before = n.network.now();
  n.next(message_fate::late, 1);
  n.pings(1, 2);
  n.run();
  CHECK(n.arrived() == std::vector<std::uint64_t>{1, 2});
  CHECK(n.network.now() - before >= 5ms);
}

TEST_CASE("a message changes places with the next one on its link, and the others keep theirs") {
  linked_nodes n;
  const auto before = n.network.now();
  n.next(message_fate::overtaken, 2);
  n.pings(1, 5);
  n.run();
  CHECK(n.arrived() == std::vector<std::uint64_t>{2, 1, 4, 3, 5});
  CHECK(n.network.now() - before < 1ms); // nobody waits once somebody has passed
  CHECK(n.heard_by_b.count(kind::closed) == 0);
}

TEST_CASE("a message that nothing follows goes alone after its time") {
  linked_nodes n;
  const auto before = n.network.now();
  n.next(message_fate::overtaken, 1);
  n.pings(1, 1);
  n.run();
  CHECK(n.arrived() == std::vector<std::uint64_t>{1});
  CHECK(n.network.now() - before >= 5ms);
}

TEST_CASE("the end of a link does not pass a message that waits to be overtaken") {
  linked_nodes n;
  n.next(message_fate::overtaken, 1);
  n.pings(1, 1);
  n.a->close(n.link);
  n.run();
  CHECK(n.arrived() == std::vector<std::uint64_t>{1});
  CHECK(n.heard_by_b.count(kind::closed) == 1);
}

TEST_CASE("a message that is cut in half ends its link") {
  linked_nodes n;
  n.next(message_fate::truncated, 1);
  n.pings(1, 1);
  n.run();
  CHECK(n.arrived().empty());
  CHECK(n.heard_by_b.count(kind::closed) == 1);
}

TEST_CASE("a fault of one type of message leaves the others alone, and the other direction too") {
  linked_nodes n;
  n.next(message_fate::lost, 1, "goodbye");
  n.pings(1, 1);
  n.a->send(n.link, {1, 1, 2, goodbye{"x"}});
  n.pings(2, 2);
  n.run();
  CHECK(n.arrived() == std::vector<std::uint64_t>{1, 2});
}

TEST_CASE("an attempt to connect is refused in the given words and never arrives") {
  linked_nodes n;
  message_fault f;
  f.fate = message_fate::refused;
  f.from = "a";
  f.to = "b";
  f.text = "not today";
  n.network.next_messages(f);
  n.pings(1, 1); // not an attempt: it passes
  connect c;
  c.endpoint = 7;
  c.qps.resize(1);
  c.qps[0].generation = 3;
  n.a->send(n.link, {1, 1, 2, c});
  n.run();
  CHECK(n.heard_by_b.count(kind::message) == 1);
  const auto answers = n.heard_by_a.events(kind::message);
  REQUIRE(answers.size() == 1);
  const auto& r = std::get<reject>(answers[0].content.what);
  CHECK(r.endpoint == 7);
  CHECK(r.generation == 3);
  CHECK(r.text == "not today");
  CHECK(answers[0].content.to == 1);
}
