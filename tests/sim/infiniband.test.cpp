// SPDX-License-Identifier: Apache-2.0
// Case D-10: InfiniBand and RoCE ports, each by its own addresses. Which are paired, LIDs that change, GRHs,
// and both versions of RoCE.
#include "tests/sim/load.hpp"

#include <algorithm>

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace std::chrono_literals;
using verbs::soft::gid_row;

namespace {

verbs::soft::device_options nic(std::uint8_t link_layer) {
  verbs::soft::device_options o;
  o.mode = verbs::soft::nic_mode::paced;
  o.link_layer = link_layer;
  return o;
}

const auto ib = nic(IBV_LINK_LAYER_INFINIBAND);
const auto roce = nic(IBV_LINK_LAYER_ETHERNET);

sim::node_options node(const char* name, std::vector<verbs::soft::device_options> nics) {
  sim::node_options o;
  o.name = name;
  for (std::size_t i = 0; i < nics.size(); ++i)
    nics[i].name = "soft" + std::to_string(i);
  o.nics = std::move(nics);
  return o;
}

bool has_detail(const sim::machine& of, const std::string& part) {
  return std::any_of(of.events.begin(), of.events.end(),
                     [&](const auto& e) { return e.detail.find(part) != std::string::npos; });
}

bool has_subject(const sim::machine& of, const std::string& part) {
  return std::any_of(of.events.begin(), of.events.end(),
                     [&](const auto& e) { return e.subject.find(part) != std::string::npos; });
}

void must_carry_both_ways(sim::cluster& c, sim::machine& a, sim::machine& b) {
  sim::load there(c, a, b, 64 * 1024, 8, 2);
  sim::load back(c, b, a, 64 * 1024, 8, 2);
  REQUIRE(there.connected());
  REQUIRE(back.connected());
  sim::must_arrive(there, 1, 2s);
  sim::must_arrive(back, 2, 2s);
}

} // namespace

TEST_CASE("D-10: nodes with both kinds of ports pair each with its like and carry over both") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    sim::cluster c(seed);
    auto& a = c.add(node("a", {ib, roce}));
    auto& b = c.add(node("b", {roce, ib}));
    sim::load load(c, a, b, 64 * 1024, 32, 4);
    REQUIRE(load.connected());
    sim::must_arrive(load, 1, 2s);
    CHECK(has_subject(a, "a/soft0>b/soft1#"));
    CHECK(has_subject(a, "a/soft1>b/soft0#"));
    CHECK(!has_subject(a, "a/soft0>b/soft0"));
    CHECK(!has_subject(a, "a/soft1>b/soft1"));
    CHECK(a.count(observe::event_kind::no_rail) == 0);
    CHECK(a.count(observe::event_kind::attempt_failed) == 0);
    CHECK(sim::state_of(c, "a/soft0").bytes_sent > 100'000);
    CHECK(sim::state_of(c, "a/soft1").bytes_sent > 100'000);
    CHECK(a.stop());
    CHECK(b.stop());
  }
}

TEST_CASE("D-10: a device without a like at the other side gets no rail, and it is said once and why") {
  sim::cluster c(3);
  auto& a = c.add(node("a", {ib, roce}));
  auto& b = c.add(node("b", {roce}));
  sim::load load(c, a, b, 64 * 1024, 8, 2);
  REQUIRE(load.connected());
  sim::must_arrive(load, 1, 2s);
  const auto again = b.memory(4096); // b publishes once more
  c.world().run_for(100ms);
  CHECK(a.count(observe::event_kind::no_rail) == 1);
  CHECK(sim::told(a, observe::event_kind::no_rail,
                  "a/soft0 has none: its link layer is InfiniBand, and b has no such device") == 1);
}

TEST_CASE("D-10: nodes that have no link layer in common do not connect, in so many words") {
  sim::cluster c(4);
  auto& a = c.add(node("a", {ib}));
  auto& b = c.add(node("b", {roce}));
  for (int i = 0; i < 2; ++i) {
    const auto peer = a.connect(b);
    REQUIRE(!peer);
    CHECK(peer.error().why == base::reason::unsupported);
    CHECK(peer.error().what == "no device of ours has the link layer of one of the peer's");
  }
  CHECK(a.count(observe::event_kind::no_rail) == 2); // of either side's device
  CHECK(a.stop());
}

TEST_CASE("D-10: a LID that changes costs a rebuild and no more, at either end, with and without its event") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed)
    for (const char* device : {"a/soft0", "b/soft0"})
      for (const bool event : {true, false}) {
        CAPTURE(seed);
        CAPTURE(device);
        CAPTURE(event);
        sim::cluster c(seed);
        auto& a = c.add(node("a", {ib}));
        auto& b = c.add(node("b", {ib}));
        sim::load load(c, a, b, 64 * 1024, 32, 2);
        REQUIRE(load.connected());
        sim::must_arrive(load, 1, 2s);
        if (!event)
          REQUIRE(c.fabric().add_rule("event=LID_CHANGE do=swallow"));
        const auto batch = load.send(2);
        REQUIRE(batch);
        c.world().run_for(200us);
        REQUIRE(c.fabric().set_lid(device, 700));
        const auto changed = c.now();
        CHECK(load.finish(*batch, 5s));
        CHECK(load.count(*batch, transfer_status::completed) == batch->transfers().size());
        CHECK(load.arrived(2));
        CHECK(c.now() - changed < (event ? 300ms : 2s));
        c.world().run_for(2s);
        CHECK(has_detail(device[0] == 'a' ? a : b, "our LID became 700"));
        CHECK(sim::activations(a) <= 2 + 2 * 3);
        sim::must_arrive(load, 3, 100ms);
      }
}

