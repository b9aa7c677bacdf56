// SPDX-License-Identifier: Apache-2.0
//
// Tests of the timer wheel: single rules first, then random programs against a model that is obviously right.
#include "base/timer_wheel.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <rapidcheck.h>

using namespace actor_rdma::base;
using namespace std::chrono_literals;

namespace {

constexpr time_point start{1s};

std::vector<std::uint64_t> expire(timer_wheel& wheel, time_point now) {
  std::vector<std::uint64_t> fired;
  const auto n = wheel.expire(now, [&](std::uint64_t token) { fired.push_back(token); });
  CHECK(n == fired.size());
  return fired;
}

using tokens = std::vector<std::uint64_t>;

} // namespace

TEST_CASE("a timer fires at its deadline and not a nanosecond earlier") {
  for (const auto delay :
       {duration{0}, duration{1}, duration{99'999}, duration{100'000}, duration{25'600'000}, duration{7s},
        duration{30min}, duration{24h * 6}, duration{24h * 365}}) {
    timer_wheel wheel{start};
    wheel.arm(start + delay, 7);
    if (delay > 0ns)
      CHECK(expire(wheel, start + delay - 1ns).empty());
    CHECK(wheel.size() == 1);
    CHECK(expire(wheel, start + delay) == tokens{7});
    CHECK(wheel.empty());
    CHECK(expire(wheel, start + delay + 24h).empty());
  }
}

TEST_CASE("of two timers in one tick only the due one fires") {
  timer_wheel wheel{start};
  wheel.arm(start + 5'000'020ns, 1);
  wheel.arm(start + 5'000'010ns, 2);
  CHECK(wheel.next_deadline() == start + 5'000'010ns);
  CHECK(expire(wheel, start + 5'000'015ns) == tokens{2});
  CHECK(wheel.next_deadline() == start + 5'000'020ns);
  CHECK(expire(wheel, start + 5'000'020ns) == tokens{1});
}

TEST_CASE("late timers fire by deadline, equal ones by arming") {
  timer_wheel wheel{start};
  wheel.arm(start + 5ms, 1);
  wheel.arm(start + 30min, 2);
  wheel.arm(start + 5ms - 1ns, 3);
  wheel.arm(start + 5ms, 4);
  wheel.arm(start - 1h, 5); // already past
  wheel.arm(start + 40ms, 6);
  CHECK(expire(wheel, start + 1h) == tokens{5, 3, 1, 4, 6, 2});
}

TEST_CASE("a cancelled timer does not fire and its id is stale") {
  timer_wheel wheel{start};
  const auto a = wheel.arm(start + 5ms, 1);
  const auto b = wheel.arm(start + 5ms, 2);
  CHECK(wheel.armed(a));
  CHECK(wheel.cancel(a));
  CHECK_FALSE(wheel.armed(a));
  CHECK_FALSE(wheel.cancel(a));
  const auto c = wheel.arm(start + 5ms, 3); // takes the place of a
  CHECK_FALSE(wheel.cancel(a));
  CHECK(expire(wheel, start + 1s) == tokens{2, 3});
  CHECK_FALSE(wheel.cancel(b));
  CHECK_FALSE(wheel.cancel(c));
  CHECK_FALSE(wheel.cancel(timer_id{}));
  CHECK_FALSE(wheel.cancel(timer_id{~std::uint64_t{0}}));
  CHECK_FALSE(static_cast<bool>(timer_id{}));
}

TEST_CASE("a callback may cancel what has not fired yet and arm for a later call") {
  timer_wheel wheel{start};
  timer_id victim;
  tokens fired;
  wheel.arm(start + 1ms, 1);
  victim = wheel.arm(start + 2ms, 2);
  wheel.arm(start + 3ms, 3);
  wheel.expire(start + 10ms, [&](std::uint64_t token) {
    fired.push_back(token);
    if (token == 1) {
      CHECK(wheel.cancel(victim));
      wheel.arm(start, 4); // due at once, and still not in this call
    }
  });
  CHECK(fired == tokens{1, 3});
  CHECK(wheel.size() == 1);
  CHECK(wheel.next_deadline() == start);
  CHECK(expire(wheel, start + 10ms) == tokens{4});
}

TEST_CASE("a callback that throws loses its own timer and no other") {
  timer_wheel wheel{start};
  for (std::uint64_t i = 1; i <= 3; ++i)
    wheel.arm(start + 1ms, i);
  CHECK_THROWS(wheel.expire(start + 1ms, [](std::uint64_t) { throw std::runtime_error{"no"}; }));
  CHECK(wheel.next_deadline() == start + 1ms);
  CHECK(expire(wheel, start + 1ms) == tokens{2, 3});
}

