// SPDX-License-Identifier: Apache-2.0
// Memory that some devices have and others have not, and memory for which no device has room in one region.
#include "tests/sim/load.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace std::chrono_literals;

namespace {

base::expected<std::shared_ptr<actors::local_buffer>> registered(sim::cluster& c, sim::machine& on,
                                                                 std::size_t length) {
  std::optional<base::expected<std::shared_ptr<actors::local_buffer>>> outcome;
  on.begin_memory(length, true, [&](auto made) { outcome = std::move(made); });
  c.world().run_until([&] { return outcome.has_value(); }, c.now() + 10s);
  REQUIRE(outcome);
  return std::move(*outcome);
}

constexpr std::uint64_t probes_at_most = 1000; ///< bytes

} // namespace

TEST_CASE("E-12: memory that one device cannot register is used on the others, and on that one when it can") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    sim::cluster c(seed);
    auto& a = c.add(sim::paced("a"));
    auto& b = c.add(sim::paced("b"));
    auto& at_fault = seed % 2 == 0 ? a : b;
    const auto device = (seed % 2 == 0 ? "a/soft" : "b/soft") + std::to_string(seed / 2 % 2);
    const auto rail = "a/soft" + std::to_string(seed / 2 % 2);
    const auto rule = c.fabric().add_rule("dev=" + device +
                                          " verb=reg_mr do=errno:" + (seed % 3 == 0 ? "ENOMEM" : "EFAULT"));
    REQUIRE(rule);
    sim::load load(c, a, b, 64 * 1024, 64, 4);
    REQUIRE(load.connected());
    for (unsigned round = 1; round <= 3; ++round)
      sim::must_arrive(load, round);
    c.world().run_for(2s); // it is tried again and again
    CHECK(sim::state_of(c, rail).bytes_sent < probes_at_most);
    CHECK(sim::told(at_fault, observe::event_kind::attempt_failed,
                    device.substr(2) + " is left out for buffer") == 1);
    CHECK(sim::told(at_fault, observe::event_kind::attempt_failed,
                    seed % 3 == 0 ? "Cannot allocate memory" : "Bad address") == 1);
    CHECK(a.count(observe::event_kind::wr_error) == 0);
    REQUIRE(c.fabric().remove_rule(*rule));
    const auto batch = load.send(4); // while the keys come
    REQUIRE(batch);
    c.world().run_for(1200ms);
    CHECK(sim::told(at_fault, observe::event_kind::keys_refreshed, device.substr(2)) == 1);
    const auto before = sim::state_of(c, rail).bytes_sent;
    sim::must_arrive(load, 5);
    CHECK(sim::state_of(c, rail).bytes_sent > before + 256 * 1024);
    CHECK(a.count(observe::event_kind::wr_error) == 0);
    sim::leave_nothing(c, a, b);
  }
}

TEST_CASE("E-12: memory that no device can register is refused with the cause, and nothing of it stays") {
  sim::cluster c(3);
  auto& b = c.add(sim::paced("b"));
  c.world().run_for(10ms);
  const auto regions = sim::state_of(c, "b/soft0").open_mrs;
  const auto rule = c.fabric().add_rule("dev=b verb=reg_mr do=errno:EFAULT");
  REQUIRE(rule);
  const auto made = registered(c, b, 4096);
  REQUIRE(!made);
  CHECK(made.error().to_string().find("Bad address") != std::string::npos);
  CHECK(made.error().to_string().find("region 1 of 1, 4096 bytes") != std::string::npos);
  REQUIRE(c.fabric().remove_rule(*rule));
  c.world().run_for(3s);
  CHECK(sim::state_of(c, "b/soft0").open_mrs == regions);
  CHECK(b.count(observe::event_kind::attempt_failed) == 0);
  CHECK(b.engine().buffers().buffers()->empty());
}

