// SPDX-License-Identifier: Apache-2.0
// Faults of processes, and of ports: what the reader refuses, and what they do in virtual time.
#include "drill/fault_kinds.hpp"
#include "drill/format/read.hpp"
#include "drill/real/suits_real.hpp"
#include "drill/sim/sim_runner.hpp"

#include <algorithm>
#include <string>

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace actor_rdma::drill;

namespace {

std::string file(const std::string& faults, const std::string& devices = "{}") {
  return R"({ "id": "t", "title": "t", "hosts": [{ "name": "a", "devices": [)" + devices +
         R"(] }, { "name": "b" }],
    "traffic": [{ "from": "a", "to": "b", "sizes": ["64K"], "batch": 20, "depth": 4, "repeat_until_ms": 100 }],
    "faults": [)" +
         faults + "] }";
}

/// The only complaint.
std::string complaint(const std::string& faults, const std::string& devices = "{}") {
  const auto read = parse_scenario(file(faults, devices));
  REQUIRE_FALSE(read.has_value());
  CHECK(read.error().size() == 1);
  return read.error().front();
}

run_facts play(const std::string& faults) {
  const auto read = parse_scenario(file(faults));
  REQUIRE(read.has_value());
  sim_runner runner;
  return runner.run(*read, 1, {});
}

} // namespace

TEST_CASE("what a process can run out of is named, and needs a time after which there is some again") {
  CHECK(
      complaint(R"({ "at_ms": 1, "kind": "exhausted", "host": "a", "resource": "patience", "for_ms": 5 })") ==
      "faults[0].resource: is \"patience\", accepted is one of descriptors, memory, memlock");
  CHECK(complaint(R"({ "at_ms": 1, "kind": "exhausted", "host": "a", "resource": "memlock" })") ==
        "faults[0].for_ms: is missing, a exhausted needs it");
}

TEST_CASE("E-08: memory that cannot be locked is an errno of the calls that pin some, and of no others") {
  const auto facts = play(
      R"({ "at_ms": 10, "kind": "exhausted", "host": "a", "resource": "memlock", "for_ms": 60 },
         { "at_ms": 20, "kind": "device_lost", "device": "a/soft0", "for_ms": 10 })");
  CHECK_FALSE(facts.unfinished.has_value());
  REQUIRE_FALSE(facts.verdicts.empty());
  for (const auto& v : facts.verdicts) {
    CHECK(v.verdict == "errno:ENOMEM");
    CHECK(v.op != "open_device");
    CHECK(v.op != "alloc_pd");
  }
}

TEST_CASE("I-13: a process that is told to stop ends every transfer once, and is gone") {
  const auto facts = play(R"({ "at_ms": 50, "kind": "host_stop", "host": "a", "for_ms": 1000 })");
  CHECK_FALSE(facts.unfinished.has_value());
  const auto cancelled = std::count_if(facts.transfers.begin(), facts.transfers.end(),
                                       [](const auto& t) { return t.status == transfer_status::cancelled; });
  CHECK(cancelled > 10);
  CHECK(std::none_of(facts.transfers.begin(), facts.transfers.end(),
                     [](const auto& t) { return t.host_died; }));
  for (const auto& c : facts.counters) {
    CAPTURE(c.name);
    CHECK(c.at_start == c.at_end);
  }
  const auto twice = play(R"({ "at_ms": 20, "kind": "host_stop", "host": "a" },
                             { "at_ms": 2000, "kind": "host_stop", "host": "a" })");
  REQUIRE(twice.void_faults.size() == 1);
  CHECK(twice.void_faults.front().why == "the process on a is gone");
}

TEST_CASE("I-06: a fork needs a process of its own, and is refused in virtual time by name") {
  const auto read = parse_scenario(file(R"({ "at_ms": 1, "kind": "host_fork", "host": "a" })"));
  REQUIRE(read.has_value());
  CHECK(refuse_in_real_time(*read).empty());
  const auto complaints = refuse_in_virtual_time(*read);
  REQUIRE(complaints.size() == 1);
  CHECK(complaints.front().find("faults[0].kind: host_fork is accepted with --real only") == 0);
}

TEST_CASE("D-04: what is of a device does not befall one of its ports") {
  const auto ports = R"({ "ports": 2 })";
  CHECK(parse_scenario(
      file(R"({ "at_ms": 1, "kind": "link_down", "device": "a/soft0:2", "for_ms": 1 })", ports)));
  CHECK(
      complaint(R"({ "at_ms": 1, "kind": "link_down", "device": "a/soft0:3" })", ports) ==
      "faults[0].device: there is no device \"a/soft0:3\", devices are a/soft0, a/soft0:2, b/soft0, b/soft1");
  CHECK(complaint(R"({ "at_ms": 1, "kind": "device_lost", "device": "a/soft0:2" })", ports) ==
        "faults[0].device: a/soft0:2 is a port, and device_lost is of a device: say a/soft0");
  CHECK(complaint(R"({ "at_ms": 1, "kind": "async_event", "device": "a/soft0:2", "event": "DEVICE_FATAL" })",
                  ports) ==
        "faults[0].device: a/soft0:2 is a port, and DEVICE_FATAL is of a device: say a/soft0");
  const auto read = parse_scenario(file("", R"({ "ports": 9 })"));
  REQUIRE_FALSE(read.has_value());
  CHECK(read.error().front() == "hosts[0].devices[0].ports: is 9, accepted is a whole number, 1 to 8");
}
