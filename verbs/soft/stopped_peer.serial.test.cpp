// SPDX-License-Identifier: Apache-2.0
//
// A requester that is stopped at any point of its work holds nothing that its target needs: destroying a
// queue pair, moving it to ERR and deregistering memory return within a bound, and where they say 0 no byte
// lands any more. With real processes and real time, so these cases run alone. How many trials there are is
// ACTOR_RDMA_STOP_TRIALS (`./run stopped-peer --trials 200`).
#include "base/random.hpp"
#include "tests/support/environment.hpp"
#include "verbs/soft/testing/peer.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <string>
#include <thread>
#include <utility>

#include <sys/wait.h>

using namespace actor_rdma;
using namespace actor_rdma::verbs;
using namespace actor_rdma::verbs::soft;
using namespace actor_rdma::verbs::soft::testing;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t watched_bytes = 64 << 10;
constexpr auto canary = std::byte{0xc5};

std::uint64_t trials_wanted() {
  return tests::whole_number("ACTOR_RDMA_STOP_TRIALS", 24);
}

struct outcome {
  int result = 0;
  base::duration took{};
};

template <class Verb>
outcome timed(Verb verb) {
  const auto start = base::mono_clock::now();
  const base::expected<void> done = verb();
  return {done ? 0 : done.error().sys_errno, base::mono_clock::now() - start};
}

enum class first_verb { destroy_qp, move_to_error };

struct tally {
  int trials = 0;
  int busy = 0; // of 2 verbs a trial
  int moved = 0;
  base::duration slowest{};
};

/// EBUSY is true for as long as the peer is stopped, and must become 0 when it runs on or is gone.
template <class Verb>
void becomes_free(Verb verb) {
  outcome o{EBUSY, {}};
  for (int i = 0; i < 100 && o.result != 0; ++i)
    o = timed(verb);
  CHECK(o.result == 0);
}

/// That a thread was on a CPU; one that has ended has been there for long enough.
std::int64_t cpu_ns(const std::string& thread) {
  auto ns = std::numeric_limits<std::int64_t>::max();
  std::ifstream(thread + "/schedstat") >> ns;
  return ns;
}

bool sleeps(const std::string& thread) {
  std::ifstream in(thread + "/stat");
  const std::string text{std::istreambuf_iterator<char>{in}, {}};
  const auto name_end = text.rfind(')');
  return name_end == std::string::npos || text.substr(name_end, 3) == ") S";
}

/// SIGCONT, and waits until whatever the peer was at has gone on: each of its threads has come to sleep, or
/// was on a CPU for longer than a copy of all the watched bytes takes. On a busy machine that may be late.
/// False if the patience ended before.
bool go_on(const peer_process& peer) {
  constexpr std::chrono::nanoseconds enough = 2ms;
  std::map<std::string, std::int64_t> behind; // threads, with the CPU time that they had
  for (const auto& t : std::filesystem::directory_iterator("/proc/" + std::to_string(peer.pid()) + "/task"))
    behind[t.path()] = cpu_ns(t.path());
  peer.signal(SIGCONT);
  for (const auto until = base::mono_clock::now() + 10s; base::mono_clock::now() < until;) {
    std::erase_if(behind, [&](const auto& t) {
      return sleeps(t.first) || cpu_ns(t.first) - t.second >= enough.count();
    });
    if (behind.empty())
      return true;
    std::this_thread::sleep_for(200us);
  }
  return false;
}

/// Gives the peer receives for its messages, for so long after the first one came.
void keep_receiving(end& e, base::duration span) {
  for (std::uint64_t i = 0; i < 64; ++i)
    REQUIRE(e.receive(i, 0, watched_bytes) == 0);
  bool has_come = false;
  for (auto until = base::mono_clock::now() + 5s; base::mono_clock::now() < until;)
    for (const auto& wc : e.poll()) {
      if (!std::exchange(has_come, true))
        until = base::mono_clock::now() + span;
      (void)e.receive(wc.wr_id, 0, watched_bytes);
    }
}

