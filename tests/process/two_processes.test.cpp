// SPDX-License-Identifier: Apache-2.0
// A target and an initiator as two processes: that the content is right, that the control connection alone
// may break, that signals are answered, and what the shell gets to see.
#include "drill/real/tcp_proxy.hpp"
#include "tests/process/child.hpp"

#include <csignal>
#include <thread>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace actor_rdma;
using namespace actor_rdma::process;
using namespace std::chrono_literals;

namespace {

std::vector<std::string> initiator(const fabric_name& fabric, const std::string& address,
                                   std::vector<std::string> more) {
  more.insert(more.begin(),
              {"initiator", "--soft-fabric", fabric.get(), "--connect", address, "--range", "64M"});
  return bench_command(more);
}

nlohmann::json figures(const child& of) {
  INFO(of.errors());
  auto j = nlohmann::json::parse(of.output(), nullptr, false);
  REQUIRE(!j.is_discarded());
  return j;
}

void expect_clean_end(target_process& target) {
  target.process.signal(SIGTERM);
  const auto status = target.process.wait(15s);
  INFO(target.process.errors());
  REQUIRE(status);
  CHECK(*status == 0);
}

} // namespace

TEST_CASE("two processes transfer what is right") {
  const fabric_name fabric;
  target_process target(fabric.get(), {"--nics", "2", "--range", "64M"});
  REQUIRE(!target.address.empty());
  for (const std::string op : {"write", "read"})
    for (const std::string size : {"7", "64K", "1048579"}) {
      CAPTURE(op);
      CAPTURE(size);
      child run(initiator(fabric, target.address,
                          {"--op", op, "--size", size, "--batch", "8", "--threads", "2", "--nics", "2",
                           "--batches", "24", "--verify", "--json"}));
      REQUIRE(run.wait(60s));
      INFO(run.errors());
      CHECK(*run.wait(0s) == 0);
      const auto j = figures(run);
      CHECK(j["completed"] == 24 * 8);
      CHECK(j["failed"] == 0);
      CHECK(j["mismatched_bytes"] == 0);
      CHECK(j["verified_bytes"].get<std::uint64_t>() >= 24 * 8 * j["size"].get<std::uint64_t>());
    }
  expect_clean_end(target);
}

TEST_CASE("the object on standard output has the promised keys and is alone there") {
  const fabric_name fabric;
  target_process target(fabric.get(), {"--range", "64M"});
  REQUIRE(!target.address.empty());
  child run(initiator(fabric, target.address, {"--batches", "8", "--json", "--fault", "hang:soft0@1h"}));
  REQUIRE(run.wait(60s));
  const auto j = figures(run);
  for (const auto* key :
       {"engine", "op", "size", "batch", "threads", "nics", "seconds", "throughput_bytes_s", "ops_s",
        "latency_us", "cpu_ns_per_op", "submit_ns_per_descriptor", "verified_bytes", "mismatched_bytes",
        "completed", "failed", "timed_out", "recovery"})
    CHECK_MESSAGE(j.contains(key), key);
  for (const auto* key : {"p50", "p99", "p999", "max"})
    CHECK_MESSAGE(j["latency_us"].contains(key), key);
  CHECK(j["recovery"].is_null()); // nothing happened
}

TEST_CASE("losing the control connection alone disturbs no transfer") {
  const fabric_name fabric;
  target_process target(fabric.get(), {"--range", "64M", "--nic-mode", "paced", "--rate", "2"});
  REQUIRE(!target.address.empty());
  drill::tcp_proxy proxy(target.address);
  child run(initiator(fabric, proxy.address(),
                      {"--nic-mode", "paced", "--rate", "2", "--seconds", "4", "--verify", "--json"}));
  REQUIRE(run.wait_for_text("op/s", 30s));
  for (unsigned cuts = 1; cuts <= 3; ++cuts) {
    proxy.cut();
    const auto until = base::mono_clock::now() + 5s;
    while (proxy.connections() <= cuts && base::mono_clock::now() < until)
      std::this_thread::sleep_for(5ms);
    CHECK_MESSAGE(proxy.connections() == cuts + 1, "the initiator dials again");
    std::this_thread::sleep_for(200ms);
  }
  REQUIRE(run.wait(60s));
  INFO(run.errors());
  CHECK(*run.wait(0s) == 0);
  const auto j = figures(run);
  CHECK(j["failed"] == 0);
  CHECK(j["timed_out"] == 0);
  CHECK(j["mismatched_bytes"] == 0);
  CHECK(j["completed"] > 0);
  expect_clean_end(target);
}

TEST_CASE("SIGUSR1 shows what every actor is doing and SIGINT ends the run in good order") {
  const fabric_name fabric;
  target_process target(fabric.get(), {"--range", "64M"});
  REQUIRE(!target.address.empty());
  child run(initiator(fabric, target.address, {"--seconds", "100"}));
  REQUIRE(run.wait_for_text("op/s", 30s));
  run.signal(SIGUSR1);
  CHECK(run.wait_for_text("qp initiator/soft0>target/soft0#0: ACTIVE", 10s));
  CHECK(run.wait_for_text("device initiator/soft0: ACTIVE", 10s));
  run.signal(SIGINT);
  REQUIRE(run.wait(20s));
  CHECK(*run.wait(0s) == 0);
  CHECK(run.output().find("throughput") != std::string::npos);
  target.process.signal(SIGUSR1);
  CHECK(target.process.wait_for_text("device target/soft0", 10s));
  expect_clean_end(target);
}
