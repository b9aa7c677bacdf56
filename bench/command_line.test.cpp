// SPDX-License-Identifier: Apache-2.0
// That arguments become settings, and that what is wrong with them is said.
#include "bench/command_line.hpp"

#include "transport/transport.hpp"

#include <initializer_list>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace actor_rdma::bench;
using namespace std::chrono_literals;

namespace {

struct parsed {
  std::variant<settings, int> outcome;
  std::string output;
  std::string errors;
  const settings& run() const { return std::get<settings>(outcome); }
};

parsed parse(std::initializer_list<const char*> arguments) {
  std::vector<const char*> argv{"actor-rdma-bench"};
  argv.insert(argv.end(), arguments);
  std::ostringstream output;
  std::ostringstream errors;
  auto outcome = parse_command_line(static_cast<int>(argv.size()), argv.data(), output, errors);
  return {std::move(outcome), output.str(), errors.str()};
}

std::string refusal(std::initializer_list<const char*> arguments) {
  const auto p = parse(arguments);
  if (std::holds_alternative<settings>(p.outcome))
    return "accepted";
  CHECK(std::get<int>(p.outcome) == exit_usage);
  CHECK(p.output.empty());
  return p.errors;
}

bool contains(const std::string& text, const char* part) {
  const bool found = text.find(part) != std::string::npos;
  if (!found)
    MESSAGE(text);
  return found;
}

} // namespace

TEST_CASE("human sizes, times and names are understood") {
  const auto p = parse({"loopback",
                        "--op",
                        "read",
                        "--size",
                        "64K",
                        "--batch",
                        "16",
                        "--range",
                        "1G",
                        "--nic-mode",
                        "paced",
                        "--link-layer",
                        "infiniband",
                        "--latency",
                        "7us",
                        "--deadline",
                        "1500ms",
                        "--engine",
                        "actor",
                        "--seconds",
                        "0.5",
                        "--fault",
                        "down:soft0@2s,up:soft0@4s",
                        "--json"});
  REQUIRE(std::holds_alternative<settings>(p.outcome));
  const auto& s = p.run();
  CHECK(s.as == role::loopback);
  CHECK(s.op == operation::read);
  CHECK(s.size == 65536);
  CHECK(s.range == 1ull << 30);
  CHECK(s.latency == 7us);
  CHECK(s.link_layer == "infiniband");
  CHECK(s.deadline == 1500ms);
  CHECK(s.time == 500ms);
  CHECK(s.faults.size() == 2);
  CHECK(s.json);
  CHECK(s.soft_host == "initiator");
}

TEST_CASE("bytes are rounded up to batches, whatever the order of the options") {
  const auto p = parse({"loopback", "--bytes", "1000", "--size", "100", "--batch", "3"});
  REQUIRE(std::holds_alternative<settings>(p.outcome));
  CHECK(p.run().batches == 4);
}

TEST_CASE("the default depth fits into the range") {
  CHECK(parse({"loopback"}).run().depth == 4);
  CHECK(parse({"loopback", "--size", "256M", "--batch", "1"}).run().depth == 2);
  CHECK(parse({"loopback", "--size", "64M", "--batch", "1", "--threads", "8"}).run().depth == 1);
}

TEST_CASE("a deadline of none is understood") {
  CHECK(parse({"loopback", "--deadline", "none"}).run().deadline == submit_options::no_deadline);
}

TEST_CASE("a target runs until it is told to stop") {
  CHECK(parse({"target"}).run().time == 0ns);
  CHECK(parse({"target", "--seconds", "2"}).run().time == 2s);
  CHECK(parse({"target"}).run().soft_host == "target");
}

TEST_CASE("help is no error") {
  const auto p = parse({"loopback", "--help"});
  CHECK(std::get<int>(p.outcome) == exit_good);
  CHECK(contains(p.output, "--nic-mode"));
}

