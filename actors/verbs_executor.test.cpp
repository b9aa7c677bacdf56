// SPDX-License-Identifier: Apache-2.0
//
// Tests of the threads that make slow verbs calls, with a lane that only collects what is posted to it.
#include "actors/verbs_executor.hpp"

#include <atomic>
#include <chrono>
#include <csignal>
#include <future>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <pthread.h>

using namespace std::chrono_literals;

namespace actor_rdma::actors {
namespace {

/// Runs posted jobs when told to.
class collecting_env final : public lane_env {
public:
  base::time_point now() const noexcept override { return base::mono_clock::now(); }
  base::duration lost_time() const noexcept override { return {}; }
  deadline_id arm(base::time_point, deadline_sink&, std::uint64_t) override { return deadline_id::none; }
  bool cancel(deadline_id) override { return false; }
  void cancel_all(const deadline_sink&) override {}
  void watch_cq(ibv_cq*, verbs::completion_channel&, cq_sink&) override {}
  void unwatch_cq(ibv_cq*) override {}
  void watch_fd(int, fd_sink&) override {}
  void unwatch_fd(int) override {}
  void run_slow(std::uint32_t, std::function<void()>, std::function<void()>) override {}
  std::uint64_t random() override { return 4; }
  caf::actor_system& system() override { throw std::logic_error{"there is none"}; }
  caf::execution_unit* unit() noexcept override { return nullptr; }

