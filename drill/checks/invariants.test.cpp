// SPDX-License-Identifier: Apache-2.0
// Each invariant is shown facts that break it, so that no checker is silent when it matters, and facts of a
// good run, so that none cries for nothing.
#include "drill/checks/invariants.hpp"

#include "drill/judge.hpp"

#include <algorithm>

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace actor_rdma::drill;
using namespace std::chrono_literals;

namespace {

scenario two_hosts() {
  scenario s;
  s.id = "x";
  s.hosts.resize(2);
  s.hosts[0].name = "a";
  s.hosts[1].name = "b";
  s.traffic.resize(1);
  s.traffic[0].name = "main";
  s.traffic[0].from = "a";
  s.traffic[0].to = "b";
  return s;
}

transfer_fact good_transfer(std::uint64_t number) {
  transfer_fact t;
  t.traffic = "main";
  t.number = number;
  t.from = "a";
  t.to = "b";
  t.bytes = 64;
  t.submitted = 1ms * number;
  t.deadline = t.submitted + 100ms;
  t.allowance = 50ms;
  t.ended = t.submitted + 1ms;
  t.ends = 1;
  t.status = transfer_status::completed;
  t.final_status = transfer_status::completed;
  return t;
}

run_facts good_run() {
  run_facts f;
  for (std::uint64_t i = 0; i < 200; ++i)
    f.transfers.push_back(good_transfer(i));
  f.faults.push_back({100ms, "something"});
  f.faulted_hosts = {"a"};
  f.last_fault = 100ms;
  f.converge_until = 2100ms;
  f.rails.push_back({"a/soft0>b/soft0", true, 5ms});
  f.counters.push_back({"QPs of a/soft0", 2, 2});
  return f;
}

/// The only check that complains about a good run that was changed so.
template <class Change>
std::string complains(Change change) {
  auto s = two_hosts();
  auto f = good_run();
  change(s, f);
  std::string who;
  for (const auto& x : check_invariants(s, f)) {
    CHECK(x.what == check_class::invariant);
    CHECK_FALSE(x.text.empty());
    CHECK((who.empty() || who == x.check));
    who = x.check;
  }
  return who;
}

event_fact event_of(observe::event_kind kind, const char* subject, const char* detail) {
  event_fact e;
  e.host = "a";
  e.what.kind = kind;
  e.what.subject = subject;
  e.what.detail = detail;
  return e;
}

} // namespace

TEST_CASE("a good run breaks no invariant") {
  CHECK(complains([](auto&, auto&) {}).empty());
  CHECK(invariants().size() == 8);
}

TEST_CASE("a transfer that does not end, ends late, twice or changes its end is found") {
  const auto with = [](auto change) {
    return complains([&](auto&, run_facts& f) { change(f.transfers[7]); });
  };
  CHECK(with([](auto& t) { t.ended.reset(); }) == "one end per WR");
  CHECK(with([](auto& t) { t.ended = t.deadline + t.allowance + 101ms; }) == "one end per WR");
  CHECK(with([](auto& t) { t.ended = t.deadline + t.allowance + 99ms; }).empty());
  CHECK(with([](auto& t) { t.ends = 2; }) == "one end per WR");
  CHECK(with([](auto& t) { t.status = t.final_status = transfer_status::pending; }) == "one end per WR");
  CHECK(with([](auto& t) { t.final_status = transfer_status::timed_out; }) == "one end per WR");
  CHECK(with([](auto& t) {
          t.ended.reset();
          t.host_died = true;
        }).empty());
}

TEST_CASE("a late byte and wrong content are found") {
  CHECK(complains([](auto&, auto& f) {
          f.late_bytes.push_back({5ms, "main", 3, "changed"});
        }) == "no late byte");
  CHECK(complains([](auto&, auto& f) { f.transfers[3].wrong_content = "byte 7"; }) == "no late byte");
}

TEST_CASE("a notice that was told as lost and was seen is found") {
  CHECK(complains([](auto&, auto& f) {
          notice_fact n;
          n.name = "main/1";
          n.status = n.final_status = notice_status::lost;
          n.cause = base::reason::timeout;
          n.told = 1ms;
          n.ends = 1;
          n.seen = 1;
          f.notices.push_back(n);
        }) == "notice after data, once");
}

TEST_CASE("a counter that does not come back is found") {
  CHECK(complains([](auto&, auto& f) { f.counters.push_back({"QPs of a/soft1", 2, 3}); }) == "conservation");
  CHECK(complains([](auto&, auto& f) { f.counters.push_back({"QPs of a/soft1", 2, 1}); }) == "conservation");
}