void one_trial(std::uint64_t trial, first_verb how, const std::string& traffic, base::rng& random,
               tally& sum) {
  const auto name = unique_fabric();
  shared_target own{name};
  // Private memory is moved by system calls, shared memory by plain copies: a peer can be stopped in either.
  peer_process peer{name, "peer", "immediate", trial % 2 == 0 ? "private" : "shared"};
  peer.ask("fill 3");
  const auto there = peer.where();
  peer.connect(own.e->where());
  own.e->connect(there);
  peer.send(traffic);
  const std::chrono::microseconds run{2000 + random.below(5000)};
  if (traffic == "sends")
    keep_receiving(*own.e, run);
  else
    std::this_thread::sleep_for(run);
  peer.signal(SIGSTOP);
  int status = 0;
  REQUIRE(::waitpid(peer.pid(), &status, WUNTRACED) == peer.pid());
  sum.moved += own.e->memory[0] != std::byte{0} ? 1 : 0;

  const auto take_qp = [&] {
    if (how == first_verb::destroy_qp)
      return own.e->qp.destroy();
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_ERR;
    return own.e->qp.modify(attr, IBV_QP_STATE);
  };
  const auto take_mr = [&] { return own.e->mr.destroy(); };
  const auto qp = timed(take_qp);
  const auto mr = timed(take_mr);
  ++sum.trials;
  sum.slowest = std::max({sum.slowest, qp.took, mr.took});
  CHECK((qp.result == 0 || qp.result == EBUSY));
  CHECK((mr.result == 0 || mr.result == EBUSY));
  if (qp.result == 0 && mr.result == 0) {
    std::fill_n(own.e->memory, watched_bytes, canary);
  } else {
    sum.busy += (qp.result != 0 ? 1 : 0) + (mr.result != 0 ? 1 : 0);
    if (trial % 4 < 2)
      peer.signal(SIGCONT);
    else
      peer.kill();
    if (qp.result != 0)
      becomes_free(take_qp);
    if (mr.result != 0)
      becomes_free(take_mr);
    std::fill_n(own.e->memory, watched_bytes, canary);
  }
  if (peer.pid() > 0)
    REQUIRE(go_on(peer)); // what it was at when it was stopped is done then
  CHECK(std::all_of(own.e->memory, own.e->memory + watched_bytes, [](std::byte b) { return b == canary; }));
}

} // namespace

TEST_CASE(
    "a peer stopped at a random point delays destroying by a bounded time, and after a 0 no byte lands") {
  auto how = first_verb::destroy_qp;
  std::string traffic = "writes";
  SUBCASE("destroying the queue pair, then deregistering its memory") {}
  SUBCASE("moving the queue pair to ERR, then deregistering its memory") {
    how = first_verb::move_to_error;
  }
  SUBCASE("in the middle of a message, destroying the queue pair") {
    traffic = "sends";
  }
  SUBCASE("in the middle of a message, moving the queue pair to ERR") {
    traffic = "sends";
    how = first_verb::move_to_error;
  }
  base::rng random{static_cast<std::uint64_t>(how) + 1};
  tally sum;
  for (std::uint64_t trial = 0, n = trials_wanted(); trial < n; ++trial) {
    CAPTURE(trial);
    one_trial(trial, how, traffic, random, sum);
  }
  const auto slowest_ms = std::chrono::duration_cast<std::chrono::milliseconds>(sum.slowest).count();
  MESSAGE(sum.trials << " trials, two verbs each: " << sum.busy << " times EBUSY, slowest verb " << slowest_ms
                     << " ms, in " << sum.moved << " the peer had written before it was stopped");
  CHECK(sum.moved > sum.trials / 2);
#ifdef __SANITIZE_THREAD__ // whose own time counts as well
  CHECK(sum.slowest < 400ms);
#else
  CHECK(sum.slowest < 200ms);
#endif
}
