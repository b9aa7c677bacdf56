// SPDX-License-Identifier: Apache-2.0
//
// What the software NIC has no counterpart for, and a count of the work that hangs for ever on kernel 6.1.
// For groups of the guest only; the interface that is deleted comes last.
#include "tests/kernel/behaviour/duo.hpp"
#include "tests/kernel/behaviour/rows.hpp"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <thread>

#include <doctest/doctest.h>
#include <net/if.h>

using namespace actor_rdma;
using namespace actor_rdma::tests::kernel;
using namespace std::chrono_literals;

namespace {

/// One line for each case, as groups of the guest are counted by.
struct lines : doctest::IReporter {
  explicit lines(const doctest::ContextOptions&) {}
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats&) override {}
  void test_case_start(const doctest::TestCaseData& data) override { name_ = data.m_name; }
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats& stats) override {
    std::printf("%s - %s, %.0f s\n", stats.failure_flags == 0 ? "ok" : "not ok", name_, stats.seconds);
    std::fflush(stdout);
  }
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}

private:
  const char* name_ = "";
};

void shell(const std::string& command) {
  REQUIRE_MESSAGE(std::system(command.c_str()) == 0, command);
}

} // namespace

DOCTEST_REGISTER_LISTENER("lines", 2, lines);

TEST_CASE("count: work that hangs for ever when the own port is taken down") {
  const char* const asked = std::getenv("ACTOR_RDMA_TRIALS");
  const int trials = asked != nullptr ? std::atoi(asked) : 30;
  REQUIRE(trials > 0);
  duo d;
  std::map<std::string, int> counts;
  for (int i = 0; i < trials; ++i) {
    fault_play what{"own port taken down", [](stage& s) { return s.admin(side::a, false); },
                    [](stage& s) { return s.admin(side::a, true); }};
    what.lasts = 800ms; // more than all retries
    what.waits_after = 700ms;
    ++counts[play(d, what)];
    CHECK(d.run(false, 2s, [&] { return d.seen.saw(side::a, IBV_EVENT_PORT_ACTIVE); }));
    mend_and_go_on(d);
  }
  for (const auto& [outcome, count] : counts)
    std::printf("count: own port taken down, %d trials: %s %d\n", trials, outcome.c_str(), count);
}

TEST_CASE("kernel: the interface is deleted while the device is open") {
  duo d;
  std::atomic<bool> is_deleted{false};
  std::thread deleter;
  play(d, {"interface deleted while the device is open",
           [&](stage& s) {
             deleter = std::thread{[&] {
               if (std::system("/sbin/ip link delete n0") == 0)
                 is_deleted = true;
             }};
             // It is out of the list long before the command comes back.
             const auto limit = s.now() + 5s;
             while (::if_nametoindex("n0") != 0 && s.now() < limit)
               s.pass(1ms);
             return stage::done{};
           },
           [](stage&) { return stage::done{}; }});
  CHECK(!is_deleted); // the kernel waits until nobody has it open
  const auto port = d.a().ctx.query_port(1);
  CHECK((port ? "ok" : errno_name(port.error().sys_errno)) == "ENODEV");
  CHECK(d.a().qp.destroy());
  CHECK(d.a().mr.destroy());
  CHECK(d.a().cq.destroy());
  CHECK(d.a().channel.destroy());
  CHECK(d.a().pd.destroy());
  CHECK(d.a().ctx.destroy());
  d.close();
  CHECK(d.run_closed(15s, [&] { return is_deleted.load(); }));
  deleter.join();
  shell("/sbin/ip link add n0 type veth peer name sw0 && /sbin/ip link set sw0 master br0 up");
}
