// SPDX-License-Identifier: Apache-2.0
//
// What killed fabrics leave. Every fabric that is made sweeps, so these cases run alone.
#include "verbs/soft/sweep.hpp"

#include "verbs/soft/testing/peer.hpp"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <string>

#include <doctest/doctest.h>
#include <sys/wait.h>

using namespace actor_rdma::verbs::soft;
using namespace actor_rdma::verbs::soft::testing;

namespace {

std::string file_of(const std::string& fabric) {
  return fabric_file_prefix() + fabric;
}

/// A fabric with one process, which is killed.
std::string killed_fabric() {
  auto name = unique_fabric();
  peer_process only{name, "only", "immediate", "private"};
  (void)only.where();
  only.kill();
  return name;
}

bool swept(const std::string& fabric) {
  const auto removed = sweep_fabric_files();
  return std::find(removed.begin(), removed.end(), file_of(fabric)) != removed.end();
}

} // namespace

TEST_CASE("a fabric whose processes were all killed is swept, by the next that is made too") {
  const auto first = killed_fabric();
  CHECK(std::filesystem::exists(file_of(first)));
  CHECK(swept(first));
  CHECK_FALSE(std::filesystem::exists(file_of(first)));
  const auto second = killed_fabric();
  REQUIRE(std::filesystem::exists(file_of(second)));
  fabric_options other;
  other.name = unique_fabric();
  const auto net = *fabric::open(other);
  CHECK_FALSE(std::filesystem::exists(file_of(second)));
  CHECK(std::filesystem::exists(file_of(other.name)));
}

TEST_CASE("a fabric with a process that lives or is stopped is not swept") {
  const auto name = unique_fabric();
  peer_process alive{name, "alive", "immediate", "private"};
  {
    peer_process dead{name, "dead", "immediate", "private"};
    (void)dead.where();
    dead.kill();
  }
  (void)alive.where();
  CHECK_FALSE(swept(name));
  alive.signal(SIGSTOP);
  int status = 0;
  REQUIRE(::waitpid(alive.pid(), &status, WUNTRACED) == alive.pid());
  CHECK_FALSE(swept(name));
  CHECK(std::filesystem::exists(file_of(name)));
  alive.signal(SIGCONT);
  CHECK(alive.quit() == 0);
  CHECK_FALSE(std::filesystem::exists(file_of(name)));
}

TEST_CASE("a file that another version made is not swept") {
  const auto path = file_of(unique_fabric());
  std::FILE* const file = std::fopen(path.c_str(), "w");
  REQUIRE(file != nullptr);
  std::fputs("other tables", file);
  std::fclose(file);
  sweep_fabric_files();
  CHECK(std::filesystem::exists(path));
  std::filesystem::remove(path);
}
