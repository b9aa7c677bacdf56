// SPDX-License-Identifier: Apache-2.0
// Notices: once, after all their data on every rail, whatever breaks meanwhile, and told truly (J-09, J-12).
#include "bootstrap/limits.hpp"
#include "tests/sim/load.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <string>

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t piece = 64 * 1024;
constexpr auto window = bootstrap::notice_window;

/// Node a writes pieces to b, one batch of `per_batch` pieces at a time and each with a notice; b takes
/// notices as they arrive and looks at the data at that moment.
class run {
public:
  run(std::uint64_t seed, std::size_t pieces, std::size_t per_batch_ = 1, std::size_t piece_bytes = 256,
      const sim::node_options& from = sim::paced("a", 2), const sim::node_options& to = sim::paced("b", 2))
      : c(seed), a(c.add(from)), b(c.add(to)), load(c, a, b, piece_bytes, pieces, 2 * from.devices),
        per_batch(per_batch_) {
    REQUIRE(load.connected());
    for (const auto& r : load.requests())
      std::memset(r.local, 0x5a, r.length);
    load.fill_target(0);
  }

  base::expected<std::shared_ptr<actors::batch_state>> try_submit(base::duration deadline = 30s) {
    const auto first = load.requests().begin() + static_cast<std::ptrdiff_t>(batches.size() * per_batch);
    const std::vector<transfer_request> part(first, first + static_cast<std::ptrdiff_t>(per_batch));
    const auto memory = load.peer().view->memory();
    if (!memory)
      return base::fail(base::reason::peer_dead, "sim", "the peer is not connected");
    auto made = actors::make_batch(a.engine().buffers(), memory, part, c.now(), c.now() + deadline,
                                   notice{std::to_string(batches.size()), {1, 2, 3}});
    if (made)
      actors::engine::submit_to(load.peer(), *made);
    return made;
  }
  void submit(std::size_t n, base::duration deadline = 30s) {
    for (std::size_t i = 0; i < n; ++i) {
      auto made = try_submit(deadline);
      REQUIRE(made.has_value());
      batches.push_back(*made);
    }
  }
  /// b's program: takes what is there. Data that a notice speaks of must be complete at once.
  void take() {
    while (auto got = b.engine().inbox().take()) {
      const auto which = std::stoull(got->what.name);
      ++taken[which];
      ++total;
      for (std::size_t i = which * per_batch; i < (which + 1) * per_batch; ++i)
        complete = complete && holds(load.requests()[i], 0x5a);
    }
  }
  static bool holds(const transfer_request& r, unsigned char value) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(r.remote);
    return std::all_of(bytes, bytes + r.length, [&](unsigned char x) { return x == value; });
  }
  /// Runs until that many notices were taken.
  bool until_taken(std::size_t n, base::duration patience = 20s) {
    return c.world().run_until(
        [&] {
          take();
          return total >= n;
        },
        c.now() + patience);
  }
  bool all_told(base::duration patience = 20s) {
    return c.world().run_until(
        [&] {
          take();
          return std::all_of(batches.begin(), batches.end(), [](const auto& x) { return x->done(); });
        },
        c.now() + patience);
  }
  std::size_t count(notice_status how) const {
    return static_cast<std::size_t>(std::count_if(batches.begin(), batches.end(),
                                                  [&](const auto& x) { return x->notice().status == how; }));
  }
  /// Nothing doubled, nothing invented, nothing told that is not so, and never a notice before its data.
  void check_truth() {
    CHECK(complete);
    for (std::size_t i = 0; i < batches.size(); ++i) {
      const auto status = batches[i]->notice().status;
      const auto times = taken.count(i) != 0 ? taken.at(i) : 0;
      CHECK(times <= 1);
      CHECK((status != notice_status::delivered || times == 1));
      CHECK(((status != notice_status::lost && status != notice_status::withheld) || times == 0));
    }
  }
  void check_all_delivered() {
    CHECK(count(notice_status::delivered) == batches.size());
    CHECK(total == batches.size());
    CHECK(a.count(observe::event_kind::notice_delivered) == batches.size());
    CHECK(b.count(observe::event_kind::notice_received) == batches.size());
    check_truth();
  }

  sim::cluster c;
  sim::machine& a;
  sim::machine& b;
  sim::load load;
  const std::size_t per_batch;
  std::vector<std::shared_ptr<actors::batch_state>> batches;
  std::map<std::size_t, int> taken;
  std::size_t total = 0;
  bool complete = true;
};

} // namespace

