// SPDX-License-Identifier: Apache-2.0
// What the reader accepts, what it refuses and how it names it.
#include "drill/format/read.hpp"

#include "drill/checks/expectations.hpp"
#include "drill/explain.hpp"
#include "drill/fault_kinds.hpp"
#include "drill/format/tables.hpp"

#include <fstream>
#include <iterator>

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace actor_rdma::drill;
using namespace std::chrono_literals;

namespace {

/// The file with this as its last member.
tl::expected<scenario, std::vector<std::string>> with(const std::string& member) {
  return parse_scenario(R"({ "id": "x", "title": "y", "hosts": [{ "name": "a" }, { "name": "b" }],
    "traffic": [{ "name": "main", "from": "a", "to": "b" }])" +
                        (member.empty() ? "" : ", " + member) + "}");
}

/// The only complaint.
std::string complaint(const std::string& member) {
  const auto read = with(member);
  REQUIRE_FALSE(read.has_value());
  CHECK(read.error().size() == 1);
  return read.error().front();
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("a small file is read with its defaults, and comments are no obstacle") {
  const auto read = with("\"seeds\": 3 // three\n");
  REQUIRE(read.has_value());
  CHECK(read->seeds == 3);
  REQUIRE(read->hosts.size() == 2);
  CHECK(read->hosts[0].nics().size() == 2);
  CHECK(read->hosts[0].nics()[1].name == "soft1");
  CHECK(read->hosts[0].nics()[1].mode == verbs::soft::nic_mode::paced);
  CHECK(read->traffic[0].deadline == 10s);
}

TEST_CASE("settings of the file are those of each host, which may change them") {
  const auto read =
      parse_scenario(R"({ "hosts": [{ "name": "a", "settings": { "path_fence_ms": 7 } }, { "name": "b" }],
    "settings": { "stall_floor_ms": 12.5, "path_fence_ms": 9 }, "id": "x", "title": "y" })");
  REQUIRE(read.has_value());
  CHECK(read->hosts[0].config.stall_floor == 12500us);
  CHECK(read->hosts[0].config.path_fence == 7ms);
  CHECK(read->hosts[1].config.path_fence == 9ms);
}

TEST_CASE("what is wrong is named with its place and with what is accepted") {
  CHECK(complaint(R"("seed": 3)").find("seed: is not a key here, accepted are id, title") == 0);
  CHECK(has(complaint(R"("seeds": 0)"), "seeds: is 0, accepted is a whole number, 1 to"));
  CHECK(has(complaint(R"("seeds": "many")"), "seeds: is \"many\""));
  CHECK(has(complaint(R"("bounds": { "end_grace_ms": -1 })"), "bounds.end_grace_ms: is -1"));
  CHECK(has(complaint(R"("settings": { "send_queue_depth": 100 })"),
            "settings.send_queue_depth: is 100, accepted is a power of two"));
  const std::string fault = R"("faults": [{ "kind": "hang", "device": "a/soft0", "at_ms": )";
  CHECK(has(complaint(fault + R"("soon" }])"), "faults[0]"));
  CHECK(has(complaint(fault + R"(5, "by_ms": 4 }])"), "faults[0].by_ms: is not a key here"));
  CHECK(has(complaint(R"("faults": [{ "kind": "hang", "device": "a/soft9", "at_ms": 5 }])"),
            "faults[0].device: there is no device \"a/soft9\", devices are a/soft0, a/soft1"));
  CHECK(has(complaint(R"("faults": [{ "kind": "hung" }])"),
            "faults[0].kind: is \"hung\", accepted is one of link_down"));
  CHECK(has(complaint(R"("faults": [{ "kind": "hang", "device": "a/soft0" }])"),
            "needs either at_ms or after_completions"));
  CHECK(has(complaint(R"("faults": [{ "kind": "control_cut", "from": "a", "at_ms": 1 }])"),
            "faults[0].to: is missing"));
  CHECK(has(complaint(R"("faults": [{ "kind": "control_cut", "from": "a", "to": "c", "at_ms": 1 }])"),
            "faults[0].to: there is no host \"c\", hosts are a, b"));
  CHECK(has(complaint(R"("expect": [{ "kind": "transfers" }])"),
            "expect[0]: needs at_least, at_most or equals"));
  CHECK(has(complaint(R"("expect": [{ "kind": "transfers", "traffic": "mian", "equals": 1 }])"),
            "expect[0].traffic: there is no traffic \"mian\", traffic is main"));
  CHECK(has(complaint(R"("expect": [{ "kind": "notices", "status": "completed", "equals": 1 }])"),
            "expect[0].status: is \"completed\", accepted is one of delivered, withheld, lost, unknown"));
  CHECK(has(complaint(R"("seeds": 3, "seeds": 4)"), "seeds: stands twice"));
  CHECK(has(complaint(R"("seeds": )"), "is not JSON"));
}

