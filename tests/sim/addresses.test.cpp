// SPDX-License-Identifier: Apache-2.0
// Addresses: which GID is chosen, and GIDs, MTUs and LIDs that change while traffic runs.
#include "tests/sim/load.hpp"

#include <algorithm>

#include <doctest/doctest.h>
#include <fmt/format.h>

using namespace actor_rdma;
using namespace std::chrono_literals;
using verbs::soft::gid_row;

namespace {

gid_row row(std::uint32_t index, const char* gid, std::uint32_t type = IBV_GID_TYPE_ROCE_V2) {
  gid_row r;
  r.index = index;
  r.value = *verbs::soft::parse_gid(gid);
  r.type = type;
  return r;
}

const observe::event* first(const sim::machine& of, observe::event_kind kind) {
  const auto at =
      std::find_if(of.events.begin(), of.events.end(), [&](const auto& e) { return e.kind == kind; });
  return at == of.events.end() ? nullptr : &*at;
}

bool has_detail(const sim::machine& of, const std::string& part) {
  return std::any_of(of.events.begin(), of.events.end(),
                     [&](const auto& e) { return e.detail.find(part) != std::string::npos; });
}

} // namespace

TEST_CASE(
    "D-01: the routable address is chosen before a link-local one with a lower index, and it is said why") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    sim::cluster c(seed);
    auto how = sim::paced("a", 1);
    how.nic.gids = {row(0, "fe80::1"), row(1, "10.4.0.9")};
    auto& a = c.add(how);
    how = sim::paced("b", 1);
    how.nic.gids = {row(0, "fe80::1"), row(1, "10.77.3.1")}; // the same link-local: another link
    auto& b = c.add(how);
    sim::load load(c, a, b, 64 * 1024, 8, 2);
    REQUIRE(load.connected());
    sim::must_arrive(load, 1, 2s);
    const auto* said = first(a, observe::event_kind::address_chosen);
    REQUIRE(said != nullptr);
    CHECK(said->value == 1);
    CHECK(said->detail.find("::ffff:10.4.0.9") != std::string::npos);
    CHECK(said->detail.find("not 0 fe80::1: link-local") != std::string::npos);
  }
}

TEST_CASE("D-03: ports with IPv6 only use the unique local address") {
  sim::cluster c(1);
  auto how = sim::paced("a", 1);
  how.nic.gids = {row(0, "fe80::1"), row(1, "fc00::1")};
  auto& a = c.add(how);
  how = sim::paced("b", 1);
  how.nic.gids = {row(0, "fe80::2"), row(1, "fc00:0:0:1::2")};
  auto& b = c.add(how);
  sim::load load(c, a, b, 64 * 1024, 8, 2);
  REQUIRE(load.connected());
  sim::must_arrive(load, 1, 2s);
  CHECK(first(b, observe::event_kind::address_chosen)->value == 1);
}

TEST_CASE("an endpoint sends from the family that its peer has") {
  sim::cluster c(4);
  auto how = sim::paced("a", 1);
  how.nic.gids = {row(0, "fe80::1"), row(1, "10.0.0.1"), row(2, "fd00::1")};
  auto& a = c.add(how);
  how = sim::paced("b", 1);
  how.nic.gids = {row(0, "fe80::2"), row(1, "fd00::2")};
  auto& b = c.add(how);
  sim::load load(c, a, b, 64 * 1024, 8, 2);
  REQUIRE(load.connected());
  sim::must_arrive(load, 1, 2s);
  CHECK(has_detail(a, "GID fd00::1 instead of the published ::ffff:10.0.0.1"));
}