TEST_CASE("D-10: two ports that swap their LIDs are told apart") {
  sim::cluster c(6);
  auto& a = c.add(node("a", {ib, ib}));
  auto& b = c.add(node("b", {ib, ib}));
  sim::load load(c, a, b, 64 * 1024, 16, 4);
  REQUIRE(load.connected());
  const auto lid = [&](const char* device) {
    return static_cast<std::uint16_t>(sim::state_of(c, device).lid);
  };
  const auto first = lid("b/soft0");
  const auto second = lid("b/soft1");
  REQUIRE(c.fabric().set_lid("b/soft0", 900));
  REQUIRE(c.fabric().set_lid("b/soft1", first));
  REQUIRE(c.fabric().set_lid("b/soft0", second));
  sim::must_arrive(load, 1, 3s);
  c.world().run_for(1s);
  sim::must_arrive(load, 2, 100ms);
}

TEST_CASE("D-10: without a subnet manager an InfiniBand port rests, and it serves when it has a LID") {
  sim::cluster c(7);
  auto& a = c.add(node("a", {ib}));
  auto& b = c.add(node("b", {ib}));
  sim::load load(c, a, b, 64 * 1024, 8, 2);
  REQUIRE(load.connected());
  REQUIRE(c.fabric().set_lid("a/soft0", 0));
  c.world().run_for(300ms);
  CHECK(sim::transitions(a, "a/soft0", "PAUSED") == 1);
  REQUIRE(c.fabric().set_lid("a/soft0", 44));
  c.world().run_for(500ms);
  sim::must_arrive(load, 1, 100ms);
}

TEST_CASE("D-10: within a subnet no GID is on the way, so that a change of them breaks nothing") {
  for (const bool grh : {false, true}) {
    CAPTURE(grh);
    sim::cluster c(8);
    auto how = node("a", {ib});
    how.config.ib_grh = grh; // one end is enough
    auto& a = c.add(how);
    auto& b = c.add(node("b", {ib}));
    sim::load load(c, a, b, 64 * 1024, 8, 2);
    REQUIRE(load.connected());
    sim::must_arrive(load, 1, 2s);
    REQUIRE(c.fabric().move_gid("b/soft0", 0, 4));
    c.world().run_for(1s);
    sim::must_arrive(load, 2, 100ms);
    CHECK((b.count(observe::event_kind::fenced) > 0) == grh);
  }
}

TEST_CASE("D-10: ports of different subnets use a GRH and the LID for routers, both ways") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    sim::cluster c(seed);
    auto far = ib;
    far.lid = 30; // the same LID in both subnets
    far.subnet_prefix = 0xfec0'0000'0000'0001;
    auto& a = c.add(node("a", {far}));
    far.subnet_prefix += 1;
    auto& b = c.add(node("b", {far}));
    must_carry_both_ways(c, a, b);
    CHECK(a.count(observe::event_kind::attempt_failed) == 0);
  }
}

TEST_CASE("RoCE v1 is used when one end asks for it, by both, and when there is nothing else") {
  const auto with_table = [](const std::vector<std::pair<const char*, std::uint32_t>>& rows) {
    auto o = roce;
    for (const auto& [gid, type] : rows) {
      gid_row r;
      r.index = static_cast<std::uint32_t>(o.gids.size());
      r.value = *verbs::soft::parse_gid(gid);
      r.type = type;
      o.gids.push_back(r);
    }
    return o;
  };
  constexpr std::uint32_t v1 = IBV_GID_TYPE_ROCE_V1;
  constexpr std::uint32_t v2 = IBV_GID_TYPE_ROCE_V2;
  sim::cluster c(9);
  auto how = node("a", {with_table({{"10.0.0.1", v1}, {"10.0.0.1", v2}})});
  SUBCASE("asked for") {
    how.config.gid_index = 0;
  }
  SUBCASE("nothing else") {
    how.nics[0] = with_table({{"10.0.0.1", v1}});
    how.nics[0].name = "soft0";
  }
  auto& a = c.add(how);
  auto& b = c.add(node("b", {with_table({{"10.0.0.2", v2}, {"10.0.0.2", v1}})}));
  must_carry_both_ways(c, a, b);
  CHECK(has_detail(a, "GID 0 ::ffff:10.0.0.1: RoCE v1"));
  CHECK(has_detail(b, "GID 0 ::ffff:10.0.0.2: RoCE v2")); // what it publishes
}
