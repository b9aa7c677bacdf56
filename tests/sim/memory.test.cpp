// SPDX-License-Identifier: Apache-2.0
// Memory: complete registration on devices with small regions, and keys that are revoked under way.
#include "tests/sim/load.hpp"

#include <algorithm>
#include <cstring>

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace std::chrono_literals;
using verbs::soft::log_kind;

namespace {

std::uint32_t open_regions(sim::cluster& c, const std::string& device) {
  for (const auto& d : c.fabric().devices())
    if (d.name == device)
      return d.open_mrs;
  return 0;
}

/// Registers memory that is there already, and waits for the outcome.
base::expected<std::shared_ptr<actors::local_buffer>>
register_again(sim::cluster& c, sim::machine& on, std::uint64_t addr, std::uint64_t length) {
  std::optional<base::expected<std::shared_ptr<actors::local_buffer>>> outcome;
  on.engine().register_memory(addr, length, true, [&](auto made) { outcome = std::move(made); });
  c.world().run_until([&] { return outcome.has_value(); }, c.now() + 10s);
  REQUIRE(outcome);
  return std::move(*outcome);
}

std::size_t failed_with(const actors::batch_state& batch, base::reason why) {
  std::size_t n = 0;
  for (std::size_t i = 0; i < batch.transfers().size(); ++i) {
    const auto r = batch.result(i);
    n += r.status == transfer_status::failed && r.cause == why ? 1 : 0;
  }
  return n;
}

} // namespace

TEST_CASE("E-01: a buffer beyond the device's largest region is registered, published and reached to its "
          "last byte") {
  constexpr std::size_t mib = 1 << 20;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    sim::cluster c(seed);
    auto how = sim::paced("a", 1 + seed % 2);
    how.nic.limits.max_mr_size = seed % 3 == 0 ? UINT64_MAX >> 1 : mib + 4096 + 5;
    auto& a = c.add(how);
    how = sim::paced("b", 1 + seed % 2);
    how.nic.limits.max_mr_size = 2 * mib;
    auto& b = c.add(how);
    const auto source = a.memory(7 * mib, false);
    const auto target = b.memory(7 * mib);
    const auto peer = a.connect(b);
    REQUIRE(peer);
    const auto& ranges = peer->view->memory()->ranges;
    REQUIRE(ranges.size() == 1);
    CHECK(ranges[0].length == 7 * mib);
    CHECK(ranges[0].chunks() == 4);
    CHECK(open_regions(c, "b/soft0") == 1 + 4);
    auto* const from = reinterpret_cast<unsigned char*>(source->addr);
    auto* const to = reinterpret_cast<unsigned char*>(target->addr);
    for (std::size_t i = 0; i < 7 * mib; ++i)
      from[i] = static_cast<unsigned char>(i * 131 + i / 4099);
    const auto run = [&](operation op, std::size_t local, std::size_t remote, std::size_t length) {
      const auto batch = a.submit(*peer, {{op, from + local, target->addr + remote, length}});
      REQUIRE(batch);
      REQUIRE(c.world().run_until([&] { return (*batch)->done(); }, c.now() + 5s));
      CHECK((*batch)->result(0).status == transfer_status::completed);
      CHECK(std::memcmp(from + local, to + remote, length) == 0);
    };
    run(operation::write, 0, 7 * mib - 1, 1);           // the last byte
    run(operation::write, 12345, 999, 7 * mib - 12345); // all borders, none of which coincide
    run(operation::read, 2 * mib - 7, 4 * mib - 3, 10);
    CHECK(a.submit(*peer, {{operation::write, from, target->addr + 7 * mib - 1, 2}}).error().why ==
          base::reason::out_of_range);
    b.deregister(target);
    CHECK(open_regions(c, "b/soft0") == 1);
    CHECK(a.count(observe::event_kind::wr_error) == 0);
  }
}