TEST_CASE(
    "E-12: where no rail has the keys of both ends, transfers wait for them or end by their deadline as "
    "not registered, and others go on") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    sim::cluster c(seed);
    auto& a = c.add(sim::paced("a"));
    auto& b = c.add(sim::paced("b"));
    const auto ours = c.fabric().add_rule("dev=a/soft1 verb=reg_mr do=errno:EFAULT");
    const auto theirs = c.fabric().add_rule("dev=b/soft0 verb=reg_mr do=errno:EFAULT");
    REQUIRE(ours);
    REQUIRE(theirs);
    sim::load load(c, a, b, 64 * 1024, 16, 4);
    REQUIRE(load.connected());
    REQUIRE(c.fabric().remove_rule(*ours));
    REQUIRE(c.fabric().remove_rule(*theirs));
    sim::load other(c, a, b, 64 * 1024, 16, 4);
    const auto again = c.fabric().add_rule("dev=a/soft1 verb=reg_mr do=errno:EFAULT");
    const auto there = c.fabric().add_rule("dev=b/soft0 verb=reg_mr do=errno:EFAULT");
    REQUIRE(again);
    REQUIRE(there);
    const auto hopeless = load.send(1, 10ms);
    REQUIRE(hopeless);
    sim::must_arrive(other, 7);
    REQUIRE(load.finish(*hopeless, 2s));
    const auto& batch = *hopeless;
    if (load.count(batch, transfer_status::completed) == 0)
      for (std::size_t i = 0; i < batch.transfers().size(); ++i) {
        CHECK(batch.result(i).status == transfer_status::timed_out);
        CHECK(batch.result(i).cause == base::reason::resource);
      }
    REQUIRE(c.fabric().remove_rule(seed % 2 == 0 ? *again : *there)); // one end is enough
    sim::must_arrive(load, 2);
    CHECK(a.count(observe::event_kind::wr_error) == 0);
    sim::leave_nothing(c, a, b);
  }
}

TEST_CASE("E-06: memory that a device has no room for in one region is registered in smaller ones on all") {
  constexpr std::size_t mib = 1 << 20;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    sim::cluster c(seed);
    auto how = sim::paced("b");
    how.config.smallest_region_bytes = mib;
    auto& a = c.add(sim::paced("a"));
    auto& b = c.add(how);
    const auto rule = c.fabric().add_rule("dev=b/soft1 verb=reg_mr first=2 do=errno:ENOMEM");
    REQUIRE(rule);
    if (seed % 2 == 0) // the one that has the smaller ones to make anew has room for still smaller ones only
      REQUIRE(c.fabric().add_rule("dev=b/soft0 verb=reg_mr nth=2 do=errno:ENOMEM"));
    const std::size_t chunks = seed % 2 == 0 ? 8 : 4;
    const auto source = a.memory(8 * mib, false);
    const auto target = registered(c, b, 8 * mib);
    REQUIRE(target.has_value());
    CHECK((*target)->chunks() == chunks);
    for (const auto* const device : {"b/soft0", "b/soft1"})
      CHECK(sim::state_of(c, device).open_mrs == 1 + chunks);
    CHECK(b.count(observe::event_kind::attempt_failed) == 0);
    const auto peer = a.connect(b);
    REQUIRE(peer);
    REQUIRE(peer->view->memory()->ranges.size() == 1);
    CHECK(peer->view->memory()->ranges[0].chunks() == chunks);
    auto* const from = reinterpret_cast<unsigned char*>(source->addr);
    for (std::size_t i = 0; i < 8 * mib; ++i)
      from[i] = static_cast<unsigned char>(i * 131 + i / 4099);
    const auto batch = a.submit(*peer, {{operation::write, from, (*target)->addr, 8 * mib}});
    REQUIRE(batch);
    REQUIRE(c.world().run_until([&] { return (*batch)->done(); }, c.now() + 5s));
    CHECK((*batch)->result(0).status == transfer_status::completed);
    CHECK(std::memcmp(from, reinterpret_cast<void*>((*target)->addr), 8 * mib) == 0);
    CHECK(a.count(observe::event_kind::wr_error) == 0);
    sim::leave_nothing(c, a, b);
  }
}

TEST_CASE(
    "E-06: without room for the smallest regions the error says which and how large, and nothing stays") {
  constexpr std::size_t mib = 1 << 20;
  sim::cluster c(5);
  auto how = sim::paced("b");
  how.config.smallest_region_bytes = mib;
  auto& b = c.add(how);
  c.world().run_for(10ms);
  const auto regions = sim::state_of(c, "b/soft0").open_mrs;
  const auto one = c.fabric().add_rule("dev=b/soft1 verb=reg_mr do=errno:ENOMEM");
  REQUIRE(one);
  const auto on_the_other = registered(c, b, 8 * mib);
  REQUIRE(on_the_other.has_value());
  CHECK((*on_the_other)->chunks() == 1); // that one has room for all of it
  CHECK(sim::told(b, observe::event_kind::attempt_failed, "region 1 of 8, 1048576 bytes") == 1);
  const auto both = c.fabric().add_rule("dev=b/soft0 verb=reg_mr skip=1 do=errno:ENOMEM");
  REQUIRE(both);
  REQUIRE(registered(c, b, 4096).has_value()); // the last one that there is room for
  const auto made = registered(c, b, 8 * mib);
  REQUIRE(!made);
  CHECK(made.error().to_string().find("region 1 of 8, 1048576 bytes") != std::string::npos);
  CHECK(made.error().to_string().find("nor in regions of 8388608 bytes") != std::string::npos);
  CHECK(made.error().sys_errno == ENOMEM);
  c.world().run_for(1s);
  CHECK(sim::state_of(c, "b/soft0").open_mrs == regions + 2);
  CHECK(sim::state_of(c, "b/soft1").open_mrs == regions);
}