TEST_CASE("everything that is wrong is told at once") {
  const auto read = with(R"("seeds": 0, "time_limit_ms": 0)");
  REQUIRE_FALSE(read.has_value());
  CHECK(read.error().size() == 2);
}

TEST_CASE("what is no regular file is refused by its kind") {
  const auto read = read_scenario("/dev/zero");
  REQUIRE_FALSE(read.has_value());
  CHECK(read.error().front() == "/dev/zero: is a device, not a regular file");
}

TEST_CASE("a fault's words and times that mean nothing are refused") {
  const auto fault = [](const std::string& rest) { return R"("faults": [{ )" + rest + " }]"; };
  const std::string drop = R"("kind": "control_drop", "from": "a", "to": "b", "at_ms": 5)";
  CHECK(has(complaint(fault(drop + R"(, "message": "conect")")),
            "faults[0].message: is \"conect\", accepted is one of hello, publish, connect, accept"));
  CHECK(with(fault(drop + R"(, "message": "noticed")")).has_value());
  const std::string hang = R"("kind": "hang", "device": "a/soft0", )";
  CHECK(has(complaint(fault(hang + R"("at_ms": 5, "every_ms": 10)")), "faults[0].every_ms: goes with times"));
  CHECK(has(complaint(fault(hang + R"("at_ms": 5, "times": 1, "every_ms": 10)")), "goes with times"));
  CHECK(has(complaint(fault(hang + R"("at_ms": 5, "times": 3)")), "faults[0].every_ms: is missing"));
  CHECK(has(complaint(fault(hang + R"("at_ms": 5, "traffic": "main")")),
            "faults[0].traffic: goes with after_completions only"));
  CHECK(has(complaint(fault(hang + R"("after_completions": 5, "spread_ms": 10)")),
            "faults[0].spread_ms: goes with at_ms only"));
  CHECK(has(complaint(fault(hang + R"("after_completions": 5, "times": 2)")),
            "faults[0].times: goes with at_ms"));
  CHECK(has(complaint(fault(R"("kind": "mtu", "device": "a/soft0", "mtu": 1500, "at_ms": 5)")),
            "faults[0].mtu: is 1500, accepted is one of 256, 512, 1024, 2048, 4096"));
}

TEST_CASE("an expectation that no run or every run keeps is refused") {
  const auto expect = [](const std::string& rest) {
    return R"("expect": [{ "kind": "latency_ratio", )" + rest + " }]";
  };
  CHECK(has(complaint(expect(R"("at_most": 2, "after_ms": 5, "before_ms": 5)")),
            "expect[0].before_ms: must be after after_ms"));
  CHECK(has(complaint(expect(R"("at_most": 2, "base_after_ms": 5, "base_before_ms": 4)")),
            "expect[0].base_before_ms: must be after base_after_ms"));
  CHECK(has(complaint(expect(R"("at_most": 2, "at_least": 3)")), "expect[0]: at_least, at_most and equals"));
  CHECK(has(complaint(expect(R"("at_most": 2, "equals": 3)")), "expect[0]: at_least, at_most and equals"));
}

