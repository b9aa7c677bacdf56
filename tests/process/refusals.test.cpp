// SPDX-License-Identifier: Apache-2.0
// What is wrong is said in a sentence that helps, and with the exit status that tells whose fault it is.
#include "tests/process/child.hpp"
#include "tests/process/rejecting_peer.hpp"

#include <csignal>

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace actor_rdma::process;
using namespace std::chrono_literals;

namespace {

void expect(std::vector<std::string> arguments, int status, const std::string& sentence) {
  CAPTURE(sentence);
  child run(bench_command(std::move(arguments)));
  const auto ended = run.wait(30s);
  INFO(run.errors());
  REQUIRE(ended);
  CHECK(*ended == status);
  CHECK(run.errors().find(sentence) != std::string::npos);
  CHECK(run.output().empty());
}

} // namespace

TEST_CASE("wrong arguments are refused with status 2") {
  expect({}, 2, "subcommand");
  expect({"loopback", "--speed", "9"}, 2, "--speed");
  expect({"loopback", "--size", "0"}, 2, "--size 0: a transfer carries at least one byte");
  expect({"loopback", "--size", "1G"}, 2, "--size 1G does not fit into --range 512M");
  expect({"loopback", "--nic-mode", "null", "--verify"}, 2,
         "--verify cannot be combined with --nic-mode null");
  expect({"initiator"}, 2, "--connect");
  expect({"loopback", "--fault", "down:soft7@1s"}, 2, "there is no device initiator/soft7");
}

TEST_CASE("an address where nobody listens is refused with status 3") {
  const fabric_name fabric;
  // A port that no ordinary program listens on.
  expect({"initiator", "--soft-fabric", fabric.get(), "--connect", "127.0.0.1:1", "--connect-timeout", "1s"},
         3, "refused");
  expect({"initiator", "--soft-fabric", fabric.get(), "--connect", "nowhere"}, 3, "host:port");
}

TEST_CASE("a rejection shows the peer's own words") {
  const fabric_name fabric;
  const rejecting_peer peer(bootstrap::reject_code::resources, "all parking places are taken");
  expect({"initiator", "--soft-fabric", fabric.get(), "--connect", peer.address(), "--connect-timeout", "1s"},
         3, "all parking places are taken");
}

TEST_CASE("a target with less memory than the range is refused with both numbers") {
  const fabric_name fabric;
  target_process target(fabric.get(), {"--range", "1M"});
  REQUIRE(!target.address.empty());
  expect({"initiator", "--soft-fabric", fabric.get(), "--connect", target.address, "--range", "8M", "--batch",
          "1"},
         2, "publishes 1048576 bytes of memory, --range 8M needs more");
}

TEST_CASE("a target that cannot listen says so with status 3") {
  const fabric_name fabric;
  target_process first(fabric.get(), {"--range", "1M"});
  REQUIRE(!first.address.empty());
  expect({"target", "--soft-fabric", fabric.get(), "--soft-host", "second", "--listen", first.address}, 3,
         "in use");
}
