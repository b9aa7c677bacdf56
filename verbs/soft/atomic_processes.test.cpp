// SPDX-License-Identifier: Apache-2.0
//
// Atomics across a process boundary: through a mapping where there is one, else by the engine of the process
// that owns the memory.
#include "verbs/soft/provider_table.hpp"
#include "verbs/soft/testing/atomic_rig.hpp"
#include "verbs/soft/testing/peer.hpp"

#include <chrono>
#include <csignal>
#include <string>
#include <vector>

#include <sys/wait.h>

using namespace actor_rdma;
using namespace actor_rdma::verbs;
using namespace actor_rdma::verbs::soft;
using namespace actor_rdma::verbs::soft::testing;
using namespace std::chrono_literals;

namespace {

/// This process asks, the other one owns the word.
struct asking {
  explicit asking(const std::string& memory, const std::string& rule = {})
      : own{unique(name)}, peer{name, "peer", "immediate", memory} {
    if (!rule.empty())
      REQUIRE(own.net->add_rule(rule));
    own.e->options.access |= IBV_ACCESS_REMOTE_ATOMIC;
    REQUIRE(peer.ask("dereg") == "ok");
    REQUIRE(peer.ask("reg atomic") == "ok");
    there = peer.where();
    peer.connect(own.e->where());
    own.e->connect(there);
  }
  /// What was there, or nothing when it failed.
  std::uint64_t add(std::uint64_t number, std::uint64_t at = 0) {
    return complete(post_atomic(*own.e, IBV_WR_ATOMIC_FETCH_AND_ADD, there, at, number));
  }
  std::uint64_t swap(std::uint64_t compare, std::uint64_t with, std::uint64_t at = 0) {
    return complete(post_atomic(*own.e, IBV_WR_ATOMIC_CMP_AND_SWP, there, at, compare, with));
  }
  std::uint64_t complete(int posted) {
    REQUIRE(posted == 0);
    const auto wcs = own.e->poll_for(1);
    REQUIRE(wcs.size() == 1);
    REQUIRE(wcs[0].status == IBV_WC_SUCCESS);
    return word_at(*own.e);
  }
  std::uint64_t owners_word(std::uint64_t at = 0) {
    return std::stoull(peer.ask("word " + std::to_string(at)));
  }

  static const std::string& unique(std::string& name) { return name = unique_fabric(); }

  std::string name;
  shared_target own;
  peer_process peer;
  address there;
};

} // namespace

TEST_CASE("atomics cross a process boundary, through a mapping or by the owner's engine") {
  for (const auto* const memory : {"shared", "private"}) {
    CAPTURE(memory);
    asking a{memory};
    for (std::uint64_t i = 0; i < 50; ++i)
      CHECK(a.add(3, 16) == 3 * i);
    CHECK(a.owners_word(16) == 150);
    CHECK(a.swap(1, 9, 16) == 150); // it was not 1
    CHECK(a.swap(150, 9, 16) == 150);
    CHECK(a.swap(9, 8, 16) == 9);
    CHECK(a.owners_word(16) == 8);
    CHECK(a.owners_word(8) == 0);
    CHECK(a.owners_word(24) == 0);
    const auto expected = std::string{memory} == "shared" ? tier::mapped : tier::system_call;
    CHECK(tier_use(a.own.e->qp.get())[static_cast<std::size_t>(expected)] == 53);
    // Many at once, and other work between them.
    for (std::uint64_t i = 0; i < 20; ++i) {
      REQUIRE(post_atomic(*a.own.e, IBV_WR_ATOMIC_FETCH_AND_ADD, a.there, 0, 1, 0, 64 + 8 * i) == 0);
      REQUIRE(a.own.e->write(100 + i, a.there, 0, 4096, 8) == 0);
    }
    const auto wcs = a.own.e->poll_for(40);
    REQUIRE(wcs.size() == 40);
    for (std::uint64_t i = 0; i < 20; ++i) {
      CHECK(wcs[2 * i].status == IBV_WC_SUCCESS);
      CHECK(wcs[2 * i].wr_id == 64 + 8 * i);
      CHECK(word_at(*a.own.e, 64 + 8 * i) == i);
    }
    CHECK(a.peer.quit() == 0);
  }
}

