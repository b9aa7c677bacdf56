// SPDX-License-Identifier: Apache-2.0
// Exactly once, in order, and told truly: a sender's outbox and a receiver's window and inbox over a link
// that breaks, between programs that give up and that read slowly.
#include "actors/notice_outbox.hpp"

#include "actors/notice_inbox.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <rapidcheck.h>

using namespace actor_rdma;
using namespace actor_rdma::actors;

namespace {

/// Both ends and the link between them. What crosses the link keeps its order; a cut loses what is under way.
class model : public notice_outbox_owner {
public:
  explicit model(std::size_t capacity) : inbox(capacity) {
    target->features = bootstrap::feature_notices;
    outbox.begin(++session);
    source = inbox.open([this] { room_wanted = true; });
    outbox.connected();
  }

  std::shared_ptr<batch_state> put() {
    auto b = std::make_shared<batch_state>(target, 0);
    b->attach(std::make_shared<const notice>(notice{std::to_string(next), {}}));
    b->serial = next++;
    all.push_back(b);
    outbox.put(b);
    return b;
  }
  void cut() {
    there.clear();
    back.clear();
    outbox.disconnected();
    outbox.connected();
    answer(false); // as after the hello of a new link
  }
  /// One message arrives at the receiver.
  void arrive() {
    if (there.empty())
      return;
    const auto m = there.front();
    there.pop_front();
    const auto how = window.take(m.session, m.sequence, [&] {
      return inbox.push(source, {"a", 1, m.sequence, {m.name, m.payload}});
    });
    REQUIRE(how != receive_window::arrival::nonsense);
    if (how == receive_window::arrival::forgotten)
      back.push_back({m.session, 0, 0, false, true});
    else if (how != receive_window::arrival::no_room)
      answer(false);
  }
  void answer(bool again) {
    if (window.session() != 0)
      back.push_back({window.session(), window.upto(), window.upto() + inbox.room_of(*source), again, false});
  }
  void hear() {
    if (back.empty())
      return;
    const auto m = back.front();
    back.pop_front();
    REQUIRE(outbox.answered(m, ++session) == nullptr);
  }
  void read() {
    if (auto got = inbox.take())
      taken.push_back(std::stoull(got->what.name));
    if (std::exchange(room_wanted, false))
      answer(window.discarding());
  }
  /// The receiver lets go of the sender, as after a link that was lost for long.
  void forget() {
    cut();
    back.clear();
    inbox.close(*source);
    source = inbox.open([this] { room_wanted = true; });
    window = {};
  }
  void settle() {
    for (int i = 0; i < 100'000 && !(there.empty() && back.empty() && inbox.size() == 0); ++i) {
      arrive();
      hear();
      read();
    }
  }
  std::size_t count(notice_status how) const {
    return static_cast<std::size_t>(
        std::count_if(all.begin(), all.end(), [&](const auto& b) { return b->notice().status == how; }));
  }

  void send_notice(bootstrap::notice&& what, bool) override { there.push_back(std::move(what)); }
  void notice_ended(const std::shared_ptr<batch_state>& batch, notice_status how, base::reason cause,
                    std::uint64_t) override {
    CHECK(batch->notice().status == notice_status::pending); // told once
    batch->publish_notice(how, cause);
    batch->flush();
  }

  std::shared_ptr<remote_memory> target = std::make_shared<remote_memory>();
  notice_outbox outbox{*this};
  receive_window window;
  notice_inbox inbox;
  std::shared_ptr<notice_inbox::source> source;
  std::deque<bootstrap::notice> there;
  std::deque<bootstrap::noticed> back;
  std::vector<std::uint64_t> taken;
  std::vector<std::shared_ptr<batch_state>> all;
  std::uint64_t next = 1;
  std::uint64_t session = 0;
  bool room_wanted = false;
};

} // namespace

TEST_CASE("over links that break, with a slow reader and senders that give up, each notice arrives once, in "
          "order, and is told truly") {
  CHECK(rc::check("exactly once", [] {
    model m(*rc::gen::element<std::size_t>(1, 3, 40, 1000));
    const auto steps = *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 100));
    for (const auto step : steps) {
      if (step < 30)
        for (int i = 0; i < step; ++i)
          m.put();
      else if (step < 55)
        m.arrive();
      else if (step < 70)
        m.hear();
      else if (step < 85)
        m.read();
      else if (step < 93 && !m.all.empty())
        m.outbox.give_up(*m.all[static_cast<std::size_t>(step * 7) % m.all.size()], base::reason::timeout);
      else
        m.cut();
      RC_ASSERT(m.inbox.size() <= bootstrap::notice_window);
    }
    m.settle();
    RC_ASSERT(m.count(notice_status::pending) == 0u);
    std::vector<std::uint64_t> expected;
    for (const auto& b : m.all)
      if (b->notice().status != notice_status::lost)
        expected.push_back(b->serial); // those told as unknown are sent until they arrive, too
    RC_ASSERT(m.taken == expected);
  }));
}

