// SPDX-License-Identifier: Apache-2.0
// An object whose handlers throw: the exception is told to the object, and its actor goes on.
#include "actors/lane_object.hpp"

#include "actors/messages.hpp"
#include "actors/sim_world.hpp"

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <caf/actor.hpp>
#include <doctest/doctest.h>

using namespace actor_rdma::actors;
using namespace std::chrono_literals;

namespace {

class thrower final : public lane_object {
public:
  using lane_object::lane_object;
  caf::behavior make_behavior() override {
    return {on<stopped>(&thrower::handle), on<qp_probe>(&thrower::handle)};
  }
  void on_fault(const std::string& what) override { faults.push_back(what); }

  std::vector<std::string> faults;
  std::vector<std::uint16_t> seen;

private:
  void handle(stopped& m) {
    if (m.who.empty())
      throw 7; // not even an exception
    throw std::runtime_error(m.who);
  }
  void handle(qp_probe& m) { seen.push_back(m.for_index); }
};

/// Its deadline is still far when its actor ends.
class early_leaver final : public lane_object, public deadline_sink {
public:
  early_leaver(lane_env& env, int& fired) : lane_object(env), fired_(fired) {}
  caf::behavior make_behavior() override {
    env().arm(env().now() + 10ms, *this, 0);
    env().arm(env().now() + 30ms, *this, 1);
    return {on<stopped>(&early_leaver::handle)};
  }
  void on_fault(const std::string&) override {}
  void on_deadline(std::uint64_t) override { ++fired_; }

private:
  void handle(stopped&) { end_actor(); }
  int& fired_;
};

} // namespace

TEST_CASE("an object that has let go of its actor hears of no deadline any more, whoever still holds it") {
  sim_world world{1};
  auto& lane = world.make_lane("h");
  int fired = 0;
  auto object = std::make_shared<early_leaver>(lane, fired);
  auto actor = launch(object);
  world.run_for(20ms);
  REQUIRE(fired == 1);
  caf::anon_send(actor, stopped{"it", {}});
  world.run_for(5ms);
  CHECK(object.use_count() == 1); // here for the test's sake: otherwise it would be gone
  world.run_for(20ms);
  CHECK(fired == 1);
  actor = nullptr;
  world.end();
}

TEST_CASE("an exception that leaves a handler is told to the object, whose actor takes the next message") {
  sim_world world{1};
  auto& lane = world.make_lane("h");
  const auto object = std::make_shared<thrower>(lane);
  auto actor = launch(object);
  for (const auto* who : {"first", "", "third"}) {
    caf::anon_send(actor, stopped{who, {}});
    caf::anon_send(actor, qp_probe{static_cast<std::uint16_t>(object->seen.size() + 1)});
    world.run_for(1ms);
  }
  CHECK(object->faults == std::vector<std::string>{"first", "unknown exception", "third"});
  CHECK(object->seen == std::vector<std::uint16_t>{1, 2, 3});
  actor = nullptr;
  world.end();
}