TEST_CASE("J-09: a notice comes after its data on both rails, however late one of them is") {
  for (const auto late : {5ms, 100ms, 600ms}) {
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      CAPTURE(seed);
      CAPTURE(late.count());
      run r(seed, 32, 32, piece);
      REQUIRE(r.c.fabric().set_delay("a/soft0", late));
      const auto sent = r.c.now();
      r.submit(1);
      REQUIRE(r.until_taken(1));
      CHECK(r.c.now() - sent >= 5ms);
      r.load.fill_target(0xee); // the receiver may do what it likes with its memory now
      REQUIRE(r.all_told());
      r.c.world().run_for(2s);
      CHECK(r.load.target_is(0xee));
      r.check_all_delivered();
    }
  }
}

TEST_CASE(
    "J-12: four thousand notices over a control link that is cut and a rail that hangs: none lost, none "
    "doubled") {
  run r(1, 4000);
  r.submit(4000);
  REQUIRE(r.until_taken(500));
  r.c.network().cut("a", "b");
  REQUIRE(r.until_taken(1000));
  REQUIRE(r.c.fabric().set_hang("a/soft0", true));
  REQUIRE(r.until_taken(1500));
  r.c.network().cut("a", "b");
  REQUIRE(r.all_told());
  r.check_all_delivered();
  CHECK(r.a.count(observe::event_kind::notice_sent) > 4000); // some had to be sent again
  CHECK(r.a.stop());
  CHECK(r.b.stop());
}

TEST_CASE("notices come once over control links that are cut at any moment, with a QP that hangs under way") {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    CAPTURE(seed);
    run r(seed, 200);
    r.submit(100);
    for (std::size_t cuts = 1; cuts <= 5; ++cuts) {
      r.until_taken(cuts * (5 + seed % 7));
      r.c.world().run_for(std::chrono::microseconds{seed * 37 % 250});
      r.c.network().cut("a", "b");
      if (cuts == 2)
        REQUIRE(r.c.fabric().set_hang("a/soft0", true));
      r.submit(20);
    }
    REQUIRE(r.all_told());
    r.check_all_delivered();
  }
}

TEST_CASE("a peer that is killed: every notice is told within a second, and none falsely") {
  std::size_t lost = 0;
  std::size_t unknown = 0;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    CAPTURE(seed);
    run r(seed, 200, 1, seed % 2 == 0 ? 256 : 32 * 1024); // large ones are still under way at its death
    r.submit(200);
    REQUIRE(r.until_taken(10 + seed));
    r.c.network().kill("b");
    REQUIRE(r.all_told(1s));
    r.take();
    r.check_truth();
    lost += r.count(notice_status::lost) + r.count(notice_status::withheld);
    unknown += r.count(notice_status::unknown);
    for (const auto& x : r.batches)
      CHECK((x->notice().status == notice_status::delivered || x->notice().cause == base::reason::peer_dead));
    CHECK(r.a.count(observe::event_kind::notice_lost) + r.a.count(observe::event_kind::notice_delivered) ==
          200);
  }
  CHECK(lost > 0);
  CHECK(unknown > 0);
}

TEST_CASE("a link that is silent for longer than the receiver waits for its sender: still each notice once") {
  std::size_t repeated = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    run r(seed, 100);
    r.submit(100, 60s);
    REQUIRE(r.until_taken(20 + seed));
    r.c.network().black_hole("a", "b", true);
    r.c.world().run_for(8s);
    CHECK(r.b.count(observe::event_kind::peer_dead) == 1); // the receiver has let go of it
    const auto before = r.a.count(observe::event_kind::notice_sent);
    r.c.network().black_hole("a", "b", false);
    REQUIRE(r.all_told(20s));
    repeated += r.a.count(observe::event_kind::notice_sent) - before;
    r.check_all_delivered();
  }
  CHECK(repeated > 0);
}