TEST_CASE("an index that is asked for is used, and while it is empty the device rests") {
  sim::cluster c(5);
  auto how = sim::paced("a", 1);
  how.config.gid_index = 1; // link-local
  auto& a = c.add(how);
  auto other = sim::paced("b", 1);
  other.config.gid_index = 1;
  auto& b = c.add(other);
  sim::load load(c, a, b, 64 * 1024, 8, 2);
  REQUIRE(load.connected());
  sim::must_arrive(load, 1, 2s);
  CHECK(first(a, observe::event_kind::address_chosen)->detail.find("gid_index asks for it") !=
        std::string::npos);
  REQUIRE(c.fabric().move_gid("a/soft0", 1, 9));
  c.world().run_for(500ms);
  CHECK(sim::transitions(a, "a/soft0", "PAUSED") == 1);
  CHECK(has_detail(a, "gid_index 1 is an empty place"));
  REQUIRE(c.fabric().move_gid("a/soft0", 9, 1));
  c.world().run_for(500ms);
  sim::must_arrive(load, 2, 2s);
}

namespace {

enum class side { initiator, acceptor };
enum class change { moved, replaced, gone_with_another_left };

/// One change of the GID in use, idle or with work under way, with or without a link flap around it.
void run_gid_change(std::uint64_t seed, side who, change what, bool flap, std::size_t devices) {
  sim::cluster c(seed);
  auto& a = c.add(sim::paced("a", devices));
  auto& b = c.add(sim::paced("b", devices));
  sim::load load(c, a, b, 64 * 1024, 32, 2 * devices);
  REQUIRE(load.connected());
  sim::must_arrive(load, 1, 2s);
  const std::string device = who == side::initiator ? "a/soft0" : "b/soft0";
  const auto batch = load.send(2);
  REQUIRE(batch);
  c.world().run_for(200us);
  auto& net = c.fabric();
  if (flap)
    REQUIRE(net.set_link(device, false));
  switch (what) {
  case change::moved: REQUIRE(net.move_gid(device, 3, 5)); break;
  case change::replaced: REQUIRE(net.set_gid(device, row(3, "10.99.0.1"))); break;
  case change::gone_with_another_left: {
    REQUIRE(net.set_gid(device, row(7, "10.99.0.2")));
    REQUIRE(net.delete_gid(device, 3));
    break;
  }
  }
  if (flap) {
    c.world().run_for(50ms);
    REQUIRE(net.set_link(device, true));
  }
  const auto healed = c.now();
  CHECK(load.finish(*batch, 5s));
  CHECK(load.count(*batch, transfer_status::completed) == batch->transfers().size());
  CHECK(load.arrived(2));
  CHECK(c.now() - healed < 500ms);
  c.world().run_for(1s);
  // All QPs are back, by the new way, and at most three generations of each were made for it.
  CHECK(sim::activations(a) >= 2 * devices);
  CHECK(sim::activations(a) <= 2 * devices + 2 * 2);
  sim::must_arrive(load, 3, 100ms);
  // Nothing holds on to the old place: it may go to somebody else.
  sim::must_arrive(load, 4, 100ms);
}

} // namespace

TEST_CASE(
    "D-04: a GID that moves or goes, with and without a flap, at either end, costs a rebuild and no more") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed)
    for (const auto who : {side::initiator, side::acceptor})
      for (const auto what : {change::moved, change::replaced, change::gone_with_another_left})
        for (const bool flap : {false, true}) {
          CAPTURE(seed);
          CAPTURE(static_cast<int>(who));
          CAPTURE(static_cast<int>(what));
          CAPTURE(flap);
          run_gid_change(seed, who, what, flap, seed % 2 + 1);
        }
}

TEST_CASE("D-04: a GID_CHANGE that is lost costs one reading of the port and no rail") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed)
    for (const char* device : {"a/soft0", "b/soft0"}) {
      CAPTURE(seed);
      CAPTURE(device);
      sim::cluster c(seed);
      auto& a = c.add(sim::paced("a", 1));
      auto& b = c.add(sim::paced("b", 1));
      sim::load load(c, a, b, 64 * 1024, 8, 2);
      REQUIRE(load.connected());
      REQUIRE(c.fabric().add_rule("event=GID_CHANGE do=swallow"));
      REQUIRE(c.fabric().set_gid(device, row(3, "10.99.0.1")));
      REQUIRE(c.fabric().set_gid(device, row(2, "10.99.0.1", IBV_GID_TYPE_ROCE_V1)));
      sim::must_arrive(load, 2, 2s);
      c.world().run_for(2s);
      sim::must_arrive(load, 3, 100ms);
      CHECK(has_detail(device[0] == 'a' ? a : b, "became GID 3 ::ffff:10.99.0.1"));
    }
}

