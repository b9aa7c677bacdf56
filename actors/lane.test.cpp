// SPDX-License-Identifier: Apache-2.0
//
// Tests of one real lane: its deadlines, its lost time, its jobs, what is thrown on it, and its thread.
#include "actors/lane_rig.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <ctime>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <pthread.h>

using namespace std::chrono_literals;

namespace actor_rdma::actors {

using namespace testing;

// -- deadlines ------------------------------------------------------------------------------------

TEST_CASE("deadlines never fire early and fire in their order") {
  struct checking final : deadline_sink {
    lane* home = nullptr;
    std::vector<base::time_point> armed_for;
    std::vector<std::uint64_t> fired;
    int early = 0;
    int wrong_thread = 0;
    std::atomic<std::size_t> count{0};
    void on_deadline(std::uint64_t token) override {
      fired.push_back(token);
      early += home->now() < armed_for[token] || base::mono_clock::now() < armed_for[token] ? 1 : 0;
      wrong_thread += home->is_current() ? 0 : 1;
      ++count;
    }
  } sink;
  one_lane l;
  sink.home = &l.get();
  base::rng random{7};
  l.on_lane([&] {
    for (std::uint64_t i = 0; i < 400; ++i) {
      sink.armed_for.push_back(l->now() + base::duration{random.between(-1'000'000, 60'000'000)});
      CHECK(l->arm(sink.armed_for.back(), sink, i) != deadline_id::none);
    }
  });
  REQUIRE(eventually([&] { return sink.count == 400; }));
  CHECK(sink.early == 0);
  CHECK(sink.wrong_thread == 0);
  CHECK(std::is_sorted(sink.fired.begin(), sink.fired.end(),
                       [&](auto a, auto b) { return sink.armed_for[a] < sink.armed_for[b]; }));
}

TEST_CASE("a cancelled deadline does not fire, and a stale id is harmless") {
  recorder_sink sink;
  one_lane l;
  deadline_id fired_id{};
  l.on_lane([&] {
    const auto cancelled = l->arm(l->now() + 5ms, sink, 1);
    fired_id = l->arm(l->now() + 5ms, sink, 2);
    CHECK(l->cancel(cancelled));
    CHECK_FALSE(l->cancel(cancelled));
    CHECK_FALSE(l->cancel(deadline_id::none));
    l->arm(l->now() + 10ms, sink, 3);
  });
  REQUIRE(eventually([&] { return sink.count == 2; }));
  l.on_lane([&] {
    CHECK_FALSE(l->cancel(fired_id));
    CHECK(sink.log == std::vector<entry>{{'d', 2}, {'d', 3}});
  });
}

TEST_CASE("a sink may cancel and arm while deadlines fire") {
  function_sink first;
  function_sink never;
  function_sink last;
  one_lane l;
  int fired = 0;
  deadline_id second{};
  std::atomic<bool> over{false};
  first.body = [&] {
    ++fired;
    CHECK(l->cancel(second));
    l->arm(l->now(), last, 0);
  };
  never.body = [&] { fired += 100; };
  last.body = [&] { over = true; };
  l.on_lane([&] {
    l->arm(l->now() + 2ms, first, 0);
    second = l->arm(l->now() + 2ms, never, 0);
    std::this_thread::sleep_for(4ms); // both are due in the same turn
  });
  CHECK(eventually([&] { return over.load(); }));
  CHECK(fired == 1);
}

// -- lost time ------------------------------------------------------------------------------------

TEST_CASE(
    "time that the lane loses is credited before any deadline of the next turn fires, and sleep is no loss") {
  struct : lane_observer {
    void on_gap(const lane&, base::duration gap) noexcept override {
      largest = std::max(largest.load(), gap);
    }
    void on_internal_fault(const lane&, std::string_view) noexcept override {}
    std::atomic<base::duration> largest{base::duration{}};
  } observer;
  lane_options options;
  options.observer = &observer;
  base::duration before{};
  base::duration credit{};
  std::atomic<bool> fired{false};
  function_sink due;
  one_lane l{options};
  due.body = [&] {
    credit = l->lost_time();
    fired = true;
  };
  l.on_lane([&] {
    before = l->lost_time();
    l->arm(l->now() + 1ms, due, 0);
    std::this_thread::sleep_for(20ms); // what a stopped or throttled lane looks like
  });
  REQUIRE(eventually([&] { return fired.load(); }));
  CHECK(credit - before >= 20ms);
  CHECK(l->counters().gaps >= 1);
  CHECK(observer.largest.load() >= 20ms);

  const auto lost = l->counters().lost_time;
  fired = false;
  l.on_lane([&] { l->arm(l->now() + 300ms, due, 0); });
  REQUIRE(eventually([&] { return fired.load(); }));
  CHECK(l->counters().lost_time - lost < 150ms); // a wake-up may be late on a loaded machine
}

TEST_CASE("the clock is read once per turn") {
  one_lane l;
  l.on_lane([&] {
    const auto then = l->now();
    std::this_thread::sleep_for(1ms);
    CHECK(l->now() == then);
    CHECK(base::mono_clock::now() - then >= 1ms);
  });
}

// -- faults ---------------------------------------------------------------------------------------

TEST_CASE("what sinks and jobs throw is counted and told, and the lane goes on") {
  struct : lane_observer {
    void on_gap(const lane&, base::duration) noexcept override {}
    void on_internal_fault(const lane& where, std::string_view text) noexcept override {
      on_lane = on_lane && where.is_current();
      texts.emplace_back(text);
    }
    bool on_lane = true;
    std::vector<std::string> texts;
  } observer;
  lane_options options;
  options.observer = &observer;
  fake_queue queue;
  test_pipe p;
  function_sink thrower;
  thrower.body = [] { throw std::runtime_error{"thrown by a sink"}; };
  function_sink reader;
  reader.body = [&] {
    p.empty();
    thrower.body();
  };
  one_lane l{options};
  l->post([] { throw std::runtime_error{"thrown by a job"}; });
  l->post([] { throw 7; });
  l.on_lane([&] {
    l->watch_cq(queue.cq(), queue.channel(), thrower);
    l->watch_fd(p.ends[0], reader);
    l->arm(l->now() + 1ms, thrower, 0);
  });
  queue.complete(1);
  p.write();
  REQUIRE(eventually([&] { return l->counters().faults == 5; }));
  std::vector<std::string> texts;
  l.on_lane([&] {
    l->unwatch_cq(queue.cq());
    l->unwatch_fd(p.ends[0]);
    texts = observer.texts;
    CHECK(observer.on_lane);
  });
  std::sort(texts.begin(), texts.end());
  CHECK(texts == std::vector<std::string>{"a deadline: thrown by a sink",
                                          "a job: an exception of unknown type", "a job: thrown by a job",
                                          "completions: thrown by a sink", "descriptor: thrown by a sink"});
}

// -- jobs and slow calls --------------------------------------------------------------------------

TEST_CASE("jobs run on the lane, in the order of each poster, and never inside another one") {
  one_lane l;
  std::vector<int> order;
  l.on_lane([&] {
    for (int i = 0; i < 100; ++i)
      l->post([&, i] { order.push_back(i); });
    CHECK(order.empty());
  });
  std::vector<int> expected;
  for (int i = 0; i < 100; ++i)
    expected.push_back(i);
  l.on_lane([&] { CHECK(order == expected); });
}

TEST_CASE("a slow call runs elsewhere and its result runs on the lane") {
  one_lane l;
  std::atomic<bool> elsewhere{false};
  std::atomic<bool> home_again{false};
  l.on_lane([&] {
    l->run_slow(
        3, [&] { elsewhere = lane::current() == nullptr; }, [&] { home_again = l->is_current(); });
  });
  CHECK(eventually([&] { return home_again.load(); }));
  CHECK(elsewhere);
}

TEST_CASE("a burst of jobs to a sleeping lane costs one system call at most") {
  one_lane l;
  l.await_sleep();
  const auto before = l->counters();
  std::atomic<int> ran{0};
  for (int i = 0; i < 20'000; ++i)
    l->post([&] { ++ran; });
  REQUIRE(eventually([&] { return ran == 20'000; }));
  const auto after = l->counters();
  CHECK(after.foreign_wakes > before.foreign_wakes);
  CHECK(after.foreign_wakes - before.foreign_wakes <= after.sleeps - before.sleeps + 20);
}

// -- the thread -----------------------------------------------------------------------------------

TEST_CASE("an idle lane uses less than a thousandth of a core") {
  fake_queue queue;
  recorder_sink sink;
  one_lane l;
  clockid_t cpu_clock{};
  l.on_lane([&] {
    REQUIRE(pthread_getcpuclockid(pthread_self(), &cpu_clock) == 0);
    l->watch_cq(queue.cq(), queue.channel(), sink);
    l->arm(l->now() + 1h, sink, 0);
  });
  l.await_sleep();
  const auto used = [&] {
    timespec ts{};
    clock_gettime(cpu_clock, &ts);
    return std::chrono::seconds{ts.tv_sec} + std::chrono::nanoseconds{ts.tv_nsec};
  };
  const auto before = used();
  std::this_thread::sleep_for(1s);
  const base::duration spent = used() - before;
  MESSAGE("CPU time in one idle second: " << spent.count() << " ns");
  CHECK(spent < 1ms);
  l.on_lane([&] { l->unwatch_cq(queue.cq()); });
}

TEST_CASE("a lane's thread is named, and leaves signals to the program") {
  one_lane l;
  char name[16] = {};
  sigset_t mask;
  sigemptyset(&mask);
  l.on_lane([&] {
    pthread_getname_np(pthread_self(), name, sizeof name);
    pthread_sigmask(SIG_BLOCK, nullptr, &mask);
  });
  CHECK(std::string{name} == "lane0");
  CHECK(sigismember(&mask, SIGTERM) == 1);
}

} // namespace actor_rdma::actors