TEST_CASE("additions of another process and of the owner all count") {
  for (const auto* const memory : {"shared", "private"}) {
    CAPTURE(memory);
    asking a{memory};
    a.peer.send("add 1000000");
    std::uint64_t added = 0;
    for (const auto until = base::mono_clock::now() + 20ms; base::mono_clock::now() < until; ++added)
      a.add(1);
    CHECK(a.peer.receive() == "ok");
    CHECK(a.owners_word() == 1'000'000 + added);
  }
}

TEST_CASE("an atomic across processes is executed once, though its answer was lost or late") {
  for (const auto* const memory : {"shared", "private"})
    for (const auto* const rule :
         {"dev=own op=atomic dir=ack every=5 do=drop", "dev=own op=atomic every=3 do=delay:1ms",
          "dev=own op=atomic every=2 do=duplicate:100us"}) {
      CAPTURE(memory);
      CAPTURE(rule);
      asking a{memory, rule};
      for (std::uint64_t i = 0; i < 12; ++i)
        CHECK(a.add(1) == i);
      CHECK(a.owners_word() == 12);
    }
}

TEST_CASE("an atomic towards a process that does not run, or is gone, ends in retry-exceeded in its time") {
  for (const bool is_gone : {false, true}) {
    CAPTURE(is_gone);
    asking a{"private"};
    CHECK(a.add(1) == 0);
    if (is_gone) {
      a.peer.kill();
    } else {
      a.peer.signal(SIGSTOP);
      int status = 0;
      REQUIRE(::waitpid(a.peer.pid(), &status, WUNTRACED) == a.peer.pid());
    }
    const auto start = base::mono_clock::now();
    REQUIRE(post_atomic(*a.own.e, IBV_WR_ATOMIC_FETCH_AND_ADD, a.there, 0, 1) == 0);
    const auto wcs = a.own.e->poll_for(1);
    const auto took = base::mono_clock::now() - start;
    REQUIRE(wcs.size() == 1);
    CHECK(wcs[0].status == IBV_WC_RETRY_EXC_ERR);
    CHECK(took >= 134ms);
    CHECK(took < 1s);
    a.peer.signal(SIGCONT);
  }
}

TEST_CASE("an atomic that was asked for while its owner stood still is executed when it goes on, once") {
  asking a{"private"};
  a.peer.signal(SIGSTOP);
  int status = 0;
  REQUIRE(::waitpid(a.peer.pid(), &status, WUNTRACED) == a.peer.pid());
  REQUIRE(post_atomic(*a.own.e, IBV_WR_ATOMIC_FETCH_AND_ADD, a.there, 0, 7) == 0);
  CHECK(a.own.e->poll_for(1, 20ms).empty());
  a.peer.signal(SIGCONT);
  CHECK(a.own.e->poll_for(1).at(0).status == IBV_WC_SUCCESS);
  CHECK(word_at(*a.own.e) == 0);
  CHECK(a.owners_word() == 7);
}

TEST_CASE("an atomic is refused by the key, wherever it is executed") {
  for (const auto* const memory : {"shared", "private"}) {
    CAPTURE(memory);
    asking a{memory};
    CHECK(a.add(1) == 0);
    REQUIRE(a.peer.ask("dereg") == "ok");
    REQUIRE(post_atomic(*a.own.e, IBV_WR_ATOMIC_FETCH_AND_ADD, a.there, 0, 1) == 0);
    CHECK(a.own.e->poll_for(1).at(0).status == IBV_WC_REM_ACCESS_ERR);
    CHECK(a.owners_word() == 1);
  }
}
