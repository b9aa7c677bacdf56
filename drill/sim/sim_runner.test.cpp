// SPDX-License-Identifier: Apache-2.0
// A run is a pure function of its file and its seed, and it sees what it has to see: with the remote fence
// switched off, bytes do land late.
#include "drill/sim/sim_runner.hpp"

#include "drill/format/read.hpp"
#include "drill/judge.hpp"
#include "drill/set_up.hpp"
#include "drill/sim/cluster.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace actor_rdma::drill;
using namespace std::chrono_literals;

namespace {

scenario parsed(const std::string& rest) {
  auto s = parse_scenario(R"({ "id": "x", "title": "y", )" + rest + "}");
  REQUIRE(s.has_value());
  return *s;
}

run_facts play(const scenario& s, std::uint64_t seed, bool trace = false) {
  return sim_runner{}.run(s, seed, {trace});
}

bool found(const verdict& v, const char* check) {
  return std::any_of(v.findings.begin(), v.findings.end(), [&](const auto& f) { return f.check == check; });
}

const char* const flap = R"("hosts": [{ "name": "a" }, { "name": "b" }],
  "traffic": [{ "from": "a", "to": "b", "sizes": ["8K"], "batch": 4, "depth": 2, "rate_per_s": 200, "repeat_until_ms": 200 }],
  "faults": [{ "kind": "link_down", "device": "a/soft0", "at_ms": 40, "spread_ms": 20, "for_ms": 50 },
             { "kind": "host_freeze", "host": "b", "at_ms": 120, "for_ms": 15 },
             { "kind": "host_kill", "host": "b", "at_ms": 150, "for_ms": 10 }])";

/// Packets are late by more than all deadlines, and the control network is silent, so that no fence is
/// confirmed before the memory is used again.
std::string late_packets(bool remote_fence) {
  return std::string{R"("settings": { "remote_fence": )"} + (remote_fence ? "true" : "false") + R"( },
  "hosts": [{ "name": "a" }, { "name": "b" }],
  "traffic": [{ "from": "a", "to": "b", "sizes": ["64K"], "batch": 8, "depth": 2, "repeat_until_ms": 300 }],
  "faults": [{ "kind": "delay", "device": "a/soft0", "by_ms": 700, "at_ms": 20, "for_ms": 200 },
             { "kind": "control_black_hole", "from": "a", "to": "b", "at_ms": 19, "for_ms": 1500 }],
  "bounds": { "converge_within_ms": 6000 })";
}

} // namespace

TEST_CASE("two runs with one seed leave the same trace, and another seed another one") {
  const auto s = parsed(flap);
  const auto once = play(s, 7, true);
  const auto again = play(s, 7, true);
  REQUIRE_FALSE(once.unfinished.has_value());
  CHECK(once.trace.size() > 300);
  CHECK(once.trace == again.trace);
  CHECK(once.fingerprint == again.fingerprint);
  CHECK(play(s, 8).fingerprint != once.fingerprint);
  CHECK(judge(s, once).status == exit_good);
}

TEST_CASE("without the remote fence a late byte lands in memory that was told to be free, and is found") {
  const auto fenced = parsed(late_packets(true));
  const auto bare = parsed(late_packets(false));
  bool seen = false;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    const auto good = judge(fenced, play(fenced, seed));
    CHECK_MESSAGE(good.status == exit_good, good.report);
    seen = seen || found(judge(bare, play(bare, seed)), "no late byte");
  }
  CHECK(seen);
}

TEST_CASE("an expectation that does not hold and a run that does not end are told apart") {
  const std::string hosts = R"("hosts": [{ "name": "a" }, { "name": "b" }], "time_limit_ms": 100,)";
  const auto wrong = parsed(hosts + R"("traffic": [{ "from": "a", "to": "b", "count": 4 }],
    "expect": [{ "kind": "transfers", "status": "completed", "equals": 5 }])");
  CHECK(judge(wrong, play(wrong, 1)).status == exit_expectation);
  const auto endless = parsed(hosts + R"("traffic": [{ "from": "a", "to": "b", "repeat_until_ms": 200 }])");
  CHECK(judge(endless, play(endless, 1)).status == exit_unfinished);
}

