// SPDX-License-Identifier: Apache-2.0
// Devices that have not QPs enough: the verb's own words and the limit are told at once, it is tried again
// without haste, and everything else works on.
#include "tests/sim/load.hpp"

#include <algorithm>

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace std::chrono_literals;

namespace {

sim::node_options with_qps(const char* name, const std::vector<std::uint32_t>& most) {
  sim::node_options o;
  o.name = name;
  for (const auto n : most) {
    verbs::soft::device_options nic;
    nic.name = "soft" + std::to_string(o.nics.size());
    nic.mode = verbs::soft::nic_mode::paced;
    nic.limits.max_qp = n;
    o.nics.push_back(nic);
  }
  return o;
}

std::size_t told(const sim::machine& m, const std::string& rail, const std::string& words) {
  return static_cast<std::size_t>(std::count_if(m.events.begin(), m.events.end(), [&](const auto& e) {
    return e.kind == observe::event_kind::attempt_failed && e.subject.find(rail) == 0 &&
           e.detail.find(words) != std::string::npos;
  }));
}

constexpr const char* no_qp =
    "limits of the device: max_qp 1, max_qp_wr 16384 (device soft0): Cannot allocate memory";

} // namespace

TEST_CASE("I-11: a device without QPs enough refuses in the verb's words, and the other device carries") {
  for (const bool asks : {true, false})
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      CAPTURE(asks);
      CAPTURE(seed);
      sim::cluster c(seed);
      auto& a = c.add(with_qps("a", {asks ? 1u : 1000u, 1000}));
      auto& b = c.add(with_qps("b", {asks ? 1000u : 1u, 1000}));
      sim::load load(c, a, b, 64 * 1024, 16, 2);
      REQUIRE(load.connected());
      const auto steps = c.world().steps();
      c.world().run_for(3s);
      CHECK(c.world().steps() - steps < 20'000); // it does not spin
      const auto attempts = told(a, "a/soft0>b/soft0", no_qp);
      CHECK(attempts >= 10);
      CHECK(attempts <= 60); // two QPs, each at most every 250 ms in the end
      CHECK(attempts == told(a, "a/soft0>b/soft0", ""));
      const auto batch = load.send(1);
      REQUIRE(batch);
      CHECK(load.finish(*batch));
      CHECK(load.count(*batch, transfer_status::completed) == batch->transfers().size());
      CHECK(load.arrived(1));
      CHECK(a.stop());
      CHECK(b.stop());
    }
}

TEST_CASE("F-10: a peer for which no QP is left is connected when another one goes") {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    CAPTURE(seed);
    sim::cluster c(seed);
    auto& a = c.add(with_qps("a", {2}));
    auto& b = c.add(with_qps("b", {1000}));
    auto& d = c.add(with_qps("d", {1000}));
    sim::load to_b(c, a, b, 4096, 16, 2);
    REQUIRE(to_b.connected());
    sim::load to_d(c, a, d, 4096, 16, 3); // beside the two of b
    CHECK_FALSE(to_d.connected());
    CHECK(told(a, "a/soft0>d/soft0", "max_qp 2") >= 4);
    const auto waits = to_d.send(1);
    REQUIRE(waits);
    const auto goes_on = to_b.send(1);
    REQUIRE(goes_on);
    CHECK(to_b.finish(*goes_on));
    CHECK(to_b.arrived(1));
    CHECK(b.stop());
    CHECK(to_d.finish(*waits, 3s));
    CHECK(to_d.count(*waits, transfer_status::completed) == waits->transfers().size());
    CHECK(to_d.arrived(1));
    CHECK(a.stop());
    CHECK(d.stop());
  }
}

TEST_CASE("I-11: what is short for a moment only costs a moment") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    sim::cluster c(seed);
    auto& a = c.add(with_qps("a", {1000}));
    auto& b = c.add(with_qps("b", {1000}));
    REQUIRE(c.fabric().add_rule(seed % 2 == 0 ? "dev=a verb=create_qp nth=2 do=errno:ENOMEM"
                                              : "dev=b verb=create_qp nth=2 do=errno:ENOMEM"));
    const auto began = c.world().now();
    sim::load load(c, a, b, 4096, 16, 2);
    CHECK(load.connected()); // with both
    CHECK(c.world().now() - began < 500ms);
    CHECK(told(a, "a/soft0>b/soft0", "Cannot allocate memory") >= 1);
    CHECK(told(a, "a/soft0>b/soft0", "took too long") == 0);
    CHECK(a.stop());
    CHECK(b.stop());
  }
}

TEST_CASE("a process that is started again is not kept waiting by the QPs of the one before, if these are "
          "all that there are") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    sim::cluster c(seed);
    auto& a = c.add(with_qps("a", {1000}));
    auto& b = c.add(with_qps("b", {3}));
    REQUIRE(sim::load(c, a, b, 4096, 4, 2).connected());
    a.kill();
    REQUIRE(a.restart());
    const auto began = c.now();
    sim::load again(c, a, b, 4096, 4, 4);
    CHECK(again.connected());
    CHECK(c.now() - began < 200ms); // b would wait for a second
    CHECK(b.count(observe::event_kind::peer_dead) == 1);
    sim::must_arrive(again, 1);
    CHECK(a.stop());
    CHECK(b.stop());
  }
}
