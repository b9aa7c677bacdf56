// SPDX-License-Identifier: Apache-2.0
//
// Tests of CAF on lanes: every actor on its own lane whoever sends, and nothing lost however lanes sleep.
#include "actors/lane_scheduler.hpp"

#include "actors/lane_system_rig.hpp"
#include "base/random.hpp"

#include <atomic>
#include <chrono>
#include <future>
#include <stdexcept>
#include <thread>
#include <vector>

#include <caf/event_based_actor.hpp>
#include <doctest/doctest.h>

using namespace std::chrono_literals;

namespace actor_rdma::actors {

using namespace testing;

// -- where actors run -----------------------------------------------------------------------------

TEST_CASE("an actor runs on its own lane whoever sends, and nothing is lost while lanes sleep and wake") {
  constexpr int rounds = 25;
  constexpr int senders = 4;
  constexpr int messages = 1'200; // of one sender in one round
  sightings seen;
  {
    lane_system system{with_lanes(2)};
    std::vector<caf::actor> all;
    for (std::size_t i = 0; i < 16; ++i)
      all.push_back(system.spawn<relay>(i % 2, seen));
    for (std::size_t i = 0; i < all.size(); ++i)
      caf::anon_send(all[i], all[(i + 1) % all.size()]); // on the other lane
    for (int round = 1; round <= rounds; ++round) {
      const auto sleeps = system.lanes().at(0).counters().sleeps;
      std::vector<std::thread> threads;
      for (int k = 0; k < senders; ++k) {
        threads.emplace_back([&, k] {
          for (int i = 0; i < messages; ++i) {
            caf::anon_send(all[static_cast<std::size_t>(i + k) % all.size()], 1);
            if (i % 100 == 0)
              std::this_thread::sleep_for(50us);
          }
        });
      }
      for (auto& t : threads)
        t.join();
      REQUIRE(eventually([&] { return seen.handled == 2 * round * senders * messages; }));
      REQUIRE(seen.elsewhere == 0);
      REQUIRE(eventually([&] { return system.lanes().at(0).counters().sleeps > sleeps; }));
    }
    CHECK(system.lanes().at(0).counters().faults + system.lanes().at(1).counters().faults == 0);
  }
  CHECK(seen.elsewhere == 0);
  CHECK(seen.threads.size() == 2); // one thread for each lane
  CHECK(seen.exits == 16);
  CHECK(seen.destroyed == 16);
}

TEST_CASE("a single message reaches a lane that goes to sleep at that moment") {
  sightings seen;
  auto options = with_lanes(1);
  options.lane.spin = 0ns;
  lane_system system{options};
  const auto target = system.spawn<relay>(0, seen);
  base::rng random{11};
  for (int i = 1; i <= 20'000; ++i) {
    caf::anon_send(target, 0);
    const auto sent = base::mono_clock::now();
    while (seen.handled < i && base::mono_clock::now() - sent < 1ms) {
    }
    REQUIRE(eventually([&] { return seen.handled == i; }));
    // About as long as the lane takes from there to its sleep, so that the next one comes at every moment of
    // it.
    const auto until = base::mono_clock::now() + base::duration{random.between(0, 2'000)};
    while (base::mono_clock::now() < until) {
    }
  }
  CHECK(system.lanes().at(0).counters().sleeps > 1000);
}

TEST_CASE("an actor that does not belong to a lane runs on the control lane") {
  lane_system system{with_lanes(1)};
  std::promise<std::size_t> where;
  caf::actor outsider = system.get().spawn([&](caf::event_based_actor* self) {
    const auto* const here = lane::current();
    where.set_value(here != nullptr ? here->index() : 99);
    self->quit();
  });
  outsider = nullptr;
  auto found = where.get_future();
  REQUIRE(found.wait_for(20s) == std::future_status::ready);
  CHECK(found.get() == 1);
  CHECK(system.lanes().control().index() == 1);
  CHECK(system.lanes().control().name() == "lane-control");
}

TEST_CASE("lanes are pinned on request, and there is a sensible number of them") {
  CHECK(default_lane_count() >= 1);
  CHECK(default_lane_count() <= 4);
  auto options = with_lanes(0);
  options.pin = true;
  lane_system system{options};
  CHECK(system.lanes().lane_count() == default_lane_count());
  CHECK(eventually([&] { return system.lanes().at(0).pinned(); }));
  CHECK_FALSE(system.lanes().control().pinned());
}

TEST_CASE("an actor that throws ends alone, on its lane") {
  class thrower final : public lane_actor {
  public:
    thrower(caf::actor_config& cfg, lane& home) : lane_actor(cfg, home) {}
    caf::behavior make_behavior() override {
      return {[](int) { throw std::runtime_error{"in a handler"}; }};
    }
  };
  sightings seen;
  {
    lane_system system{with_lanes(1)};
    const auto victim = system.spawn<thrower>(0);
    const auto other = system.spawn<relay>(0, seen);
    caf::anon_send(victim, 1);
    caf::anon_send(other, 0);
    CHECK(eventually([&] { return seen.handled == 1; }));
    CHECK(system.lanes().at(0).counters().faults == 0); // CAF deals with it
  }
  CHECK(seen.exits == 1);
}

// -- time -----------------------------------------------------------------------------------------

TEST_CASE("CAF's clock gives the time of the turn on a lane and real time elsewhere, and its timers work") {
  lane_system system{with_lanes(1)};
  auto& clock = system.get().clock();
  std::promise<void> looked;
  system.lanes().at(0).post([&] {
    const auto then = clock.now();
    std::this_thread::sleep_for(2ms);
    CHECK(clock.now() == then);
    looked.set_value();
  });
  CHECK(looked.get_future().wait_for(20s) == std::future_status::ready);
  const auto then = clock.now();
  std::this_thread::sleep_for(2ms);
  CHECK(clock.now() - then >= 2ms);

  std::promise<void> late;
  const auto begun = base::mono_clock::now();
  auto sleeper = system.get().spawn([&](caf::event_based_actor* self) -> caf::behavior {
    self->delayed_send(self, 5ms, 1);
    return {[&, self](int) {
      late.set_value();
      self->quit();
    }};
  });
  sleeper = nullptr;
  CHECK(late.get_future().wait_for(20s) == std::future_status::ready);
  CHECK(base::mono_clock::now() - begun >= 5ms);
}

} // namespace actor_rdma::actors