TEST_CASE("a set-up that a device's limits prevent says which, and what is needed") {
  const auto refusal = [](const std::string& limits, const std::string& theirs = "{}") {
    const auto s = parsed(R"("hosts": [{ "name": "a", "devices": [{ "limits": )" + limits +
                          R"( }] }, { "name": "b", "devices": [{ "count": 2, "limits": )" + theirs +
                          R"( }] }], "traffic": [{ "from": "a", "to": "b" }])");
    const auto facts = play(s, 1);
    return facts.unfinished.value_or("it came up");
  };
  CHECK(refusal(R"({ "max_mr_size": 1024 })") ==
        "set-up: device: its memory regions have at most 1024 bytes (max_mr_size), probes need one of 135168 "
        "(device a/soft0)");
  const auto few = refusal(R"({ "max_qp": 2 })");
  CHECK(few.find("set-up: 2 of 4 QPs were usable") == 0);
  const auto refused = few.find(": verbs: ibv_create_qp "); // of the rail that came second
  REQUIRE(refused != std::string::npos);
  CHECK(few.substr(0, refused).find("; a/soft0>b/soft") != std::string::npos);
  CHECK(few.find("; a/soft0: max_qp is 2, this file's traffic needs 4") != std::string::npos);
  CHECK(refusal(R"({ "max_mr": 1 })").find("max_mr is 1, this file's traffic needs 2") != std::string::npos);
  CHECK(refusal("{}", R"({ "max_res_rd_atom": 1 })")
            .find("b/soft0: max_res_rd_atom is 1, this file's traffic needs 2") != std::string::npos);
  CHECK(refusal(R"({ "max_qp": 4, "max_qp_wr": 257, "max_mr": 2, "max_cqe": 1032 })",
                R"({ "max_res_rd_atom": 2 })") == "it came up");
}

TEST_CASE("memory that cannot be had is named with whose it is and how much") {
  const auto s = parsed(R"("hosts": [{ "name": "a" }, { "name": "b" }], "traffic": [
    { "name": "small", "from": "b", "to": "a" },
    { "name": "big", "from": "a", "to": "b", "sizes": ["4K", "1M"], "batch": 4, "depth": 5 }])");
  CHECK(s.traffic[1].memory_bytes(true) == 32u << 20);
  CHECK(too_much_memory(s, 1u << 30).empty());
  const auto why = too_much_memory(s, 1000);
  CHECK(why.find(", this machine has 1000; the most are 33554432 bytes for b (traffic big)") !=
        std::string::npos);
#ifndef __SANITIZE_ADDRESS__ // which ends the program over so much
  sim::cluster c(1);
  auto& m = c.add({});
  const auto begun = m.begin_memory(std::size_t{1} << 60, true, [](const auto&) {});
  REQUIRE_FALSE(begun.has_value());
  CHECK(begun.error().to_string() ==
        "drill: 1152921504606846976 bytes of memory for a cannot be allocated: Cannot allocate memory");
#endif
}

TEST_CASE("a host that cannot start again after a kill ends the run with what its device said") {
  const auto s =
      parsed(R"("hosts": [{ "name": "a" }, { "name": "b" }], "traffic": [{ "from": "a", "to": "b" }],
    "faults": [{ "kind": "verb_fails", "device": "b/soft1", "verb": "alloc_pd", "error": "ENOMEM", "at_ms": 1 },
               { "kind": "host_kill", "host": "b", "at_ms": 2, "for_ms": 5 }])");
  const auto why = play(s, 1).unfinished.value_or("it ended well");
  CHECK(why.find("cannot be done: ") != std::string::npos);
  CHECK(why.find("ibv_alloc_pd (device b/soft1): Cannot allocate memory") != std::string::npos);
}

TEST_CASE("a fault at 0 ms is there before the traffic of 0 ms begins") {
  for (const std::string dead : {"a", "b"}) { // of what is submitted before, nothing would complete
    CAPTURE(dead);
    const auto s = parsed(R"("hosts": [{ "name": "a" }, { "name": "b" }],
      "traffic": [{ "from": "a", "to": "b", "batch": 8, "count": 8 }],
      "faults": [{ "kind": "host_kill", "host": ")" +
                          dead + R"(", "at_ms": 0, "for_ms": 10 }],
      "expect": [{ "kind": "transfers", "status": "completed", "equals": 8 }])");
    const auto v = judge(s, play(s, 1));
    CHECK_MESSAGE(v.status == exit_good, v.report);
    CHECK(v.transfers == std::map<std::string, std::uint64_t>{{"completed", 8}});
  }
}