TEST_CASE("hosts and networks with which nothing could come up are refused") {
  const auto hosts = [](const std::string& a, const std::string& rest) {
    const auto read =
        parse_scenario(R"({ "id": "x", "title": "y", "hosts": [{ "name": "a", "devices": )" + a +
                       R"( }, { "name": "b" }], "traffic": [{ "from": "a", "to": "b" }])" + rest + "}");
    REQUIRE_FALSE(read.has_value());
    CHECK(read.error().size() == 1);
    return read.error().front();
  };
  CHECK(has(hosts("[]", ""), "hosts[0].devices: is [], accepted is a list of objects, at least one"));
  CHECK(
      has(hosts(R"([{ "latency_us": 1e7 }])", ""),
          "hosts[0].devices[0].latency_us: is 10000000.0, accepted is a number of microseconds, 0 to 50000"));
  const std::string there = R"({ "from": "a", "to": "b", "latency_us": )";
  CHECK(has(complaint(R"("control": [)" + there + "2e6 }]"),
            "control[0].latency_us: is 2000000.0, accepted is a number of microseconds, 0 to 1000000"));
  CHECK(has(complaint(R"("control": [)" + there + "5 }, " + there + "6 }]"),
            "control[1]: the direction from a to b is there twice"));
  const auto slow = R"("control": [)" + there + R"(8e5 }, { "from": "b", "to": "a", "latency_us": 7e5 }])";
  CHECK(has(complaint(slow), "control: a round trip between a and b takes 1500 ms, accepted is less than the "
                             "connect_deadline_ms of a, 1500"));
  CHECK(with(slow + R"(, "settings": { "connect_deadline_ms": 2000 })").has_value());
}

TEST_CASE("memory that no machine has is refused with how much is accepted") {
  const auto read = parse_scenario(R"({ "id": "x", "title": "y", "hosts": [{ "name": "a" }, { "name": "b" }],
    "traffic": [{ "from": "a", "to": "b", "sizes": ["1G"], "batch": 1000, "depth": 1000 }] })");
  REQUIRE_FALSE(read.has_value());
  CHECK(read.error() ==
        std::vector<std::string>{
            "traffic[0]: depth times batch times the greatest of sizes makes 1610614883483648 "
            "bytes of memory at its to, accepted are at most 1099511627776"});
}

TEST_CASE("a file that cannot be read is named") {
  const auto read = read_scenario("/does/not/exist.json");
  REQUIRE_FALSE(read.has_value());
  CHECK(has(read.error().front(), "/does/not/exist.json: cannot be read: No such file"));
}

TEST_CASE("what only InfiniBand ports have is refused of others, and LIDs that are there twice") {
  const auto complaint = [](const std::string& a, const std::string& b, const std::string& more = "") {
    const auto read =
        parse_scenario(R"({ "id": "x", "title": "y", "hosts": [{ "name": "a", "devices": [{ )" + a +
                       R"( }] }, { "name": "b", "devices": [{ )" + b + " }] }]" + more + "}");
    return read ? std::string{} : read.error().front();
  };
  const std::string ib = R"("link_layer": "infiniband")";
  CHECK(complaint(ib, ib) == "");
  CHECK(complaint(ib + R"(, "lid": 7, "subnet_prefix": "fec0:0:0:2::", "gids": { "0": "fec0:0:0:2::1" })",
                  ib + R"(, "lid": 7)") == "");
  CHECK(has(complaint(R"("link_layer": "ib")", ib), "one of ethernet, infiniband"));
  CHECK(has(complaint(R"("lid": 7)", ib), "lid and subnet_prefix are of InfiniBand ports"));
  CHECK(has(complaint(ib + R"(, "lid": 7)", ib + R"(, "lid": 7)"), "two ports of a subnet have LID 7"));
  CHECK(has(complaint(ib + R"(, "subnet_prefix": "fe80::1")", ib), "the upper half of an address"));
  CHECK(has(complaint(ib, "", R"(, "traffic": [{ "from": "a", "to": "b" }])"),
            "traffic[0]: no device of a has the link layer of one of b"));
  CHECK(
      has(complaint("", ib, R"(, "faults": [{ "at_ms": 1, "kind": "lid", "device": "a/soft0", "lid": 9 }])"),
          "a/soft0 is an Ethernet port"));
}

