// SPDX-License-Identifier: Apache-2.0
// The check is shown what must never be recorded of a notice, row by row, and what may be.
#include "drill/checks/notice_check.hpp"

#include "drill/checks/expectations.hpp"

#include <string>

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace actor_rdma::drill;
using namespace std::chrono_literals;
using observe::event_kind;

namespace {

void add_event(run_facts& f, const char* host, event_kind kind, const std::string& detail,
               const char* to = "") {
  event_fact e;
  e.host = host;
  e.what.kind = kind;
  e.what.detail = detail;
  e.what.to = to;
  f.events.push_back(std::move(e));
}

/// A notice behind two completed transfers that ended so, was sent and seen so often, with the events of it.
run_facts recorded(notice_status how, std::uint32_t sent, std::uint32_t seen) {
  run_facts f;
  for (std::uint64_t i = 6; i < 8; ++i) {
    transfer_fact t;
    t.traffic = "main";
    t.number = i;
    t.ended = 3ms;
    t.status = t.final_status = transfer_status::completed;
    f.transfers.push_back(t);
  }
  notice_fact n;
  n.name = "main/6";
  n.traffic = "main";
  n.from = "a";
  n.to = "b";
  n.first_transfer = 6;
  n.transfers = 2;
  n.limit = 100ms;
  n.status = n.final_status = how;
  n.cause = how == notice_status::delivered ? base::reason::none : base::reason::timeout;
  n.told = 3ms;
  n.ends = 1;
  n.seen = seen;
  if (seen > 0)
    n.first_seen = 2ms;
  f.notices.push_back(n);
  for (std::uint32_t i = 0; i < sent; ++i)
    add_event(f, "a", event_kind::notice_sent, n.name);
  for (std::uint32_t i = 0; i < seen; ++i)
    add_event(f, "b", event_kind::notice_received, n.name);
  if (how == notice_status::delivered)
    add_event(f, "a", event_kind::notice_delivered, n.name);
  else
    add_event(f, "a", event_kind::notice_lost, n.name + ": timeout", to_string(how));
  return f;
}

std::size_t findings(const run_facts& f) {
  std::vector<finding> all;
  check_notices({}, f, all);
  for (const auto& x : all) {
    CHECK(x.what == check_class::invariant);
    CHECK(x.check == "notice after data, once");
    CHECK_FALSE(x.text.empty());
  }
  return all.size();
}

/// Whether a delivered notice that was changed so is complained about.
template <class Change>
bool complains(Change change) {
  auto f = recorded(notice_status::delivered, 1, 1);
  change(f, f.notices.front());
  return findings(f) > 0;
}

} // namespace

TEST_CASE("what a sender was told and how often a notice was sent and seen: what may be, and what may not") {
  struct row {
    notice_status told;
    std::uint32_t sent;
    std::uint32_t seen;
    bool good;
  };
  using enum notice_status;
  for (const auto& r :
       {row{delivered, 1, 1, true}, row{delivered, 3, 1, true}, row{delivered, 1, 0, false},
        row{delivered, 2, 2, false}, row{withheld, 0, 0, true}, row{withheld, 0, 1, false},
        row{withheld, 1, 0, false}, row{lost, 0, 0, true}, row{lost, 1, 0, false}, row{lost, 0, 1, false},
        row{unknown, 1, 0, true}, row{unknown, 1, 1, true}, row{unknown, 2, 2, false}}) {
    CAPTURE(to_string(r.told));
    CAPTURE(r.sent);
    CAPTURE(r.seen);
    CHECK((findings(recorded(r.told, r.sent, r.seen)) == 0) == r.good);
  }
}

TEST_CASE("a notice before its data, with other words, or behind a transfer that did not complete is found") {
  CHECK_FALSE(complains([](auto&, auto&) {}));
  CHECK(complains([](auto&, auto& n) { n.wrong = "the data of transfer 6 was not there"; }));
  CHECK(complains([](auto& f, auto&) { f.transfers[1].status = transfer_status::timed_out; }));
  CHECK_FALSE(complains([](auto& f, auto&) { // its process died: nobody knows how it would have ended
    f.transfers[1].ended.reset();
    f.transfers[1].status = transfer_status::pending;
  }));
}

TEST_CASE("a notice whose end is not told, told late, twice, otherwise later or without a cause is found") {
  CHECK(complains([](auto&, auto& n) { n.told.reset(); }));
  CHECK_FALSE(complains([](auto&, auto& n) {
    n.told.reset();
    n.status = notice_status::pending;
    n.sender_died = true;
  }));
  CHECK(complains([](auto&, auto& n) { n.told = 201ms; }));
  CHECK_FALSE(complains([](auto&, auto& n) { n.told = 199ms; }));
  CHECK(complains([](auto&, auto& n) { n.ends = 2; }));
  CHECK(complains([](auto&, auto& n) { n.final_status = notice_status::unknown; }));
  CHECK(complains([](auto&, auto& n) { n.status = n.final_status = notice_status::pending; }));
  auto f = recorded(notice_status::lost, 0, 0);
  f.notices[0].cause = base::reason::none;
  CHECK(findings(f) == 1);
}

TEST_CASE("events that say another thing than the programs saw are found, and so is a notice of nobody") {
  CHECK(complains([](auto& f, auto&) { f.events.clear(); }));
  CHECK(complains([](auto& f, auto& n) { add_event(f, "b", event_kind::notice_received, n.name); }));
  CHECK(complains([](auto& f, auto& n) { add_event(f, "a", event_kind::notice_delivered, n.name); }));
  CHECK(complains(
      [](auto& f, auto& n) { add_event(f, "a", event_kind::notice_lost, n.name + ": timeout", "unknown"); }));
  CHECK(complains([](auto& f, auto&) { add_event(f, "b", event_kind::notice_received, "main/99"); }));
  auto f = recorded(notice_status::unknown, 1, 0);
  f.events.back().what.to = "lost";
  CHECK(findings(f) == 1);
}

TEST_CASE("the expectation about notices counts those of a traffic that ended so in a time") {
  auto f = recorded(notice_status::unknown, 1, 0);
  f.notices.push_back(f.notices.front());
  f.notices.back().status = notice_status::delivered;
  f.notices.back().told = 9ms;
  const auto figure = [&](const std::string& traffic, const std::string& status, base::duration after) {
    expect_spec e;
    e.kind = "notices";
    e.traffic = traffic;
    e.status = status;
    e.after = after;
    return find_expect_kind("notices")->figure(e, f).value_or(-1);
  };
  CHECK(figure("", "", 0ms) == 2);
  CHECK(figure("main", "unknown", 0ms) == 1);
  CHECK(figure("main", "delivered", 0ms) == 1);
  CHECK(figure("main", "", 5ms) == 1);
  CHECK(figure("other", "", 0ms) == 0);
}
