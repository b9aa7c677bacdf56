// SPDX-License-Identifier: Apache-2.0
// One process that reaches another one under two addresses has two links to it. Neither may disturb the
// other, and the notices of both are told truly.
#include "tests/sim/load.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace std::chrono_literals;

namespace {

constexpr int each = 60;

/// Node a knows b under its own address and under "other".
struct pair_of_addresses {
  explicit pair_of_addresses(std::uint64_t seed) : c(seed), a(c.add(options("a"))), b(c.add(options("b"))) {
    const auto other = b.engine().channel().listen("other");
    REQUIRE(other.has_value());
    peers.push_back(import(b.address()));
    peers.push_back(import(*other));
    b.notice_arrived = [this](const received_notice& n) { ++taken[n.what.name]; };
  }
  static sim::node_options options(const char* name) {
    sim::node_options o;
    o.name = name;
    return o;
  }
  actors::peer_ref import(const std::string& address) {
    std::optional<base::expected<actors::peer_ref>> made;
    a.engine().import_peer(address, [&](auto r) { made = std::move(r); });
    c.world().run_until([&] { return made.has_value(); }, c.now() + 10s);
    REQUIRE(made.has_value());
    REQUIRE(made->has_value());
    return **made;
  }
  void notify(std::size_t peer) {
    const auto name = std::to_string(batches.size());
    auto made = a.notify(peers[peer], {name, {}}, 20s);
    REQUIRE(made.has_value());
    batches.push_back(*made);
  }
  /// Every notice was told as delivered, and came once.
  void settle() {
    c.world().run_until(
        [this] {
          return std::all_of(batches.begin(), batches.end(), [](const auto& x) { return x->done(); });
        },
        c.now() + 20s);
    for (std::size_t i = 0; i < batches.size(); ++i) {
      CHECK(batches[i]->notice().status == notice_status::delivered);
      CHECK(taken[std::to_string(i)] == 1);
    }
  }

  sim::cluster c;
  sim::machine& a;
  sim::machine& b;
  std::vector<actors::peer_ref> peers;
  std::vector<std::shared_ptr<actors::batch_state>> batches;
  std::map<std::string, int> taken;
};

} // namespace

TEST_CASE("a node that is known under two addresses keeps both links, and both carry transfers") {
  pair_of_addresses p(1);
  const auto source = p.a.memory(4096, false);
  const auto target = p.b.memory(8192, true);
  p.c.world().run_for(2s);
  CHECK(p.a.count(observe::event_kind::peer_lost) == 0);
  CHECK(p.b.count(observe::event_kind::peer_lost) == 0);
  for (std::size_t i = 0; i < 2; ++i) {
    const auto batch = p.a.submit(p.peers[i], {{operation::write, reinterpret_cast<void*>(source->addr),
                                                target->addr + 4096 * i, 4096}});
    REQUIRE(batch.has_value());
    p.c.world().run_until([&] { return (*batch)->done(); }, p.c.now() + 10s);
    CHECK((*batch)->result(0).status == transfer_status::completed);
  }
  CHECK(p.a.count(observe::event_kind::rejected) == 0);
  CHECK(p.b.count(observe::event_kind::rejected) == 0);
  CHECK(p.a.stop());
  CHECK(p.b.stop());
}

TEST_CASE("notices to one node under two addresses come once each, while its links are cut") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    pair_of_addresses p(seed);
    for (int i = 0; i < each; ++i) {
      p.notify(0);
      p.notify(1);
      p.c.world().run_for(std::chrono::microseconds{seed * 41 % 170});
      if (i % 20 == 7)
        p.c.network().cut("a", "b");
    }
    p.settle();
  }
}

TEST_CASE("a node that both addresses lost for long knows afterwards what came by which") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    pair_of_addresses p(seed);
    const auto both = [&p] {
      for (int i = 0; i < 20; ++i) {
        p.notify(0);
        p.notify(1);
      }
    };
    both();
    p.c.world().run_for(std::chrono::microseconds{seed * 17}); // in some of them only the answer is missing
    p.c.network().black_hole("a", "b", true);
    p.c.world().run_for(8s); // b has let go of both
    p.c.network().black_hole("a", "b", false);
    both();
    p.settle();
    CHECK(p.b.count(observe::event_kind::peer_dead) == 2);
  }
}
