// SPDX-License-Identifier: Apache-2.0
//
// Tests of the always-on assertion: it must really end the process, and say where.
#include "base/checks.hpp"

#include <array>
#include <csignal>
#include <string>

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

TEST_CASE("an assertion that holds does nothing and evaluates its condition once") {
  int evaluated = 0;
  ACTOR_RDMA_ASSERT(++evaluated == 1, "counted");
  CHECK(evaluated == 1);
}

TEST_CASE("an assertion that fails aborts with file, message and condition on one line") {
  std::array<int, 2> pipe_fds{};
  REQUIRE(pipe(pipe_fds.data()) == 0);
  const auto child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL); // doctest's handler would report the child's death as a failed test
    dup2(pipe_fds[1], STDERR_FILENO);
    ACTOR_RDMA_ASSERT(1 + 1 == 3, "arithmetic is broken");
    _exit(0);
  }
  close(pipe_fds[1]);
  std::string text;
  std::array<char, 256> buffer{};
  for (ssize_t n = 0; (n = read(pipe_fds[0], buffer.data(), buffer.size())) > 0;)
    text.append(buffer.data(), static_cast<std::size_t>(n));
  close(pipe_fds[0]);
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGABRT);
  CHECK(text.find("checks.test.cpp:") != std::string::npos);
  CHECK(text.find("assertion failed: arithmetic is broken (1 + 1 == 3)\n") != std::string::npos);
}