TEST_CASE(
    "a receiver that has forgotten the sender makes no double, and what may be lost is told as unknown") {
  for (int arrived = 0; arrived <= 10; ++arrived) {
    CAPTURE(arrived);
    model m(1000);
    for (int i = 0; i < 3; ++i)
      m.put();
    m.settle(); // number one must be known to be taken for an older session to be recognized
    for (int i = 0; i < 10; ++i)
      m.put();
    for (int i = 0; i < arrived; ++i)
      m.arrive();
    m.forget();
    m.settle();
    CHECK(m.count(notice_status::delivered) == 3);
    CHECK(m.count(notice_status::unknown) == 10);
    const auto later = m.put();
    m.settle();
    CHECK(later->notice().status == notice_status::delivered);
    CHECK(std::set<std::uint64_t>(m.taken.begin(), m.taken.end()).size() == m.taken.size());
  }
}

TEST_CASE("what was not sent is lost, what was sent and not answered is unknown, and neither is told twice") {
  model m(1000);
  for (int i = 0; i < 100; ++i)
    m.put();
  CHECK(m.there.size() == bootstrap::notice_window);
  m.outbox.give_up(*m.all[0], base::reason::timeout);
  m.outbox.give_up(*m.all[99], base::reason::cancelled);
  CHECK(m.all[0]->notice().status == notice_status::unknown);
  CHECK(m.all[99]->notice().status == notice_status::lost);
  m.arrive();
  m.arrive();
  m.hear();
  m.hear();
  CHECK(m.all[0]->notice().status == notice_status::unknown);
  CHECK(m.all[0]->notice().cause == base::reason::timeout);
  CHECK(m.all[1]->notice().status == notice_status::delivered);
  m.outbox.give_up_all(base::reason::peer_dead);
  CHECK(m.count(notice_status::delivered) == 1);
  CHECK(m.count(notice_status::unknown) == bootstrap::notice_window - 1);
  CHECK(m.count(notice_status::lost) == 100 - bootstrap::notice_window);
  CHECK(m.all[98]->notice().cause == base::reason::peer_dead);
  CHECK(m.outbox.waiting() == 0);
}

TEST_CASE("an answer about what was never sent is a fault of the peer, one about another session is none") {
  model m(1000);
  m.put();
  CHECK(m.outbox.answered({m.session, 2, 66, false, false}, 99) != nullptr);
  CHECK(m.outbox.answered({m.session + 1, 2, 66, false, false}, 99) == nullptr);
  CHECK(m.all[0]->notice().status == notice_status::pending);
}

TEST_CASE("no promise of a receiver makes the sender have more than a window of notices unanswered") {
  model m(1000);
  for (int i = 0; i < 500; ++i)
    m.put();
  REQUIRE(m.outbox.answered({m.session, 1, ~std::uint64_t{0}, false, false}, 99) == nullptr);
  CHECK(m.there.size() == bootstrap::notice_window + 1);
}

TEST_CASE("a sender that skips a number or names none is found out") {
  receive_window w;
  const auto yes = [] { return true; };
  using arrival = receive_window::arrival;
  CHECK(w.take(7, 0, yes) == arrival::nonsense);
  CHECK(w.take(0, 1, yes) == arrival::nonsense);
  CHECK(w.take(7, 2, yes) == arrival::forgotten);
  CHECK(w.take(7, 1, yes) == arrival::fresh);
  CHECK(w.take(7, 1, yes) == arrival::repeated);
  CHECK(w.take(7, 3, yes) == arrival::nonsense);
  CHECK(w.take(7, 2, [] { return false; }) == arrival::no_room);
  CHECK(w.take(7, 3, yes) == arrival::no_room); // it was under way when 2 was thrown away
  CHECK(w.take(7, 2, yes) == arrival::fresh);
  CHECK(w.take(7, 4, yes) == arrival::nonsense);
}

TEST_CASE("windows of senders that left come back, and the oldest is forgotten when there are too many") {
  departed_windows d(2);
  for (bootstrap::incarnation who = 1; who <= 3; ++who) {
    receive_window w;
    w.take(who * 10, 1, [] { return true; });
    d.keep({who, 1}, w);
  }
  CHECK(d.take({1, 1}).session() == 0);
  CHECK(d.take({2, 1}).upto() == 1);
  CHECK(d.take({2, 1}).session() == 0);
  CHECK(d.take({3, 1}).session() == 30);
}

TEST_CASE("a full inbox refuses each sender by its share and all by the whole, and calls them when there is "
          "room") {
  notice_inbox inbox(100);
  int greedy_called = 0;
  int late_called = 0;
  const auto greedy = inbox.open([&] { ++greedy_called; });
  const auto late = inbox.open([&] { ++late_called; });
  std::size_t n = 0;
  while (inbox.push(greedy, {"g", 1, ++n, {}})) {
  }
  CHECK(inbox.size() == bootstrap::notice_window);
  while (inbox.push(late, {"l", 2, ++n, {}})) {
  }
  CHECK(inbox.size() == 100);
  while (inbox.size() > 76)
    inbox.take();
  CHECK(late_called == 0);
  inbox.take();
  CHECK(late_called == 1);
  CHECK(greedy_called == 0);
  while (inbox.size() > 68)
    inbox.take();
  CHECK(greedy_called == 1);
  CHECK(inbox.room_of(*greedy) == bootstrap::notice_window / 2);
  inbox.close(*greedy);
  while (inbox.take()) {
  }
  CHECK(greedy_called == 1);
  CHECK(late_called == 1);
}
