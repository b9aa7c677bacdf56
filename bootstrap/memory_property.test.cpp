// SPDX-License-Identifier: Apache-2.0
//
// Random lives of a simulated network, with every fault: the promises of a channel hold for every link, and
// the same seed gives the same run.
#include "base/random.hpp"
#include "bootstrap/memory_channel.hpp"
#include "bootstrap/testing/link_rules.hpp"

#include <array>
#include <map>
#include <memory>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

using namespace actor_rdma;
using namespace actor_rdma::bootstrap;
using namespace actor_rdma::bootstrap::testing;
using namespace std::chrono_literals;
using kind = recorder::kind;

namespace {

struct life {
  recorder heard;
  std::unique_ptr<channel> calls;
  std::string address;
  std::vector<link_id> links;
  bool killed = false;
};

class world {
public:
  explicit world(std::uint64_t seed) : random_{seed} {
    for (const auto* name : names)
      begin_life(name);
  }

  std::string run() {
    for (int step = 0; step < 400; ++step) {
      act();
      for (auto turns = random_.below(4); turns > 0; --turns)
        let_something_happen();
    }
    for (auto& one : lives_) {
      one->calls->stop();
      // A killed process hears nothing of its end, so its links need not be closed.
      if (!one->killed)
        CHECK(breach_of_link_rules(one->heard) == "");
    }
    CHECK_FALSE(network_.deliver_one(1'000'000));
    return trace_;
  }

private:
  static constexpr std::array<const char*, 3> names = {"a", "b", "c"};

  void begin_life(const std::string& name) {
    auto& one = *lives_.emplace_back(std::make_unique<life>());
    one.calls = network_.make_channel(name);
    one.calls->start(one.heard);
    one.address = one.calls->listen(":1").value_or("");
    one.heard.then([&one](const recorder::event& what) {
      if (what.what == kind::accepted)
        one.links.push_back(what.link);
    });
    current_[name] = &one;
  }

  std::string any_name() { return names[random_.below(names.size())]; }

  void act() {
    auto& one = *current_.at(any_name());
    const auto choice = random_.below(100);
    if (choice < 15) {
      one.links.push_back(one.calls->dial(any_name() + ":1"));
    } else if (choice < 75 && !one.links.empty()) {
      one.calls->send(one.links[random_.below(one.links.size())], {1, 1, 2, ping{++number_}});
    } else if (choice < 85 && !one.links.empty()) {
      one.calls->close(one.links[random_.below(one.links.size())]);
    } else if (choice < 88) {
      network_.cut(any_name(), any_name());
    } else if (choice < 93) {
      network_.black_hole(any_name(), any_name(), random_.chance(0.5));
    } else if (choice < 95) {
      network_.refuse(any_name() + ":1", random_.chance(0.5));
    } else if (choice < 98) {
      network_.set_latency(any_name(), any_name(), std::chrono::microseconds{random_.between(1, 5000)});
    } else {
      const auto name = any_name();
      current_.at(name)->killed = true;
      network_.kill(name);
      begin_life(name);
    }
  }

  void let_something_happen() {
    if (const auto next = network_.next_event(); next && *next > network_.now())
      network_.set_now(std::min(*next, network_.now() + 300ms));
    const auto due = network_.due();
    if (due.empty())
      return;
    const auto& chosen = due[random_.below(due.size())];
    trace_ += fmt::format("{} {} {}\n", chosen.node, chosen.link, chosen.what);
    CHECK(network_.deliver_one(static_cast<std::size_t>(&chosen - due.data())));
  }

  base::rng random_;
  memory_network network_;
  std::vector<std::unique_ptr<life>> lives_;
  std::map<std::string, life*> current_;
  std::uint64_t number_ = 0;
  std::string trace_;
};

} // namespace

TEST_CASE("in two hundred random lives with faults every link keeps the promises of a channel") {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    world{seed}.run();
  }
}

TEST_CASE("the same seed gives the same run and another seed another one") {
  const auto trace = world{5}.run();
  CHECK(trace.size() > 1000);
  CHECK(world{5}.run() == trace);
  CHECK(world{6}.run() != trace);
}