TEST_CASE("E-01: when the third region fails nothing stays registered, and the error says which it was") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    sim::cluster c(seed);
    auto how = sim::paced("b", 2);
    how.nic.limits.max_mr_size = 2 << 20;
    how.nic.limits.max_mr = 3; // the probe page and two more
    auto& b = c.add(how);
    const auto small = b.memory(1 << 20);
    b.deregister(small);
    std::vector<std::byte> block(7 << 20);
    const auto made = register_again(c, b, reinterpret_cast<std::uint64_t>(block.data()), block.size());
    REQUIRE(!made);
    CHECK(made.error().to_string().find("region 3 of 4") != std::string::npos);
    CHECK(open_regions(c, "b/soft0") == 1);
    CHECK(open_regions(c, "b/soft1") == 1);
    CHECK(b.engine().buffers().buffers()->empty());
    CHECK(b.memory(1 << 20) != nullptr);
  }
}

TEST_CASE(
    "C-11: a key that was replaced fails cleanly, is read again once, and the new one carries the work") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    sim::cluster c(seed);
    auto& a = c.add(sim::paced("a", 1));
    auto& b = c.add(sim::paced("b", 1));
    sim::load load(c, a, b, 64 * 1024, 32, 2);
    REQUIRE(load.connected());
    const auto bystander = b.memory(64 * 1024);
    c.world().run_for(10ms);
    REQUIRE(c.fabric().set_link("a/soft0", false));
    const auto batch = load.send(1);
    REQUIRE(batch);
    c.world().run_for(1ms);
    b.deregister(load.target());
    load.fill_target(0xee);
    REQUIRE(register_again(c, b, load.target()->addr, load.target()->length));
    CHECK(load.target_is(0xee));
    REQUIRE(c.fabric().set_link("a/soft0", true));
    REQUIRE(load.finish(*batch));
    CHECK(load.count(*batch, transfer_status::completed) == batch->transfers().size());
    CHECK(load.arrived(1));
    CHECK(c.first(log_kind::remote_access_error).has_value());
    CHECK(a.count(observe::event_kind::keys_refreshed) == 1);
    // Each QP met the old key at most once.
    CHECK(a.count(observe::event_kind::wr_error) <= 2);
    c.world().run_for(1s);
    CHECK(sim::activations(a) <= 2 + 2 + 2);
    const auto next = load.send(2);
    REQUIRE(next);
    REQUIRE(load.finish(*next, 100ms));
    CHECK(load.arrived(2));
  }
}

TEST_CASE(
    "C-11: revoking under full traffic is one refresh, and ends as gone without a byte through the old key") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    sim::cluster c(seed);
    auto& a = c.add(sim::paced("a", 2));
    auto& b = c.add(sim::paced("b", 2));
    sim::load load(c, a, b, 64 * 1024, 128, 4);
    sim::load other(c, a, b, 64 * 1024, 128, 4);
    REQUIRE(other.connected());
    const auto batch = load.send(1);
    const auto healthy = other.send(9);
    REQUIRE(batch);
    REQUIRE(healthy);
    c.world().run_for(300us);
    b.deregister(load.target());
    load.fill_target(0xee);
    REQUIRE(load.finish(*batch, 5s));
    REQUIRE(other.finish(*healthy, 5s));
    CHECK(failed_with(*batch, base::reason::not_found) + load.count(*batch, transfer_status::completed) ==
          batch->transfers().size());
    CHECK(failed_with(*batch, base::reason::not_found) > 0);
    CHECK(other.count(*healthy, transfer_status::completed) == healthy->transfers().size());
    CHECK(other.arrived(9));
    c.world().run_for(1s);
    CHECK(load.target_is(0xee));
    CHECK(a.count(observe::event_kind::keys_refreshed) == 1);
    CHECK(a.count(observe::event_kind::wr_error) <= 4);
    CHECK(sim::activations(a) <= 4 + 4);
  }
}

TEST_CASE("C-11: a peer that does not say what it publishes is waited for, and then it is told") {
  sim::cluster c(2);
  auto& a = c.add(sim::paced("a", 1));
  auto& b = c.add(sim::paced("b", 1));
  sim::load load(c, a, b, 64 * 1024, 32, 2);
  REQUIRE(load.connected());
  c.network().black_hole("a", "b", true);
  const auto batch = load.send(1);
  REQUIRE(batch);
  c.world().run_for(100us);
  b.deregister(load.target());
  REQUIRE(load.finish(*batch, 10s));
  CHECK(failed_with(*batch, base::reason::peer_silent) > 0);
}

