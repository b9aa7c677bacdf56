// SPDX-License-Identifier: Apache-2.0
// A benchmark that is told to stop ends soon, whatever it waits for.
#include "tests/process/child.hpp"

#include <csignal>
#include <thread>

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace actor_rdma::process;
using namespace std::chrono_literals;

TEST_CASE("a run that is told to stop during an outage cancels what is open and ends") {
  const fabric_name fabric;
  child run(bench_command({"loopback", "--soft-fabric", fabric.get(), "--range", "8M", "--seconds", "60",
                           "--nic-mode", "paced", "--fault", "down:soft0@200ms"}));
  REQUIRE(run.wait_for_text("fault: down", 20s));
  std::this_thread::sleep_for(300ms);
  run.signal(SIGTERM);
  const auto told = base::mono_clock::now();
  const auto status = run.wait(20s);
  REQUIRE(status);
  CHECK(*status == 1); // transfers were cancelled
  CHECK(base::mono_clock::now() - told < 8s);
  CHECK(run.errors().find("stopping") != std::string::npos);
}

TEST_CASE("a run that is told to stop while it connects ends") {
  const fabric_name fabric;
  // Somebody listens there and never says a word: the system accepts for him.
  child silent(
      bench_command({"target", "--soft-fabric", fabric.get(), "--listen", "127.0.0.1:0", "--range", "8M"}));
  REQUIRE(silent.wait_for_text("listening on ", 20s));
  const auto text = silent.output();
  const auto address = text.substr(text.find("listening on ") + 13, text.find('\n') - 13);
  silent.signal(SIGSTOP);
  child run(bench_command({"initiator", "--soft-fabric", fabric.get(), "--connect", address, "--range", "8M",
                           "--connect-timeout", "60s"}));
  std::this_thread::sleep_for(1s);
  run.signal(SIGINT);
  const auto told = base::mono_clock::now();
  const auto status = run.wait(20s);
  silent.signal(SIGCONT);
  REQUIRE(status);
  CHECK(*status == 3);
  CHECK(base::mono_clock::now() - told < 8s);
  CHECK(run.errors().find("told to stop") != std::string::npos);
}

TEST_CASE("a run without deadlines ends though what is open does not") {
  const fabric_name fabric;
  child run(bench_command({"loopback", "--soft-fabric", fabric.get(), "--range", "8M", "--seconds", "1",
                           "--nic-mode", "paced", "--deadline", "none", "--fault", "hang:soft0@200ms"}));
  const auto status = run.wait(25s); // the run, 10 s, and no more for what is cancelled together
  REQUIRE(status);
  CHECK(*status == 1);
  CHECK(run.errors().find("cancelled") != std::string::npos);
  CHECK(run.errors().find("after its deadline of") == std::string::npos);
}
