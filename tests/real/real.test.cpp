// SPDX-License-Identifier: Apache-2.0
// How runs in real time end: well, with an expectation that failed, with a process that was lost, and when
// the conductor itself is stopped; and that nothing is left of them, neither processes nor the fabric.
#include "tests/process/child.hpp"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace actor_rdma;
using namespace actor_rdma::process;
using namespace std::chrono_literals;

namespace {

constexpr base::duration patience = 60s;

std::vector<std::string> drill(const std::string& scenario, std::vector<std::string> more = {}) {
  more.insert(more.begin(), {ACTOR_RDMA_DRILL, "run", "--real",
                             std::string{ACTOR_RDMA_SOURCE_DIR} + "/tests/real/" + scenario + ".json"});
  return more;
}

/// Processes whose parent is, or was when this was first asked, this one.
std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> all;
  std::ifstream in("/proc/" + std::to_string(parent) + "/task/" + std::to_string(parent) + "/children");
  for (pid_t pid = 0; in >> pid;)
    all.push_back(pid);
  return all;
}

bool is_running(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::string text{std::istreambuf_iterator<char>{in}, {}};
  const auto end = text.rfind(')');
  return end != std::string::npos && end + 2 < text.size() && text[end + 2] != 'Z' && text[end + 2] != 'X';
}

bool soon(const std::function<bool()>& is_true) {
  const auto until = base::mono_clock::now() + 10s;
  while (!is_true())
    if (base::mono_clock::now() > until)
      return false;
    else
      std::this_thread::sleep_for(2ms);
  return true;
}

std::size_t fabrics_of(pid_t pid) {
  std::size_t n = 0;
  for (const auto& e : std::filesystem::directory_iterator("/dev/shm"))
    n += e.path().filename().string().find("drill-" + std::to_string(pid) + "-") != std::string::npos ? 1 : 0;
  return n;
}

/// It has become the program in another role: between fork and exec it is still a copy of its parent.
bool has_become_host(pid_t pid, pid_t parent) {
  const auto words_of = [](pid_t who) {
    std::ifstream in("/proc/" + std::to_string(who) + "/cmdline");
    return std::string{std::istreambuf_iterator<char>{in}, {}};
  };
  const auto words = words_of(pid);
  return !words.empty() && words != words_of(parent);
}

/// The two hosts of a run that is under way.
std::vector<pid_t> hosts_of(const child& run) {
  std::vector<pid_t> hosts;
  CHECK(soon([&] {
    hosts = children_of(run.pid());
    return hosts.size() == 2 && fabrics_of(run.pid()) == 1 &&
           std::all_of(hosts.begin(), hosts.end(), [&](pid_t h) { return has_become_host(h, run.pid()); });
  }));
  return hosts;
}

bool nothing_is_left(pid_t run, const std::vector<pid_t>& hosts) {
  return soon([&] { return std::none_of(hosts.begin(), hosts.end(), is_running); }) && fabrics_of(run) == 0;
}

} // namespace

TEST_CASE("an expectation that fails in real time is told with exit status 1") {
  child run(drill("failing", {"--json", "--progress-every", "0.02"}));
  REQUIRE(run.wait(patience));
  CHECK(*run.wait(0s) == 1);
  const auto j = nlohmann::json::parse(run.output(), nullptr, false);
  REQUIRE(!j.is_discarded());
  REQUIRE(j["findings"].size() == 1);
  CHECK(j["findings"][0]["class"] == "expectation");
  CHECK(j["findings"][0]["text"] == "it is 10");
  CHECK(j["not_checked"] == nlohmann::json{"isolation", "progress"});
  CHECK(j["transfers"]["completed"] == 10);
  CHECK(run.errors().find(" s, 0 of 1 runs done; failing: seed 1 is at ") != std::string::npos);
  CHECK(fabrics_of(run.pid()) == 0);
}

TEST_CASE(
    "in real time a fault waits for a process that is starting, and befalls nothing when there is none") {
  child run(drill("restart", {"--json"}));
  REQUIRE(run.wait(patience));
  INFO(run.output());
  CHECK(*run.wait(0s) == 0);
  const auto j = nlohmann::json::parse(run.output(), nullptr, false);
  REQUIRE(!j.is_discarded());
  const nlohmann::json expected = {{{"fault", 1}, {"times", 1}}, {{"fault", 2}, {"times", 1}}};
  CHECK(j["void_faults"] == expected);
}

TEST_CASE("a process forks and is told to stop, and everything ends as it should") {
  child run(drill("processes"));
  REQUIRE(run.wait(patience));
  INFO(run.output());
  CHECK(*run.wait(0s) == 0);
}

TEST_CASE("a late byte is seen in real time too, and told with exit status 3") {
  child run(drill("no-fence"));
  REQUIRE(run.wait(patience));
  CHECK(*run.wait(0s) == 3);
  CHECK(run.output().find("invariant \"no late byte\"") != std::string::npos);
  CHECK(run.output().find("peer's side: bytes") != std::string::npos);
}

TEST_CASE("a scenario that would last too long is refused by name before anything starts") {
  child run(drill("too-long"));
  REQUIRE(run.wait(patience));
  CHECK(*run.wait(0s) == 2);
  CHECK(run.errors().find("faults[0] (link_down): lasts until 10800 s") != std::string::npos);
}

TEST_CASE("a host's process that is lost ends the run with exit status 4 and the signal's name") {
  child run(drill("long"));
  const auto hosts = hosts_of(run);
  REQUIRE(hosts.size() == 2);
  ::kill(hosts.back(), SIGSEGV);
  REQUIRE(run.wait(patience));
  CHECK(*run.wait(0s) == 4);
  INFO(run.output());
  CHECK(run.output().find("the process was ended by signal 11 (Segmentation fault)") != std::string::npos);
  CHECK(run.output().find("not checked with --real: isolation, progress") != std::string::npos);
  CHECK(nothing_is_left(run.pid(), hosts));
}

TEST_CASE("a run that is asked to stop takes down what it started") {
  for (const int number : {SIGINT, SIGTERM}) {
    child run(drill("long"));
    const auto hosts = hosts_of(run);
    REQUIRE(hosts.size() == 2);
    ::kill(hosts.front(), SIGSTOP); // also one that cannot do anything itself
    run.signal(number);
    REQUIRE(run.wait(patience));
    CHECK(*run.wait(0s) == 4);
    CHECK(run.output().find("it was asked to stop by") != std::string::npos);
    CHECK(nothing_is_left(run.pid(), hosts));
  }
}

TEST_CASE("no host outlives a conductor that is killed") {
  child run(drill("long"));
  const auto hosts = hosts_of(run);
  REQUIRE(hosts.size() == 2);
  ::kill(hosts.front(), SIGSTOP);
  run.signal(SIGKILL);
  REQUIRE(run.wait(patience));
  CHECK(soon([&] { return std::none_of(hosts.begin(), hosts.end(), is_running); }));
  for (const auto& e : std::filesystem::directory_iterator("/dev/shm")) // nobody was left to do it
    if (e.path().filename().string().find("drill-" + std::to_string(run.pid()) + "-") != std::string::npos)
      std::filesystem::remove(e.path());
}