TEST_CASE("the next deadline is exact when near and never late when far") {
  timer_wheel wheel{start};
  CHECK_FALSE(wheel.next_deadline().has_value());
  wheel.arm(time_never, 9);
  CHECK(wheel.next_deadline() <= time_never);
  const auto far = wheel.arm(start + 3h, 1);
  CHECK(wheel.next_deadline() <= start + 3h);
  CHECK(wheel.next_deadline() > start);
  wheel.arm(start + 20ms, 2);
  CHECK(wheel.next_deadline() == start + 20ms);
  CHECK(expire(wheel, start + 20ms) == tokens{2});
  wheel.cancel(far);
  CHECK(expire(wheel, start + 24h * 400).empty());
  CHECK(wheel.size() == 1);
}

TEST_CASE("whoever sleeps until the next deadline meets a far timer exactly, in few steps") {
  timer_wheel wheel{start};
  const auto when = start + 26h + 123'457ns;
  wheel.arm(when, 1);
  int steps = 0;
  wheel.arm(start + 1ms, 2); // makes the wheel forget what it knew when the far timer was armed
  CHECK(expire(wheel, start + 1ms) == tokens{2});
  for (bool fired = false; !fired && steps < 10; ++steps) {
    const auto now = wheel.next_deadline().value();
    REQUIRE(now <= when);
    fired = wheel.expire(now, [&](std::uint64_t) { CHECK(now == when); }) == 1;
  }
  CHECK(wheel.empty());
  CHECK(steps <= 5);
}

TEST_CASE("time that stands still or goes back harms nothing") {
  timer_wheel wheel{start};
  wheel.arm(start + 5ms, 1);
  CHECK(expire(wheel, start + 4ms).empty());
  CHECK(expire(wheel, start + 4ms).empty());
  CHECK(expire(wheel, start).empty());
  wheel.arm(start + 1ms, 2); // before the wheel's current tick
  CHECK(expire(wheel, start + 4ms) == tokens{2});
  CHECK(expire(wheel, start + 5ms) == tokens{1});
}

namespace {

/// A multimap by deadline and arming is the model; ids that no longer name anything are kept and used on
/// purpose.
void run_random_program() {
  const auto tick = duration{*rc::gen::element<std::int64_t>(1, 1'000, 100'000, 1'000'000)};
  timer_wheel wheel{start, tick, 0};
  std::map<std::pair<time_point, std::uint64_t>, std::pair<timer_id, std::uint64_t>> model;
  std::vector<timer_id> ids;
  time_point now = start;
  std::uint64_t sequence = 0;
  const auto spread = *rc::gen::element<std::int64_t>(300, 70'000, 20'000'000, 5'000'000'000);

  const auto steps = *rc::gen::inRange(1, 200);
  for (int step = 0; step < steps; ++step) {
    const auto what = *rc::gen::inRange(0, 10);
    if (what < 5) {
      const auto when = now + *rc::gen::inRange<std::int64_t>(-2, spread) * tick / 7;
      const auto id = wheel.arm(when, sequence);
      model.emplace(std::pair{when, sequence}, std::pair{id, sequence});
      ids.push_back(id);
      ++sequence;
    } else if (what < 7 && !ids.empty()) {
      const auto id = ids[*rc::gen::inRange<std::size_t>(0, ids.size())];
      const auto it =
          std::find_if(model.begin(), model.end(), [&](const auto& e) { return e.second.first == id; });
      RC_ASSERT(wheel.armed(id) == (it != model.end()));
      RC_ASSERT(wheel.cancel(id) == (it != model.end()));
      if (it != model.end())
        model.erase(it);
    } else {
      const auto jump = *rc::gen::inRange(0, 3);
      if (jump == 0)
        now += duration{*rc::gen::inRange<std::int64_t>(0, 3)};
      else if (jump == 1)
        now += *rc::gen::inRange<std::int64_t>(0, spread) * tick / 16;
      else if (const auto next = wheel.next_deadline())
        now = std::max(now, *next);
      tokens expected;
      while (!model.empty() && model.begin()->first.first <= now) {
        expected.push_back(model.begin()->second.second);
        model.erase(model.begin());
      }
      tokens fired;
      wheel.expire(now, [&](std::uint64_t token) { fired.push_back(token); });
      RC_ASSERT(fired == expected);
    }
    RC_ASSERT(wheel.size() == model.size());
    const auto next = wheel.next_deadline();
    RC_ASSERT(next.has_value() == !model.empty());
    if (next)
      RC_ASSERT(*next <= model.begin()->first.first);
  }
}

} // namespace

TEST_CASE("a wheel does what a sorted map of deadlines does") {
  CHECK(rc::check("timer_wheel against a multimap", run_random_program));
}
