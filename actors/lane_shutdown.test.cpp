// SPDX-License-Identifier: Apache-2.0
//
// Tests of how a system of lanes ends: in bounded time, whatever its actors and slow calls do, and with
// nothing left.
#include "actors/lane_system_rig.hpp"

#include <atomic>
#include <chrono>
#include <filesystem>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

using namespace std::chrono_literals;

namespace actor_rdma::actors {

using namespace testing;

namespace {

std::size_t entries_of(const char* directory) {
  std::size_t n = 0;
  for ([[maybe_unused]] const auto& e : std::filesystem::directory_iterator{directory})
    ++n;
  return n;
}

} // namespace

TEST_CASE("a system of lanes can be made and ended a thousand times without leaving threads or descriptors") {
  sightings seen;
  const auto once = [&](int i) {
    lane_system system{with_lanes(2)};
    const auto a = system.spawn<relay>(static_cast<std::size_t>(i) % 2, seen);
    caf::anon_send(a, 0);
    CHECK(eventually([&] { return seen.handled == i + 1; }));
  };
  once(0);
  const auto settled = [](std::size_t threads, std::size_t descriptors) {
    return eventually([&] { return entries_of("/proc/self/task") <= threads; }, 5s) &&
           entries_of("/proc/self/fd") <= descriptors;
  };
  std::this_thread::sleep_for(50ms);
  const auto threads = entries_of("/proc/self/task");
  const auto descriptors = entries_of("/proc/self/fd");
  const auto begun = base::mono_clock::now();
  for (int i = 1; i < 1000; ++i)
    once(i);
  MESSAGE("one life of a system: " << (base::mono_clock::now() - begun).count() / 999'000 << " us");
  CHECK(settled(threads, descriptors));
  CHECK(seen.exits == 1000);
  CHECK(seen.destroyed == 1000);
}

TEST_CASE("a system whose actors are busy for ever ends when they are told to") {
  for (int i = 0; i < 20; ++i) {
    sightings seen;
    const auto begun = base::mono_clock::now();
    {
      lane_system system{with_lanes(2)};
      for (std::size_t k = 0; k < 8; ++k)
        system.spawn<endless>(k % 2, seen);
      REQUIRE(eventually([&] { return seen.handled > 1000; }));
    }
    CHECK(base::mono_clock::now() - begun < 10s);
    CHECK(seen.exits == 8);
    CHECK(seen.destroyed == 8);
  }
}

TEST_CASE("actors that nobody told to end are cut off after the drain time and released") {
  sightings seen;
  base::time_point begun;
  {
    caf::actor_system_config config;
    auto options = with_lanes(2);
    options.drain = 20ms;
    use_lanes(config, options);
    caf::actor_system system{config};
    system.await_actors_before_shutdown(false);
    auto& lanes = *lanes_of(system);
    for (std::size_t k = 0; k < 8; ++k)
      system.spawn<endless>(static_cast<lane_env&>(lanes.at(k % 2)), seen);
    CHECK(eventually([&] { return seen.handled > 1000; }));
    begun = base::mono_clock::now();
  }
  CHECK(base::mono_clock::now() - begun >= 20ms);
  CHECK(base::mono_clock::now() - begun < 10s);
  CHECK(seen.destroyed == 8);
}

TEST_CASE("jobs that reach a lane after its end are run by who releases what is left") {
  caf::actor_system_config config;
  use_lanes(config, with_lanes(1));
  caf::actor_system system{config};
  lane_options options;
  options.executor = std::make_shared<verbs_executor>();
  lane l{system, options};
  l.start();
  l.request_stop(0ns, 0ns);
  l.join();
  std::vector<int> order;
  l.post([&] {
    CHECK(l.is_current());
    order.push_back(1);
    l.post([&] { order.push_back(3); });
  });
  l.post([&] { order.push_back(2); });
  CHECK(order.empty());
  while (l.release_leftovers()) {
  }
  CHECK(order == std::vector<int>{1, 2, 3});
  CHECK_FALSE(l.is_current());
}

TEST_CASE("a slow call that is out at the end is waited for, and its result runs on the lane") {
  std::atomic<bool> made{false};
  std::atomic<bool> home_again{false};
  {
    lane_system system{with_lanes(1)};
    auto& l = system.lanes().at(0);
    std::promise<void> asked;
    l.post([&] {
      l.run_slow(
          0,
          [&] {
            std::this_thread::sleep_for(50ms);
            made = true;
          },
          [&] { home_again = l.is_current(); });
      asked.set_value();
    });
    REQUIRE(asked.get_future().wait_for(20s) == std::future_status::ready);
  }
  CHECK(made);
  CHECK(home_again);
}

TEST_CASE("a slow call that hangs does not keep the system from ending") {
  std::promise<void> go_on;
  auto released = go_on.get_future().share();
  auto ended = std::make_shared<std::promise<void>>();
  std::atomic<bool> reported{false};
  base::time_point begun;
  {
    auto options = with_lanes(1);
    options.patience = 50ms;
    lane_system system{options};
    auto& l = system.lanes().at(0);
    std::promise<void> asked;
    l.post([&] {
      l.run_slow(
          0,
          [released, ended] {
            released.wait();
            ended->set_value();
          },
          [&] { reported = true; });
      asked.set_value();
    });
    CHECK(asked.get_future().wait_for(20s) == std::future_status::ready);
    CHECK(eventually([&] { return system.lanes().executor().busy_for(0) > 0ns; }));
    begun = base::mono_clock::now();
  }
  const auto took = base::mono_clock::now() - begun;
  CHECK(took >= 50ms);
  CHECK(took < 10s);
  go_on.set_value();
  CHECK(ended->get_future().wait_for(20s) == std::future_status::ready);
  CHECK_FALSE(reported);
}

} // namespace actor_rdma::actors