  void post(std::function<void()> job) override {
    std::lock_guard lock{mutex_};
    jobs_.push_back(std::move(job));
  }
  std::size_t posted() const {
    std::lock_guard lock{mutex_};
    return jobs_.size();
  }
  bool wait_for(std::size_t count) const {
    for (int i = 0; i < 5000 && posted() < count; ++i)
      std::this_thread::sleep_for(1ms);
    return posted() >= count;
  }
  void run_all() {
    std::vector<std::function<void()>> jobs;
    {
      std::lock_guard lock{mutex_};
      jobs.swap(jobs_);
    }
    for (auto& job : jobs)
      job();
  }

private:
  mutable std::mutex mutex_;
  std::vector<std::function<void()>> jobs_;
};

/// A call that hangs until it is told to go on, which happens at the latest when the test ends.
class hanging_call {
public:
  std::function<void()> work() {
    return [state = state_] {
      state->begun = true;
      state->go.get_future().wait();
      state->ended = true;
    };
  }
  bool begun() const {
    for (int i = 0; i < 5000 && !state_->begun; ++i)
      std::this_thread::sleep_for(1ms);
    return state_->begun;
  }
  void go_on() {
    if (!gone_on_)
      state_->go.set_value();
    gone_on_ = true;
  }
  bool ended() const {
    for (int i = 0; i < 5000 && !state_->ended; ++i)
      std::this_thread::sleep_for(1ms);
    return state_->ended;
  }
  ~hanging_call() { go_on(); }

private:
  struct shared {
    std::promise<void> go;
    std::atomic<bool> begun{false};
    std::atomic<bool> ended{false};
  };
  std::shared_ptr<shared> state_ = std::make_shared<shared>();
  bool gone_on_ = false;
};

} // namespace

TEST_CASE("the calls of one queue run one at a time, in order, and each result comes back to its lane") {
  collecting_env home;
  verbs_executor executor;
  std::atomic<int> inside{0};
  std::atomic<bool> overlapped{false};
  std::vector<int> made;
  std::vector<int> done;
  for (int i = 0; i < 500; ++i) {
    executor.run(
        7,
        [&, i] {
          overlapped = overlapped || ++inside != 1;
          made.push_back(i);
          --inside;
        },
        [&, i] { done.push_back(i); }, home);
  }
  REQUIRE(home.wait_for(500));
  CHECK(done.empty()); // nothing but the lane runs them
  home.run_all();
  std::vector<int> expected;
  for (int i = 0; i < 500; ++i)
    expected.push_back(i);
  CHECK(made == expected);
  CHECK(done == expected);
  CHECK_FALSE(overlapped);
}

TEST_CASE("a queue that hangs does not hold up the others, and it shows how long it has been busy") {
  collecting_env home;
  verbs_executor executor;
  hanging_call wedged;
  executor.run(
      1, wedged.work(), [] {}, home);
  executor.run(
      1, [] {}, [] {}, home);
  REQUIRE(wedged.begun());
  executor.run(
      2, [] {}, [] {}, home);
  CHECK(home.wait_for(1));
  std::this_thread::sleep_for(5ms);
  CHECK(executor.busy_for(1) >= 5ms);
  CHECK(executor.busy_for(2) == 0ns);
  CHECK(executor.busy_for(99) == 0ns);

  const auto states = executor.states();
  REQUIRE(states.size() == 2);
  CHECK(states[0].queue == 1);
  CHECK(states[0].waiting == 1);
  CHECK(states[0].busy_for >= 5ms);
  CHECK(states[0].calls == 0);
  CHECK(states[1].calls == 1);

  wedged.go_on();
  CHECK(home.wait_for(3));
  CHECK(executor.busy_for(1) == 0ns);
  CHECK(executor.states()[0].longest_call >= 5ms);
  CHECK(executor.states()[0].last_call <= executor.states()[0].longest_call);
}

TEST_CASE("a call that throws is counted and still has its result") {
  collecting_env home;
  verbs_executor executor;
  bool after_exception = false;
  bool after_something = false;
  executor.run(
      3, [] { throw std::runtime_error{"no such verb"}; }, [&] { after_exception = true; }, home);
  executor.run(
      3, [] { throw 5; }, [&] { after_something = true; }, home);
  REQUIRE(home.wait_for(2));
  home.run_all();
  CHECK(after_exception);
  CHECK(after_something);
  CHECK(executor.states()[0].faults == 2);
  CHECK(executor.states()[0].calls == 2);
}

TEST_CASE("a congested queue says so and drops nothing") {
  collecting_env home;
  verbs_executor executor{8};
  hanging_call wedged;
  executor.run(
      1, wedged.work(), [] {}, home);
  REQUIRE(wedged.begun());
  for (int i = 0; i < 20; ++i)
    executor.run(
        1, [] {}, [] {}, home);
  CHECK(executor.states()[0].congested == 12);
  CHECK(executor.states()[0].waiting == 20);
  wedged.go_on();
  CHECK(home.wait_for(21));
}

TEST_CASE("shutdown waits for the calls it has, in their order") {
  collecting_env home;
  verbs_executor executor;
  std::vector<int> made;
  for (int i = 0; i < 5; ++i) {
    executor.run(
        1,
        [&, i] {
          std::this_thread::sleep_for(2ms);
          made.push_back(i);
        },
        [] {}, home);
  }
  CHECK(executor.shutdown(10s).empty());
  CHECK(made == std::vector<int>{0, 1, 2, 3, 4});
  CHECK(home.posted() == 5);
}

TEST_CASE("shutdown leaves a call behind that hangs, with what waits for it, and says so") {
  collecting_env home;
  hanging_call wedged;
  auto owned = std::make_shared<int>(42); // stands for memory that a device may still write
  {
    verbs_executor executor;
    executor.run(
        4, wedged.work(), [owned] { (void)*owned; }, home);
    executor.run(
        4, [owned] { (void)*owned; }, [] {}, home);
    executor.run(
        5, [] {}, [] {}, home);
    REQUIRE(wedged.begun());
    REQUIRE(home.wait_for(1));

    const auto before = base::mono_clock::now();
    const auto stuck = executor.shutdown(20ms);
    const auto took = base::mono_clock::now() - before;
    CHECK(took >= 20ms);
    CHECK(took < 5s);
    REQUIRE(stuck.size() == 1);
    CHECK(stuck[0].queue == 4);
    CHECK(stuck[0].busy_for >= 20ms);
    CHECK(stuck[0].never_begun == 1);
    CHECK(executor.shutdown(1s).empty()); // has nothing left
  }
  wedged.go_on();
  CHECK(wedged.ended());
  std::this_thread::sleep_for(20ms);
  CHECK(home.posted() == 1);     // only queue 5's: nobody may be posted to after shutdown
  CHECK(owned.use_count() == 3); // and nothing of it was destroyed
}

TEST_CASE("a call that comes after shutdown is kept, neither made nor destroyed") {
  collecting_env home;
  auto owned = std::make_shared<int>(42);
  std::atomic<bool> made{false};
  {
    verbs_executor executor;
    executor.shutdown(0ns);
    executor.run(
        1, [owned, &made] { made = true; }, [] {}, home);
  }
  std::this_thread::sleep_for(5ms);
  CHECK_FALSE(made);
  CHECK(home.posted() == 0);
  CHECK(owned.use_count() == 2);
}

TEST_CASE("an executor's thread is named and leaves signals to the program") {
  collecting_env home;
  verbs_executor executor;
  char name[16] = {};
  sigset_t mask;
  sigemptyset(&mask);
  executor.run(
      12,
      [&] {
        pthread_getname_np(pthread_self(), name, sizeof name);
        pthread_sigmask(SIG_BLOCK, nullptr, &mask);
      },
      [] {}, home);
  REQUIRE(home.wait_for(1));
  CHECK(std::string{name} == "verbs12");
  CHECK(sigismember(&mask, SIGTERM) == 1);
  CHECK(sigismember(&mask, SIGUSR1) == 1);
  sigset_t here;
  pthread_sigmask(SIG_BLOCK, nullptr, &here);
  CHECK(sigismember(&here, SIGTERM) == 0);
}

} // namespace actor_rdma::actors
