// SPDX-License-Identifier: Apache-2.0
// An exception in the midst of an actor's handler: it is told, and nothing that somebody waits for is lost
// with it.
#include "tests/sim/load.hpp"

#include <cstring>
#include <new>
#include <span>
#include <string>
#include <typeinfo>

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace std::chrono_literals;

namespace {

std::size_t faults(const sim::machine& a, const sim::machine& b) {
  return a.count(observe::event_kind::internal_fault) + b.count(observe::event_kind::internal_fault);
}

} // namespace

TEST_CASE(
    "memory runs out while a handler arms a deadline: it is told, and every transfer ends all the same") {
  std::size_t deadlines = 0; // of a run in which nothing is thrown
  for (std::size_t failing = 0; failing <= deadlines; ++failing) {
    CAPTURE(failing);
    sim::cluster c(7 + failing);
    auto& a = c.add(sim::paced("a"));
    auto& b = c.add(sim::paced("b"));
    sim::load load(c, a, b, 64 * 1024, 64, 4);
    REQUIRE(load.connected());
    const auto before = faults(a, b);
    std::size_t armed = 0;
    c.world().arming = [&] {
      if (++armed == failing)
        throw std::bad_alloc{};
    };
    const auto batch = load.send(1);
    REQUIRE(batch);
    REQUIRE(load.finish(*batch));
    if (failing == 0)
      deadlines = armed;
    c.world().arming = nullptr;
    CHECK(faults(a, b) == before + (failing > 0 && failing <= armed ? 1 : 0));
    for (std::size_t i = 0; i < batch->transfers().size(); ++i) {
      const auto r = batch->result(i);
      const bool good = r.status == transfer_status::completed ||
                        (r.status == transfer_status::failed && r.cause == base::reason::internal);
      CHECK(good);
    }
    const auto again = load.send(2);
    REQUIRE(again);
    CHECK(load.finish(*again));
    CHECK(load.count(*again, transfer_status::completed) == again->transfers().size());
    CHECK(load.arrived(2));
    a.internal_faults = a.count(observe::event_kind::internal_fault);
    b.internal_faults = b.count(observe::event_kind::internal_fault);
    CHECK(a.stop());
    CHECK(b.stop());
    if (failing == 0)
      MESSAGE("deadlines: " << deadlines);
  }
}

namespace {

/// A batch during which a device of the sender hangs: QPs are suspected, fenced on both sides and made again.
/// `throws` is set to throw once somewhere in it.
class hang_run {
public:
  explicit hang_run(std::uint64_t seed)
      : cluster_(seed), a_(cluster_.add(sim::paced("a"))), b_(cluster_.add(sim::paced("b"))),
        traffic_(cluster_, a_, b_, 64 * 1024, 32, 4) {}

  enum class place { handler, deadline, event, end_of_batch };

  /// Throws at the `which`-th of all places of this kind, from 1. Returns how many there were. Every transfer
  /// ends, in a way that is told truly, and what comes later completes.
  std::size_t run(place where, std::size_t which) {
    REQUIRE(traffic_.connected());
    std::size_t n = 0;
    std::string thrown_in;
    const auto pass = [&](const std::string& name) {
      if (++n != which)
        return;
      thrown_in = name;
      throw std::bad_alloc{};
    };
    auto& world = cluster_.world();
    if (where == place::handler)
      world.handling = [&](const std::string& lane, const std::type_info& m) { pass(lane + " " + m.name()); };
    else if (where == place::deadline)
      world.arming = [&] { pass("arm"); };
    else if (where == place::event)
      a_.hear = b_.hear = [&](const observe::event& e) { pass(e.subject + " " + to_string(e.kind)); };
    else
      a_.batch_ended = [&](const auto&) { pass("end"); };

    traffic_.fill_target(0);
    for (auto& byte : pattern())
      byte = static_cast<unsigned char>(&byte - pattern().data());
    // Deadlines end nothing here.
    const auto batch = a_.submit(traffic_.peer(), traffic_.requests(), 10'000h, notice{"there", {}});
    REQUIRE(batch.has_value());
    world.run_for(100us);
    REQUIRE(cluster_.fabric().set_hang("a/soft0", true).has_value());
    CHECK(traffic_.finish(**batch, 60s));
    REQUIRE(cluster_.fabric().set_hang("a/soft0", false).has_value());
    judge(**batch);
    world.run_for(1s);
    const auto again = traffic_.send(2, 10'000h);
    REQUIRE(again);
    CHECK(traffic_.finish(*again, 60s));
    judge(*again);
    world.handling = nullptr;
    world.arming = nullptr;
    a_.hear = b_.hear = nullptr;
    a_.internal_faults = a_.count(observe::event_kind::internal_fault);
    b_.internal_faults = b_.count(observe::event_kind::internal_fault);
    CHECK(a_.stop());
    CHECK(b_.stop());
    INFO("thrown in " << thrown_in);
    CHECK(faults(a_, b_) == (which > 0 && which <= n ? 1 : 0));
    return n;
  }

private:
  std::span<unsigned char> pattern() {
    return {reinterpret_cast<unsigned char*>(traffic_.source()->addr), traffic_.source()->length};
  }
  void judge(const actors::batch_state& batch) {
    for (std::size_t i = 0; i < batch.transfers().size(); ++i) {
      const auto r = batch.result(i);
      const bool good = r.status == transfer_status::completed ||
                        (r.status == transfer_status::failed && r.cause == base::reason::internal);
      CHECK(good);
    }
    CHECK(batch.notice().status != notice_status::pending);
    if (traffic_.count(batch, transfer_status::completed) == batch.transfers().size())
      CHECK(std::memcmp(pattern().data(), reinterpret_cast<const void*>(traffic_.target()->addr),
                        pattern().size()) == 0);
  }

  sim::cluster cluster_;
  sim::machine& a_;
  sim::machine& b_;
  sim::load traffic_;
};

void throw_at_each(hang_run::place where) {
  for (const std::uint64_t seed : {11u, 12u}) {
    const auto all = hang_run(seed).run(where, 0);
    CHECK(all > 0);
    for (std::size_t which = 1; which <= all; ++which) {
      CAPTURE(seed);
      CAPTURE(which);
      hang_run(seed).run(where, which);
    }
    MESSAGE("places: " << all);
  }
}

} // namespace

TEST_CASE("an exception in any one message handler leaves no transfer open, while a device hangs") {
  throw_at_each(hang_run::place::handler);
}

TEST_CASE("an exception where any one deadline is armed leaves no transfer open, while a device hangs") {
  throw_at_each(hang_run::place::deadline);
}

TEST_CASE("an exception where any one event is told leaves no transfer open, while a device hangs") {
  throw_at_each(hang_run::place::event);
}

TEST_CASE("an exception where the end of a batch is told wakes its waiter all the same") {
  throw_at_each(hang_run::place::end_of_batch);
}
