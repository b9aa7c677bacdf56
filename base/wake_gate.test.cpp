// SPDX-License-Identifier: Apache-2.0
//
// Tests of the gate's calls, one thread at a time. The race that it exists for has a test of its own beside
// this file.
#include "base/wake_gate.hpp"

#include <array>
#include <thread>

#include <doctest/doctest.h>
#include <sys/eventfd.h>
#include <unistd.h>

using namespace actor_rdma::base;
using namespace std::chrono_literals;

TEST_CASE("a wake before the wait ends the wait at once") {
  auto gate = wake_gate::make().value();
  gate->prepare_sleep();
  gate->wake();
  const auto before = mono_clock::now();
  CHECK(gate->wait(10s).empty());
  CHECK(mono_clock::now() - before < 5s);
  CHECK(gate->wakes_written() == 1);
}

TEST_CASE("an awake consumer costs producers no system call, and a sleeping one costs them one") {
  auto gate = wake_gate::make().value();
  gate->wake();
  gate->wake();
  CHECK(gate->wakes_written() == 0);
  gate->prepare_sleep();
  gate->wake();
  gate->wake();
  gate->wake();
  CHECK(gate->wakes_written() == 1);
  gate->prepare_sleep();
  gate->cancel_sleep();
  gate->wake();
  CHECK(gate->wakes_written() == 1);
}

TEST_CASE("the eventfd works again and again though nobody reads it") {
  auto gate = wake_gate::make().value();
  for (int i = 0; i < 20; ++i) {
    gate->prepare_sleep();
    gate->wake();
    const auto before = mono_clock::now();
    CHECK(gate->wait(10s).empty());
    CHECK(mono_clock::now() - before < 5s);
    // and the edge is used up: the next wait really waits
    const auto again = mono_clock::now();
    CHECK(gate->wait(100us).empty());
    CHECK(mono_clock::now() - again >= 100us);
  }
}

TEST_CASE("a wait never ends before its timeout") {
  auto gate = wake_gate::make().value();
  for (const auto timeout : {duration{1}, duration{50us}, duration{1500us}, duration{7ms}}) {
    gate->prepare_sleep();
    const auto before = mono_clock::now();
    CHECK(gate->wait(timeout).empty());
    CHECK(mono_clock::now() - before >= timeout);
  }
  CHECK(gate->wait(-1s).empty());
}

TEST_CASE("a thread that waits for ever is woken from outside") {
  auto gate = wake_gate::make().value();
  std::atomic<bool> done{false};
  std::thread sleeper{[&] {
    while (!done) {
      gate->prepare_sleep();
      if (done)
        gate->cancel_sleep();
      else
        static_cast<void>(gate->wait(wake_gate::forever));
    }
  }};
  std::this_thread::sleep_for(5ms);
  done = true;
  gate->wake();
  sleeper.join();
  CHECK(done);
}

TEST_CASE("ready descriptors come back by token until they are removed") {
  auto gate = wake_gate::make().value();
  std::array<int, 2> fds{};
  REQUIRE(pipe(fds.data()) == 0);
  REQUIRE(gate->add_fd(fds[0], 77));
  REQUIRE(write(fds[1], "x", 1) == 1);
  auto ready = gate->wait(10s);
  REQUIRE(ready.size() == 1);
  CHECK(ready[0].token == 77);
  CHECK((ready[0].events & EPOLLIN) != 0);
  REQUIRE(gate->modify_fd(fds[0], 78, EPOLLIN));
  ready = gate->wait(0s); // level-triggered: still there
  REQUIRE(ready.size() == 1);
  CHECK(ready[0].token == 78);
  gate->remove_fd(fds[0]);
  CHECK(gate->wait(0s).empty());
  gate->remove_fd(fds[0]);
  close(fds[0]);
  close(fds[1]);
}

TEST_CASE("more ready descriptors than fit in one answer all get their turn") {
  auto gate = wake_gate::make().value();
  std::array<int, 40> fds{};
  for (std::size_t i = 0; i < fds.size(); ++i) {
    fds[i] = eventfd(1, EFD_NONBLOCK);
    REQUIRE(gate->add_fd(fds[i], i));
  }
  std::array<bool, fds.size()> seen{};
  for (int round = 0; round < 3; ++round) {
    for (const auto& r : gate->wait(0s))
      seen[r.token] = true;
  }
  for (const bool s : seen)
    CHECK(s);
  for (const int fd : fds)
    close(fd);
}

TEST_CASE("a descriptor that cannot be watched is an error with its errno") {
  auto gate = wake_gate::make().value();
  const auto added = gate->add_fd(-1, 1);
  REQUIRE_FALSE(added.has_value());
  CHECK(added.error().sys_errno == EBADF);
}
