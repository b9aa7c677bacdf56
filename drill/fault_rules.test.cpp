// SPDX-License-Identifier: Apache-2.0
// Faults that are rules of the NIC: what the reader refuses, and that they act, are undone and are counted.
#include "drill/format/read.hpp"
#include "drill/sim/sim_runner.hpp"

#include <algorithm>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>

using namespace actor_rdma::drill;

namespace {

std::string with_faults(const std::string& faults) {
  return R"({ "id": "t", "title": "t", "hosts": [{ "name": "a" }, { "name": "b" }],
    "traffic": [{ "from": "a", "to": "b", "sizes": ["16K"], "batch": 2, "depth": 2, "rate_per_s": 500, "repeat_until_ms": 100 }],
    "faults": [)" +
         faults + "] }";
}

bool refuses(const std::string& fault, const std::string& words) {
  const auto read = parse_scenario(with_faults(fault));
  REQUIRE_FALSE(read.has_value());
  const auto& all = read.error();
  INFO(all.front());
  return std::any_of(all.begin(), all.end(), [&](const auto& c) {
    return c.find("faults[0]") == 0 && c.find(words) != std::string::npos;
  });
}

run_facts play(const std::string& faults) {
  auto read = parse_scenario(with_faults(faults));
  REQUIRE(read.has_value());
  sim_runner runner;
  return runner.run(*read, 1, {true});
}

} // namespace

TEST_CASE("a rule that the NIC does not understand is refused with its place in the file") {
  CHECK(refuses(R"({ "kind": "rule", "at_ms": 1, "rule": "dev=a do=explode" })", "faults[0].rule: "));
  CHECK(refuses(R"({ "kind": "rule", "at_ms": 1, "rule": "dev=a do=explode" })", "explode"));
  CHECK(refuses(R"({ "kind": "rule", "at_ms": 1, "rule": "dev=c/soft0 op=write do=drop" })",
                "means no device"));
  CHECK(refuses(R"({ "kind": "rule", "at_ms": 1, "rule": "dev=a op=write after_ms=5 do=drop" })",
                "said of the fault"));
  CHECK(refuses(R"({ "kind": "rule", "at_ms": 1, "rule": "dev=a do=link:down" })", "link_down"));
  CHECK(refuses(R"({ "kind": "rule", "at_ms": 1 })", "rule: is missing"));
  CHECK(refuses(R"({ "kind": "async_event", "at_ms": 1, "device": "a/soft0", "event": "NOTHING" })",
                "faults[0].event: "));
  CHECK(refuses(
      R"({ "kind": "verb_fails", "at_ms": 1, "device": "a/soft0", "verb": "make_qp", "error": "EIO" })",
      "faults[0].verb: "));
  CHECK(refuses(
      R"({ "kind": "async_event", "at_ms": 1, "device": "a/soft0", "event": "PORT_ERR", "for_ms": 5 })",
      "for_ms: is not a key here"));
}

TEST_CASE("a rule acts from its time on until it is over, and its decisions are in the trace") {
  const auto facts =
      play(R"({ "kind": "rule", "at_ms": 20, "for_ms": 30, "rule": "dev=a op=write do=delay:50us" })");
  CHECK_FALSE(facts.unfinished.has_value());
  REQUIRE_FALSE(facts.verdicts.empty());
  CHECK(facts.verdicts.front().at >= std::chrono::milliseconds{20});
  CHECK(facts.verdicts.back().at <= std::chrono::milliseconds{50});
  CHECK(facts.verdicts.front().op == "write");
  CHECK(facts.verdicts.front().verdict == "delay");
  CHECK(std::any_of(facts.trace.begin(), facts.trace.end(),
                    [](const auto& line) { return line.find("write delay") != std::string::npos; }));
  CHECK(facts.faulted_hosts == std::vector<std::string>{"a"});
}

TEST_CASE("an event that is lost is not heard, and a quiet link tells of nothing") {
  const auto heard = [](const run_facts& facts) {
    return std::count_if(facts.events.begin(), facts.events.end(), [](const event_fact& e) {
      return e.host == "a" && e.what.detail == "async event: port error";
    });
  };
  const std::string down = R"({ "kind": "link_down", "at_ms": 20, "device": "a/soft0", "for_ms": 20 })";
  CHECK(heard(play(down)) == 1);
  CHECK(heard(play(R"({ "kind": "event_lost", "at_ms": 10, "device": "a/soft0", "event": "PORT_ERR" }, )" +
                   down)) == 0);
  CHECK(heard(play(
            R"({ "kind": "link_down", "at_ms": 20, "device": "a/soft0", "for_ms": 20, "quiet": true })")) ==
        0);
  CHECK(
      heard(play(
          R"({ "kind": "async_event", "at_ms": 20, "device": "a/soft0", "event": "PORT_ERR", "count": 3 })")) ==
      1);
}