TEST_CASE(
    "a receiver that does not read: its inbox is bounded, the sender waits, and the rest is told as lost "
    "at its deadline") {
  run r(1, 200);
  r.submit(150, 2s);
  r.c.world().run_for(1s);
  CHECK(r.b.engine().inbox().size() == window);
  CHECK(r.count(notice_status::delivered) == window);
  r.c.world().run_for(2s);
  CHECK(r.count(notice_status::lost) == 150 - window);
  CHECK(r.batches.back()->notice().cause == base::reason::timeout);
  CHECK(r.batches.back()->result(0).status == transfer_status::completed);
  r.submit(50); // they wait behind the full inbox, until it is read
  r.c.world().run_for(1s);
  CHECK(r.count(notice_status::pending) == 50);
  REQUIRE(r.all_told());
  CHECK(r.count(notice_status::delivered) == window + 50);
  r.check_truth();
}

TEST_CASE("room that was made while the control link was down is known to the sender afterwards") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    run r(seed, 100);
    r.submit(100);
    r.c.world().run_for(1s);
    REQUIRE(r.count(notice_status::delivered) == window);
    r.c.network().cut("a", "b");
    r.take();
    REQUIRE(r.all_told(5s));
    r.check_all_delivered();
  }
}

TEST_CASE("senders that fill an inbox together lose nothing and overtake nobody for ever") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    auto small = sim::paced("b", 2);
    small.config.notice_inbox = 3;
    run r(seed, 60, 1, 256, sim::paced("a", 2), small);
    auto& other = r.c.add(sim::paced("c", 1));
    const auto peer = other.connect(r.b);
    REQUIRE(peer.has_value());
    std::vector<std::shared_ptr<actors::batch_state>> more;
    for (int i = 0; i < 60; ++i) {
      auto made = actors::make_notice(peer->view->memory(), notice{"from c", {}}, r.c.now(), r.c.now() + 30s);
      REQUIRE(made.has_value());
      actors::engine::submit_to(*peer, *made);
      more.push_back(*made);
    }
    r.submit(60);
    std::map<std::string, int> by_sender;
    for (int round = 0; round < 1000 && by_sender["a"] + by_sender["c"] < 120; ++round) {
      r.c.world().run_for(250us); // long enough to fill it
      CHECK(r.b.engine().inbox().size() <= 3);
      while (const auto got = r.b.engine().inbox().take())
        ++by_sender[got->from];
    }
    CHECK(by_sender["a"] == 60);
    CHECK(by_sender["c"] == 60);
    r.c.world().run_for(10ms);
    CHECK(r.count(notice_status::delivered) == 60);
    for (const auto& b : more)
      CHECK(b->notice().status == notice_status::delivered);
    CHECK_FALSE(r.b.engine().inbox().take().has_value());
  }
}

TEST_CASE("a notice whose data did not arrive is withheld, with the cause of that") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    run r(seed, 32, 16, piece);
    REQUIRE(r.c.fabric().set_hang("a/soft0", true));
    REQUIRE(r.c.fabric().set_hang("a/soft1", true));
    r.submit(1, 300ms);
    REQUIRE(r.all_told(3s));
    CHECK(r.batches[0]->notice().status == notice_status::withheld);
    CHECK(r.batches[0]->notice().cause == base::reason::timeout);
    CHECK(r.a.count(observe::event_kind::notice_lost) == 1);
    CHECK(r.a.count(observe::event_kind::notice_sent) == 0);
    r.c.world().run_for(1s);
    r.check_truth();
  }
}

TEST_CASE("a notice is withheld when late packets could still reach the memory that it would hand over") {
  run r(1, 32, 32, piece);
  REQUIRE(r.c.fabric().set_delay("a/soft0", 600ms));
  r.c.network().black_hole("a", "b", true); // so that nobody confirms the remote fence
  r.submit(1);
  REQUIRE(r.all_told());
  CHECK(r.batches[0]->result(0).status == transfer_status::completed);
  CHECK(r.batches[0]->notice().status == notice_status::withheld);
  CHECK(r.batches[0]->notice().cause == base::reason::path);
}

TEST_CASE("a peer that does not take notices: the submit is refused, and plain transfers go on") {
  auto old = sim::paced("b", 2);
  old.config.notices = false;
  run r(1, 4, 1, 256, sim::paced("a", 2), old);
  const auto refused = r.try_submit();
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().why == base::reason::unsupported);
  CHECK(refused.error().to_string().find("b does not take notices") != std::string::npos);
  const auto batch = r.load.send(1);
  REQUIRE(r.load.finish(*batch));
  CHECK(batch->notice().status == notice_status::none);
}