TEST_CASE("what is wrong is named") {
  CHECK(contains(refusal({}), "subcommand"));
  CHECK(contains(refusal({"loopback", "--no-such-option"}), "--no-such-option"));
  CHECK(contains(refusal({"target", "--json"}), "--json"));
  CHECK(contains(refusal({"initiator"}), "--connect"));
  CHECK(contains(refusal({"loopback", "--size", "0"}), "--size 0: a transfer carries at least one byte"));
  CHECK(contains(refusal({"loopback", "--size", "1G"}), "--size 1G does not fit into --range 512M"));
  CHECK(contains(refusal({"loopback", "--size", "1M", "--batch", "1024"}),
                 "--batch 1024 x --size 1M x --threads 1 does not fit into --range 512M"));
  CHECK(contains(refusal({"loopback", "--size", "1M", "--depth", "9"}),
                 "--depth 9 x --batch 64 x --size 1M x --threads 1 does not fit into --range 512M"));
  CHECK(contains(refusal({"loopback", "--size", "16E"}), "16E"));
  CHECK(contains(refusal({"loopback", "--range", "0"}), "--range 0"));
  CHECK(contains(refusal({"loopback", "--batch", "0"}), "--batch"));
  CHECK(contains(refusal({"loopback", "--op", "copy"}), "--op"));
  CHECK(contains(refusal({"loopback", "--latency", "5"}), "--latency"));
  CHECK(contains(refusal({"loopback", "--fault", "flap:soft0@1s"}), "down, up, hang, heal and delay"));
  CHECK(contains(refusal({"loopback", "--seconds", "1", "--batches", "1"}), "--batches"));
  CHECK(contains(refusal({"loopback", "--log", "loud"}), "--log"));
}

TEST_CASE("what does not fit together is refused by name") {
  CHECK(contains(refusal({"loopback", "--verify", "--nic-mode", "null"}),
                 "--verify cannot be combined with --nic-mode null"));
  CHECK(contains(refusal({"loopback", "--engine", "raw", "--threads", "2"}), "the raw engine is one thread"));
  CHECK(contains(refusal({"loopback", "--engine", "raw", "--fault", "down:soft0@1s"}), "--engine actor"));
  CHECK(contains(refusal({"loopback", "--trials", "3"}), "--trials"));
  CHECK(contains(refusal({"loopback", "--compare", "3", "--fault", "down:soft0@1s"}), "--compare"));
  CHECK(contains(refusal({"loopback", "--fabric", "verbs", "--fault", "down:soft0@1s"}), "--fabric verbs"));
}

TEST_CASE("devices and the patience of QPs can be named") {
  const auto s = parse({"loopback", "--fabric", "verbs", "--devices", "rxe0,rxe2", "--target-devices",
                        "rxe1,rxe3", "--retry-count", "6", "--qp-timeout", "16", "--stall-floor", "500ms",
                        "--pause", "20ms", "--notices"})
                     .run();
  CHECK(s.devices == std::vector<std::string>{"rxe0", "rxe2"});
  CHECK(s.target_devices == std::vector<std::string>{"rxe1", "rxe3"});
  CHECK(s.nics == 2);
  CHECK(s.pause == 20ms);
  CHECK(s.notices);
  const auto how = transport_options(s, "initiator");
  CHECK(how.devices == s.devices);
  CHECK(how.retry_count == 6);
  CHECK(how.qp_timeout == 16);
  CHECK(how.stall_floor == 500ms);
}

TEST_CASE("devices and notices that a run cannot have are refused") {
  CHECK(contains(refusal({"initiator", "--connect", "a:1", "--target-devices", "rxe1"}), "--target-devices"));
  CHECK(contains(refusal({"loopback", "--engine", "raw", "--target-devices", "rxe1"}), "--engine actor"));
  CHECK(contains(refusal({"loopback", "--engine", "raw", "--notices"}), "--engine actor"));
  CHECK(contains(refusal({"loopback", "--retry-count", "8"}), "--retry-count"));
  CHECK(contains(refusal({"loopback", "--qp-timeout", "0"}), "--qp-timeout"));
}