TEST_CASE(
    "G-11: while large memory is registered or taken back for seconds, queue pairs of the device are made "
    "again in between") {
  constexpr std::size_t mib = 1 << 20;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    sim::cluster c(seed);
    auto how = sim::paced("a", 1);
    how.config.qps_per_endpoint = 1;
    how.nic.limits.max_mr_size = mib;
    auto& a = c.add(how);
    auto& b = c.add(sim::paced("b", 1));
    sim::load load(c, a, b, 64 * 1024, 4, 1);
    REQUIRE(load.connected());
    REQUIRE(c.fabric().add_rule("dev=a verb=reg_mr,dereg_mr do=delay:50ms"));
    const auto is_served = [&](unsigned round) { // after an error, by a new queue pair
      const auto rule = c.fabric().add_rule("dev=a op=write nth=1 do=status:RETRY_EXC_ERR");
      REQUIRE(rule);
      sim::must_arrive(load, round, 600ms);
      REQUIRE(c.fabric().remove_rule(*rule));
    };
    std::optional<base::expected<std::shared_ptr<actors::local_buffer>>> made;
    a.begin_memory(64 * mib, true, [&](auto outcome) { made = std::move(outcome); });
    const auto start = c.now();
    c.world().run_for(100ms);
    is_served(1);
    CHECK_FALSE(made);
    REQUIRE(c.world().run_until([&] { return made.has_value(); }, c.now() + 10s));
    CHECK(c.now() - start > 3s);
    REQUIRE(made->has_value());
    CHECK((**made)->chunks() == 64);
    std::optional<base::expected<void>> gone;
    a.engine().deregister_memory(**made, false, 20s, [&](auto outcome) { gone = outcome; });
    c.world().run_for(100ms);
    is_served(2);
    CHECK_FALSE(gone);
    REQUIRE(c.world().run_until([&] { return gone.has_value(); }, c.now() + 10s));
    CHECK(gone->has_value());
    sim::leave_nothing(c, a, b);
  }
}

TEST_CASE("G-11: memory is used when the first device has it, and on the slow one when that has it too") {
  constexpr std::size_t mib = 1 << 20;
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    CAPTURE(seed);
    sim::cluster c(seed);
    auto how = sim::paced("a");
    how.nic.limits.max_mr_size = mib;
    how.config.smallest_region_bytes = 64 * 1024;
    auto& a = c.add(how);
    auto& b = c.add(sim::paced("b"));
    // Its 16 regions take 3.2 s. Where there is room for smaller ones only, these are what all have in the
    // end.
    REQUIRE(c.fabric().add_rule("dev=a/soft1 verb=reg_mr do=delay:200ms"));
    if (seed % 3 == 0)
      REQUIRE(c.fabric().add_rule("dev=a/soft1 verb=reg_mr count=1 do=errno:ENOMEM"));
    sim::load load(c, a, b, 64 * 1024, 256, 1);
    REQUIRE(load.connected());
    CHECK(c.now() < base::time_point{} + 3s);
    sim::must_arrive(load, 1);
    CHECK(sim::state_of(c, "a/soft1").bytes_sent < probes_at_most);
    if (seed % 2 == 0) { // all of it goes while that is still at it
      std::optional<base::expected<void>> gone;
      a.engine().deregister_memory(load.source(), false, 20s, [&](auto outcome) { gone = outcome; });
      REQUIRE(c.world().run_until([&] { return gone.has_value(); }, c.now() + 2s));
      CHECK(gone->has_value());
    } else {
      c.world().run_for(10s);
      const auto before = sim::state_of(c, "a/soft1").bytes_sent;
      sim::must_arrive(load, 2);
      CHECK(sim::state_of(c, "a/soft1").bytes_sent > before + 4 * mib);
    }
    sim::leave_nothing(c, a, b);
  }
}