TEST_CASE(
    "memory that is revoked is registered once in the end, whatever happened to its process meanwhile") {
  const auto faults = {// its process is gone, and comes back before the revocation is over
                       R"({ "kind": "host_kill", "host": "b", "at_ms": 40, "for_ms": 20 },
         { "kind": "revoke_memory", "traffic": "w", "at_ms": 45, "for_ms": 35 })",
                       // it dies while the memory is revoked
                       R"({ "kind": "revoke_memory", "traffic": "w", "at_ms": 40, "for_ms": 30 },
         { "kind": "host_kill", "host": "b", "at_ms": 45, "spread_ms": 20, "for_ms": 10 })",
                       // new keys cannot be had when they should come
                       R"({ "kind": "revoke_memory", "traffic": "w", "at_ms": 40, "for_ms": 10 },
         { "kind": "rule", "rule": "dev=b verb=reg_mr do=errno:ENOMEM", "at_ms": 45, "for_ms": 35 })",
                       // one revocation ends before another one that began later or earlier
                       R"({ "kind": "revoke_memory", "traffic": "w", "at_ms": 40, "for_ms": 40 },
         { "kind": "revoke_memory", "traffic": "w", "at_ms": 45, "for_ms": 10 },
         { "kind": "revoke_memory", "traffic": "w", "at_ms": 70, "for_ms": 30 })",
                       // both processes die
                       R"({ "kind": "host_kill", "host": "b", "at_ms": 40, "for_ms": 20 },
         { "kind": "revoke_memory", "traffic": "w", "at_ms": 60, "for_ms": 10 },
         { "kind": "host_kill", "host": "a", "at_ms": 59, "spread_ms": 2, "for_ms": 20 })"};
  for (const std::string f : faults) {
    CAPTURE(f);
    const auto s = parsed(
        R"("hosts": [{ "name": "a" }, { "name": "b" }],
      "traffic": [{ "name": "w", "from": "a", "to": "b", "rate_per_s": 500, "repeat_until_ms": 120 }],
      "faults": [)" +
        f +
        R"(], "expect": [{ "kind": "transfers", "after_ms": 105, "status": "completed", "at_least": 1 }])");
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
      const auto v = judge(s, play(s, seed));
      CHECK_MESSAGE(v.status == exit_good, v.report);
    }
  }
}

TEST_CASE(
    "a fault whose process is gone befalls nothing, nor does the end of one that befell its predecessor") {
  const auto s = parsed(R"("hosts": [{ "name": "a" }, { "name": "b" }],
    "traffic": [{ "from": "a", "to": "b", "rate_per_s": 500, "repeat_until_ms": 150 }],
    "faults": [
      { "kind": "gid_move", "device": "b/soft0", "index": 0, "to_index": 7, "at_ms": 10, "for_ms": 90 },
      { "kind": "link_down", "device": "b/soft1", "at_ms": 15, "for_ms": 10 },
      { "kind": "host_kill", "host": "b", "at_ms": 20, "for_ms": 40 },
      { "kind": "hang", "device": "b/soft0", "at_ms": 30, "for_ms": 50 },
      { "kind": "host_kill", "host": "b", "at_ms": 32, "for_ms": 5 },
      { "kind": "host_freeze", "host": "b", "at_ms": 40, "for_ms": 30 },
      { "kind": "packets_lost", "device": "b/soft0", "at_ms": 50, "for_ms": 20 },
      { "kind": "host_restart", "host": "b", "at_ms": 90 },
      { "kind": "host_thaw", "host": "b", "at_ms": 91 }])");
  const auto facts = play(s, 1);
  const auto v = judge(s, facts);
  CHECK_MESSAGE(v.status == exit_good, v.report);
  std::vector<std::string> nothing;
  for (const auto& f : facts.void_faults)
    nothing.push_back(std::to_string(f.which) + (f.is_over ? " over: " : ": ") + f.why);
  CHECK(nothing == std::vector<std::string>{"1 over: the process on b is gone", "3: the process on b is gone",
                                            "4: the process on b is gone", "4 over: it did not begin",
                                            "5: the process on b is gone", "5 over: it did not begin",
                                            "3 over: it did not begin", "7: the process on b is there",
                                            "8: the process on b runs",
                                            "0 over: the process on b is another one now"});
  CHECK(v.void_faults == std::map<std::size_t, std::uint64_t>{{3, 1}, {4, 1}, {5, 1}, {7, 1}, {8, 1}});
}

TEST_CASE("bytes are counted as of the time that was asked for, whenever its turn comes") {
  const auto s = parsed(R"("hosts": [{ "name": "a" }, { "name": "b" }],
  "traffic": [{ "from": "a", "to": "b", "sizes": ["4K"], "batch": 4, "depth": 8, "repeat_until_ms": 3 }],
  "expect": [{ "kind": "device_bytes", "device": "a/soft0", "after_ms": 1, "before_ms": 2, "at_least": 1 }])");
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    const auto facts = play(s, seed);
    for (const auto at : {1ms, 2ms})
      CHECK(std::any_of(facts.bytes.begin(), facts.bytes.end(), [&](const auto& b) { return b.at == at; }));
    CHECK(judge(s, facts).status == exit_good);
  }
}

TEST_CASE(
    "a rail is timed from when the file's own traffic needed it, also if that was long after the fault") {
  const auto s = parsed(R"("hosts": [{ "name": "a" }, { "name": "b" }],
  "traffic": [{ "name": "first", "from": "a", "to": "b", "rate_per_s": 100, "repeat_until_ms": 100 },
              { "name": "second", "from": "a", "to": "b", "rate_per_s": 100, "start_ms": 4000, "repeat_until_ms": 4500 }],
  "faults": [{ "at_ms": 200, "kind": "link_down", "device": "a/soft0", "for_ms": 50 }],
  "bounds": { "converge_within_ms": 1000 })");
  CHECK(judge(s, play(s, 1)).status == exit_good);
}
