// SPDX-License-Identifier: Apache-2.0
// A target that is killed in the middle of transfers: they fail at once, with the cause, and the same
// initiator goes on as soon as another target listens on that address.
#include "tests/process/child.hpp"

#include <csignal>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace actor_rdma;
using namespace actor_rdma::process;
using namespace std::chrono_literals;

TEST_CASE("transfers to a killed target fail at once and go on with the next one") {
  const fabric_name fabric;
  const std::vector<std::string> nic{"--nics", "2", "--range", "64M", "--nic-mode", "paced", "--rate", "1"};
  auto target = std::make_unique<target_process>(fabric.get(), nic);
  REQUIRE(!target->address.empty());
  const auto address = target->address;
  constexpr int batches = 150;
  constexpr int per_batch = 64;
  auto arguments = nic;
  arguments.insert(arguments.begin(),
                   {"initiator", "--soft-fabric", fabric.get(), "--connect", address, "--batch",
                    std::to_string(per_batch), "--batches", std::to_string(batches), "--verify", "--json"});
  child run(bench_command(arguments));
  REQUIRE(run.wait_for_text("op/s", 30s)); // a second of transfers

  const auto killed = base::mono_clock::now();
  target->process.signal(SIGKILL);
  const bool told = run.wait_for_text("peer_dead", 10s);
  const auto after = base::mono_clock::now() - killed;
  INFO(run.errors());
  REQUIRE(told);
  CHECK(after <= 1s);
  CHECK(run.wait_for_text("waiting for the target", 5s));

  target.reset();
  target_process next(fabric.get(), nic, address);
  REQUIRE(next.address == address);
  CHECK(run.wait_for_text("is back", 15s));
  REQUIRE(run.wait(60s));
  CHECK(*run.wait(0s) == 1); // some did fail

  const auto j = nlohmann::json::parse(run.output(), nullptr, false);
  REQUIRE(!j.is_discarded());
  const auto failed = j["failed"].get<int>();
  const auto completed = j["completed"].get<int>();
  CHECK(failed > 0);
  CHECK(j["failure_causes"].size() == 1);
  CHECK(j["failure_causes"].contains("peer_dead"));
  CHECK(j["timed_out"] == 0);
  CHECK(j["stuck"] == 0);
  CHECK(j["mismatched_bytes"] == 0);
  // All batches were begun, so most of them with the new target. (Reading back may have failed too.)
  CHECK(completed + failed >= batches * per_batch);
  CHECK(completed >= batches * per_batch / 2);
}
