// SPDX-License-Identifier: Apache-2.0
//
// Tests of the inbox: order, ownership, and many producers at once.
#include "base/mpsc_inbox.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

using namespace actor_rdma::base;

namespace {

struct job {
  std::uint32_t producer = 0;
  std::uint32_t number = 0;
  job* inbox_next = nullptr;
};

} // namespace

TEST_CASE("an inbox gives back what was pushed, oldest first") {
  mpsc_inbox<job> inbox;
  std::vector<job> jobs(3);
  CHECK(inbox.empty());
  CHECK(inbox.take_all().empty());
  CHECK(inbox.push(&jobs[0]));
  CHECK_FALSE(inbox.push(&jobs[1]));
  CHECK_FALSE(inbox.push(&jobs[2]));
  CHECK_FALSE(inbox.empty());
  auto list = inbox.take_all();
  CHECK(inbox.empty());
  for (auto& j : jobs)
    CHECK(list.pop() == &j);
  CHECK(list.empty());
}

TEST_CASE("a taken job may be pushed again at once") {
  mpsc_inbox<job> inbox;
  std::vector<job> jobs(3);
  for (auto& j : jobs)
    inbox.push(&j);
  auto list = inbox.take_all();
  for (auto& j : jobs) {
    CHECK(list.pop() == &j);
    inbox.push(&j);
  }
  CHECK(list.pop() == nullptr);
  auto again = inbox.take_all();
  for (auto& j : jobs)
    CHECK(again.pop() == &j);
  CHECK(again.empty());
}

TEST_CASE("producers lose nothing and keep their own order") {
  constexpr std::uint32_t producers = 3;
  constexpr std::uint32_t per_producer = 100'000;
  mpsc_inbox<job> inbox;
  std::vector<std::vector<job>> jobs(producers, std::vector<job>(per_producer));
  std::vector<std::thread> threads;
  for (std::uint32_t p = 0; p < producers; ++p) {
    threads.emplace_back([&inbox, &mine = jobs[p], p] {
      for (std::uint32_t i = 0; i < per_producer; ++i) {
        mine[i].producer = p;
        mine[i].number = i;
        inbox.push(&mine[i]);
      }
    });
  }
  std::vector<std::uint32_t> next(producers, 0);
  std::uint64_t taken = 0;
  std::uint64_t wrong = 0;
  while (taken < std::uint64_t{producers} * per_producer) {
    auto list = inbox.take_all();
    if (list.empty())
      std::this_thread::yield();
    while (const job* j = list.pop()) {
      wrong += next[j->producer]++ == j->number ? 0 : 1;
      ++taken;
    }
  }
  for (auto& t : threads)
    t.join();
  CHECK(wrong == 0);
  CHECK(inbox.empty());
}

TEST_CASE("the node inbox carries foreign pointers in order and leaks none of its nodes") {
  mpsc_node_inbox<int> inbox;
  std::vector<int> values{1, 2, 3};
  CHECK(inbox.push(&values[0]));
  CHECK_FALSE(inbox.push(&values[1]));
  std::vector<int*> got;
  CHECK(inbox.take_all([&](int* p) { got.push_back(p); }) == 2);
  CHECK(got == std::vector<int*>{&values[0], &values[1]});
  CHECK(inbox.empty());
  inbox.push(&values[2]); // left inside: the destructor frees the node
}