TEST_CASE("J-06: a READ that was queued before its memory was taken back does not see what came later") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    sim::cluster c(seed);
    auto& server = c.add(sim::paced("a", 1));
    auto& client = c.add(sim::paced("b", 1));
    sim::load load(c, server, client, 64 * 1024, 4, 2);
    REQUIRE(load.connected());
    load.fill_target(0x11);
    for (auto& r : load.requests())
      r.op = operation::read;
    REQUIRE(c.fabric().set_delay("a/soft0", 20ms)); // the READs are on their way
    const auto batch = load.send(1);
    REQUIRE(batch);
    std::memset(reinterpret_cast<void*>(load.source()->addr), 0, load.source()->length);
    c.world().run_for(1ms);
    client.deregister(load.target()); // it is the client's again
    load.fill_target(0x77);
    REQUIRE(load.finish(*batch, 5s));
    c.world().run_for(1s);
    CHECK(failed_with(*batch, base::reason::not_found) == batch->transfers().size());
    const auto* got = reinterpret_cast<const unsigned char*>(load.source()->addr);
    CHECK(std::none_of(got, got + load.source()->length, [](unsigned char x) { return x == 0x77; }) == true);
    CHECK(c.first(log_kind::dropped_late).has_value());
  }
}

TEST_CASE("J-06: deregistering memory in use waits for its fences or is refused, as the caller says") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    sim::cluster c(seed);
    auto& a = c.add(sim::paced("a", 1));
    auto& b = c.add(sim::paced("b", 1));
    sim::load load(c, a, b, 64 * 1024, 16, 2);
    REQUIRE(load.connected());
    for (auto& r : load.requests())
      r.op = operation::read;
    load.fill_target(0x55);
    REQUIRE(c.fabric().set_delay("b/soft0", 400ms)); // the answers are late
    const auto batch = load.send(1, 10s);
    REQUIRE(batch);
    c.world().run_for(1ms);
    std::optional<base::expected<void>> refused;
    a.engine().deregister_memory(load.source(), true, 1s, [&](auto outcome) { refused = outcome; });
    c.world().run_until([&] { return refused.has_value(); }, c.now() + 1s);
    REQUIRE(refused);
    REQUIRE(!*refused);
    CHECK(refused->error().why == base::reason::busy);
    a.deregister(load.source());
    CHECK(batch->done());
    CHECK(load.count(*batch, transfer_status::cancelled) > 0);
    auto* const ours = reinterpret_cast<unsigned char*>(load.source()->addr);
    std::memset(ours, 0xee, load.source()->length);
    c.world().run_for(3s);
    CHECK(std::all_of(ours, ours + load.source()->length, [](unsigned char x) { return x == 0xee; }));
  }
}

TEST_CASE(
    "a registration that takes long by a rule is done so much later, and others of its queue wait for it") {
  sim::cluster c(1);
  auto& a = c.add(sim::paced("a", 1));
  a.memory(4096);
  const auto before = c.now();
  a.memory(4096);
  CHECK(c.now() - before < 50ms);
  const auto rule = c.fabric().add_rule("dev=a verb=reg_mr nth=1 do=delay:200ms");
  REQUIRE(rule);
  std::optional<base::time_point> ends[2];
  for (auto& end : ends)
    a.begin_memory(4096, true, [&](const auto& made) {
      CHECK(made.has_value());
      end = c.now();
    });
  const auto start = c.now();
  REQUIRE(c.world().run_until([&] { return ends[0] && ends[1]; }, c.now() + 10s));
  CHECK(*ends[0] - start >= 200ms);
  CHECK(*ends[0] - start < 250ms);
  CHECK(*ends[1] >= *ends[0]);
  CHECK(*ends[1] - start < 300ms);
  CHECK(a.stop());
}