TEST_CASE("a port without any address rests, and serves again when it has one") {
  sim::cluster c(3);
  auto& a = c.add(sim::paced("a", 1));
  auto& b = c.add(sim::paced("b", 1));
  sim::load load(c, a, b, 64 * 1024, 8, 2);
  REQUIRE(load.connected());
  REQUIRE(c.fabric().delete_gid("a/soft0", 2));
  REQUIRE(c.fabric().delete_gid("a/soft0", 3));
  REQUIRE(c.fabric().delete_gid("a/soft0", 1));
  REQUIRE(c.fabric().delete_gid("a/soft0", 0));
  c.world().run_for(300ms);
  CHECK(sim::transitions(a, "a/soft0", "PAUSED") >= 1);
  CHECK(has_detail(a, "no usable address"));
  REQUIRE(c.fabric().set_gid("a/soft0", row(0, "10.5.5.5")));
  c.world().run_for(500ms);
  sim::must_arrive(load, 2, 2s);
}

TEST_CASE("C-21: ports with MTUs 4096 and 1024 agree on the smaller, for all sizes and both ways") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    sim::cluster c(seed);
    auto how = sim::paced("a", 1);
    how.nic.mtu = seed % 2 == 0 ? 4096 : 1024;
    auto& a = c.add(how);
    how = sim::paced("b", 1);
    how.nic.mtu = seed % 2 == 0 ? 1024 : 4096;
    auto& b = c.add(how);
    for (const std::size_t size : {1u, 1023u, 1024u, 1025u, 4096u, 4097u, 1u << 20}) {
      CAPTURE(size);
      sim::load there(c, a, b, size, 2, 2);
      sim::load back(c, b, a, size, 2, 2);
      REQUIRE(there.connected());
      REQUIRE(back.connected());
      sim::must_arrive(there, 1, 2s);
      sim::must_arrive(back, 2, 2s);
    }
    CHECK(a.count(observe::event_kind::wr_error) == 0);
    CHECK(b.count(observe::event_kind::wr_error) == 0);
  }
}

TEST_CASE("C-21: an MTU that shrinks at run time is agreed anew, at either end, and growing breaks nothing") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed)
    for (const char* device : {"a/soft0", "b/soft0"}) {
      CAPTURE(seed);
      CAPTURE(device);
      sim::cluster c(seed);
      auto& a = c.add(sim::paced("a", 1));
      auto& b = c.add(sim::paced("b", 1));
      sim::load load(c, a, b, 64 * 1024, 16, 2);
      REQUIRE(load.connected());
      sim::must_arrive(load, 1, 2s);
      REQUIRE(c.fabric().set_mtu(device, 1024));
      sim::must_arrive(load, 2, 3s);
      c.world().run_for(2s);
      sim::must_arrive(load, 3, 100ms);
      REQUIRE(c.fabric().set_mtu(device, 4096));
      c.world().run_for(2s);
      sim::must_arrive(load, 4, 500ms);
    }
}

TEST_CASE("a change of the LID is an address change like any other") {
  sim::cluster c(2);
  auto& a = c.add(sim::paced("a", 1));
  auto& b = c.add(sim::paced("b", 1));
  sim::load load(c, a, b, 64 * 1024, 8, 2);
  REQUIRE(load.connected());
  REQUIRE(c.fabric().set_lid("b/soft0", 17));
  c.world().run_for(1s);
  sim::must_arrive(load, 1, 100ms);
  CHECK(has_detail(b, "our LID became 17"));
}