TEST_CASE("a rail that does not come back, a storm of reconnects and a storm of log lines are found") {
  CHECK(complains([](auto&, auto& f) { f.rails[0].carried_after.reset(); }) == "convergence");
  CHECK(complains([](auto&, auto& f) { f.rails[0].carried_after = 2001ms; }) == "convergence");
  CHECK(complains([](auto&, auto& f) {
          f.rails[0].carried_after.reset();
          f.rails[0].must_carry = false;
        }).empty());
  const auto qps = [](std::size_t n) {
    return complains([n](auto&, auto& f) {
      for (std::size_t i = 0; i < n; ++i) {
        f.made_qps.emplace_back();
        f.made_qps.back().at = 500ms;
        f.made_qps.back().what.subject = "a/soft0";
      }
    });
  };
  CHECK(qps(16).empty());
  CHECK(qps(17) == "convergence");
  const auto with = [](std::size_t n, std::uint32_t each, std::optional<std::uint64_t> bound) {
    return complains([=](auto& s, auto& f) {
      s.hosts[0].config.qps_per_endpoint = each;
      s.bounds.reconnects_at_most = bound;
      f.made_qps.resize(n);
      for (auto& q : f.made_qps) {
        q.at = 500ms;
        q.what.subject = "a/soft0";
      }
    });
  };
  CHECK(with(24, 6, {}).empty()); // a device may make each of its QPs a few times
  CHECK(with(25, 6, {}) == "convergence");
  CHECK(with(4, 6, 3) == "convergence");
  CHECK(complains([](auto&, auto& f) { f.log.assign(401, {500ms, "x"}); }) == "convergence");
  CHECK(complains([](auto&, auto& f) { f.log.assign(401, {50ms, "x"}); }).empty());
}

TEST_CASE("unrelated traffic that becomes slow is found, and related traffic may") {
  const auto slow = [](bool related) {
    return complains([related](auto&, run_facts& f) {
      if (!related)
        f.faulted_hosts = {"c"};
      for (auto& t : f.transfers)
        if (t.submitted >= 100ms)
          t.ended = t.submitted + 1100us;
    });
  };
  CHECK(slow(true).empty());
  CHECK(slow(false) == "isolation");
}

TEST_CASE("a failure without a cause or without an event that explains it is found") {
  const auto failed = [](base::reason why, const char* subject) {
    return complains([&](auto&, run_facts& f) {
      f.transfers[5].status = f.transfers[5].final_status = transfer_status::failed;
      f.transfers[5].cause = why;
      if (subject != nullptr)
        f.events.push_back(event_of(observe::event_kind::peer_dead, subject, "refused"));
    });
  };
  CHECK(failed(base::reason::none, nullptr) == "honesty");
  CHECK(failed(base::reason::peer_dead, nullptr) == "honesty");
  CHECK(failed(base::reason::peer_dead, "a>c:1") == "honesty");
  CHECK(failed(base::reason::peer_dead, "a>b:1").empty());
  using observe::event_kind;
  CHECK(complains([](auto&, auto& f) { f.events.push_back(event_of(event_kind::rejected, "a>b:1", "")); }) ==
        "honesty");
  CHECK(complains([](auto&, auto& f) {
          f.events.push_back(event_of(event_kind::internal_fault, "a>b:1", "boom"));
        }) == "honesty");
  CHECK(complains([](auto&, auto& f) { f.transfers[5].cause = base::reason::path; }) == "honesty");
  CHECK(complains([](auto&, auto& f) { f.transfers[5].wrong_receipt = "half of it"; }) == "honesty");
}

TEST_CASE("what blocks or spins is found") {
  CHECK(complains([](auto&, auto& f) {
          f.progress.push_back({5ms, "create_qp on the lane of a"});
        }) == "progress");
}

TEST_CASE("the exit status says which class of check failed, the worst first") {
  CHECK(status_of({}) == exit_good);
  CHECK(status_of({{check_class::expectation, "", "", "", {}}}) == exit_expectation);
  CHECK(status_of({{check_class::expectation, "", "", "", {}}, {check_class::invariant, "", "", "", {}}}) ==
        exit_invariant);
  CHECK(status_of({{check_class::unfinished, "", "", "", {}}, {check_class::invariant, "", "", "", {}}}) ==
        exit_unfinished);
}

TEST_CASE("a failure names the invariant, the transfer, the actors' last transitions and the command") {
  auto s = two_hosts();
  s.path = "x.json";
  auto f = good_run();
  f.seed = 17;
  f.transfers[7].ended.reset();
  f.events.push_back(event_of(observe::event_kind::transition, "a/soft0>b/soft0", "every QP is suspect"));
  f.events.back().what.to = "PAUSED";
  const auto v = judge(s, f);
  CHECK(v.status == exit_invariant);
  for (const char* part : {"one end per WR", "transfer 7 of main", "every QP is suspect", "PAUSED",
                           "actor-rdma-drill run x.json --seed 17"})
    CHECK(v.report.find(part) != std::string::npos);
}
