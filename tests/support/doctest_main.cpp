// SPDX-License-Identifier: Apache-2.0
//
// The main of every test executable. It adds two things to doctest's own: a watchdog that aborts with the
// name of the test case when a case takes longer than ACTOR_RDMA_TEST_WATCHDOG_S seconds (120 by default; 0
// is off), because a hang that is killed from outside does not say where it was; and an exit status of
// failure when no case ran at all, because doctest calls that a success.
#define DOCTEST_CONFIG_IMPLEMENT
#include "tests/support/environment.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>

#include <doctest/doctest.h>

namespace {

std::atomic<const char*> running_case{"(before the first test case)"};
std::atomic<unsigned> cases_started{0};
std::atomic<bool> was_query{false};

struct run_observer : doctest::IReporter {
  explicit run_observer(const doctest::ContextOptions&) {}
  void report_query(const doctest::QueryData&) override { was_query = true; }
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats&) override {}
  void test_case_start(const doctest::TestCaseData& data) override {
    running_case = data.m_name;
    ++cases_started;
  }
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
};

class watchdog {
public:
  explicit watchdog(std::chrono::seconds limit) {
    if (limit.count() > 0)
      thread_ = std::thread([this, limit] { run(limit); });
  }
  ~watchdog() {
    {
      std::lock_guard lock{mutex_};
      stopping_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable())
      thread_.join();
  }
  watchdog(const watchdog&) = delete;
  watchdog& operator=(const watchdog&) = delete;

private:
  void run(std::chrono::seconds limit) {
    std::unique_lock lock{mutex_};
    auto seen = cases_started.load();
    auto since = std::chrono::steady_clock::now();
    while (!stopping_) {
      changed_.wait_for(lock, std::chrono::milliseconds{200});
      const auto now = std::chrono::steady_clock::now();
      if (const auto started = cases_started.load(); started != seen) {
        seen = started;
        since = now;
      } else if (!stopping_ && now - since > limit) {
        std::fprintf(stderr,
                     "watchdog: the test case \"%s\" has been running for more than %lld s, aborting\n",
                     running_case.load(), static_cast<long long>(limit.count()));
        std::fflush(stderr);
        std::abort();
      }
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::thread thread_;
};

std::chrono::seconds watchdog_limit() {
  return std::chrono::seconds{actor_rdma::tests::whole_number("ACTOR_RDMA_TEST_WATCHDOG_S", 120)};
}

} // namespace

DOCTEST_REGISTER_LISTENER("run_observer", 1, run_observer);

int main(int argc, char** argv) {
  doctest::Context context{argc, argv};
  int status = 0;
  {
    watchdog guard{watchdog_limit()};
    status = context.run();
  }
  const bool wants_cases = !was_query && !context.shouldExit();
  if (wants_cases && cases_started == 0) {
    std::fprintf(stderr, "no test case matched: a run of zero cases is a failure\n");
    return EXIT_FAILURE;
  }
  return status;
}