TEST_CASE("the example of the documentation is a scenario, and can be said in words") {
  std::ifstream in(ACTOR_RDMA_SOURCE_DIR "/docs/scenarios.md");
  const std::string page{std::istreambuf_iterator<char>{in}, {}};
  const auto from = page.find("```json\n");
  REQUIRE(from != std::string::npos);
  const auto read = parse_scenario(page.substr(from + 8, page.find("```\n", from + 8) - from - 8));
  REQUIRE(read.has_value());
  const auto words = explain(*read);
  CHECK(has(words, "a/soft0 hangs, for 1000 ms"));
  CHECK(has(words, "no late byte"));
  CHECK(
      has(words,
          "  (device_bytes: bytes of the requests that the device made in this time; a target's are none)"));
}

TEST_CASE("a host with a count stands for many, and a star in traffic for each pair of them") {
  const auto read = parse_scenario(R"({ "id": "x", "title": "y",
    "hosts": [{ "name": "c", "count": 3, "devices": [{}] }, { "name": "s", "count": 2 }, { "name": "one" }],
    "traffic": [{ "from": "c*", "to": "s*", "count": 7 }, { "name": "r", "from": "c*", "to": "c*" },
                { "from": "one", "to": "s1" }] })");
  REQUIRE(read.has_value());
  std::string hosts;
  for (const auto& h : read->hosts)
    hosts += h.name + " ";
  CHECK(hosts == "c0 c1 c2 s0 s1 one ");
  CHECK(read->hosts[2].nics().size() == 1);
  std::string traffic;
  for (const auto& t : read->traffic)
    traffic += t.name + " ";
  CHECK(traffic ==
        "c0-s0 c0-s1 c1-s0 c1-s1 c2-s0 c2-s1 r-c0-c1 r-c0-c2 r-c1-c0 r-c1-c2 r-c2-c0 r-c2-c1 one-s1-2 ");
  CHECK(read->traffic[5].count == 7);
  const auto none = parse_scenario(R"({ "id": "x", "title": "y", "hosts": [{ "name": "a" }, { "name": "b" }],
    "traffic": [{ "from": "q*", "to": "a" }] })");
  REQUIRE_FALSE(none.has_value());
  CHECK(has(none.error().front(), "there is no host \"q*\""));
}

TEST_CASE(
    "a member that a device has not, and a fault after the end of all time, are refused where they stand") {
  const auto fault = [](const std::string& what) { return "\"faults\": [{ " + what + " }]"; };
  CHECK(complaint(fault(R"("at_ms": 1, "kind": "member_down", "device": "a/soft0", "member": 1)")) ==
        "faults[0].member: a/soft0 has 1 members, accepted is 0 to 0");
  const std::string flap = R"("kind": "link_down", "device": "a/soft0", "for_ms": 10, "at_ms": 1000)";
  CHECK(with(fault(flap + R"(, "times": 120, "every_ms": 1000)")).has_value());
  CHECK(complaint(fault(flap + R"(, "times": 121, "every_ms": 1000)")) ==
        "faults[0]: may begin as late as 121000 ms, accepted is until the time_limit_ms of 120000");
  CHECK(has(complaint(fault(flap + R"(, "times": 1000000, "every_ms": 1000)")), "time_limit_ms"));
}

TEST_CASE("a number that no machine has is refused like any other nonsense") {
  CHECK(has(complaint(R"("time_limit_ms": 1e999)"), "is not JSON"));
}
