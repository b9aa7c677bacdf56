// SPDX-License-Identifier: Apache-2.0
//
// The order of what is due.
#include "verbs/soft/timeline.hpp"

#include "base/random.hpp"

#include <algorithm>
#include <map>
#include <string>

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace actor_rdma::verbs::soft;

namespace {

struct recorder : timed {
  recorder(std::vector<std::string>& to, std::string what) : log{to}, name{std::move(what)} {}
  void run(nanos now, nanos, copy_budget& budget) override {
    log.push_back(name + '@' + std::to_string(now));
    budget -= std::min<copy_budget>(budget, cost);
  }
  std::vector<std::string>& log;
  std::string name;
  copy_budget cost = 0;
};

} // namespace

TEST_CASE("what is due at one time runs by device, queue pair and work request, whenever it was scheduled") {
  std::vector<std::string> log;
  timeline line;
  const auto add = [&](const char* name, due_key key) {
    line.schedule(std::make_shared<recorder>(log, name), key);
  };
  add("d", {10, 2, 1, 0});
  add("e", {11, 0, 0, 0});
  add("b", {10, 1, 5, 7});
  add("a", {10, 1, 5, 6});
  add("c", {10, 1, 6, 0});
  CHECK(line.next_due() == 10);
  copy_budget budget = 1;
  line.run_due(10, budget);
  CHECK(log == std::vector<std::string>{"a@10", "b@10", "c@10", "d@10"});
  CHECK(line.next_due() == 11);
  line.run_due(50, budget);
  CHECK(log.back() == "e@11"); // at its own time, not at the caller's
  CHECK(line.next_due() == never);
}

TEST_CASE("scheduling again moves an entry, and removing it leaves the others in order") {
  std::vector<std::string> log;
  base::rng random{3};
  for (int round = 0; round < 200; ++round) {
    timeline line;
    std::vector<std::shared_ptr<recorder>> all;
    std::map<std::string, nanos> expected;
    for (int i = 0; i < 40; ++i)
      all.push_back(std::make_shared<recorder>(log, std::to_string(i)));
    for (int step = 0; step < 200; ++step) {
      const auto& one = all[random.below(all.size())];
      if (random.chance(0.3)) {
        line.remove(*one);
        expected.erase(one->name);
      } else {
        const auto at = static_cast<nanos>(random.below(1000));
        line.schedule(one, {at, 0, 0, 0});
        expected[one->name] = at;
      }
      nanos earliest = never;
      for (const auto& [name, at] : expected)
        earliest = std::min(earliest, at);
      REQUIRE(line.next_due() == earliest);
    }
    due_key key;
    nanos last = 0;
    std::size_t count = 0;
    while (const auto what = line.pop_due(never, key)) {
      CHECK(key.at >= last);
      CHECK(expected.at(static_cast<recorder&>(*what).name) == key.at);
      last = key.at;
      ++count;
    }
    CHECK(count == expected.size());
  }
}

TEST_CASE("a turn ends when its budget is used up") {
  std::vector<std::string> log;
  timeline line;
  for (std::uint64_t i = 0; i < 5; ++i) {
    auto one = std::make_shared<recorder>(log, std::to_string(i));
    one->cost = 100;
    line.schedule(one, {1, 0, 0, i});
  }
  copy_budget budget = 250;
  line.run_due(1, budget);
  CHECK(log.size() == 3);
}

TEST_CASE("whoever waits for the earliest time hears when it moves forward, and only then") {
  std::vector<std::string> log;
  int calls = 0;
  timeline line{[&](const timeline&) { ++calls; }};
  const auto one = std::make_shared<recorder>(log, "one");
  const auto two = std::make_shared<recorder>(log, "two");
  line.schedule(one, {100, 0, 0, 0});
  CHECK(calls == 1);
  line.schedule(two, {200, 0, 0, 0});
  CHECK(calls == 1);
  line.schedule(two, {50, 0, 0, 0});
  CHECK(calls == 2);
  line.set_watched(true);
  CHECK(calls == 3);
  line.clear();
  CHECK(line.next_due() == never);
  CHECK(one.use_count() == 1);
}
