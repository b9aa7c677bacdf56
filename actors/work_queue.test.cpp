// SPDX-License-Identifier: Apache-2.0
// When a transfer may end. A model drives the queue through random completions, suspicions, fences and stops,
// and no end may be told while a WR is out or a remote fence is owed.
#include "actors/work_queue.hpp"

#include "actors/work_queue_rig.hpp"

#include <array>
#include <deque>
#include <map>
#include <vector>

#include <doctest/doctest.h>
#include <rapidcheck.h>

using namespace actor_rdma;
using namespace actor_rdma::actors;
using namespace std::chrono_literals;

namespace {

class fixture : public indifferent_owner {
public:
  explicit fixture(std::size_t slots = 2, std::uint32_t slice = 100) {
    config.slice_bytes = slice;
    config.send_queue_depth = 8;
    for (std::size_t i = 0; i < slots; ++i) {
      const auto s = queue.add_slot(static_cast<std::uint16_t>(i), static_cast<std::uint16_t>(i));
      queue.set_usable(s, true, 1);
      generation.push_back(1);
    }
    buffer = one_buffer(1u << 30, slots);
    target = one_range(1u << 30, slots);
  }

  std::shared_ptr<batch_state> submit(std::vector<std::uint64_t> lengths, operation op = operation::write) {
    auto b = std::make_shared<batch_state>(target, lengths.size());
    b->locals.push_back(buffer);
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      b->transfers()[i].length = lengths[i];
      b->transfers()[i].op = op;
    }
    queue.submit(b);
    return b;
  }
  /// Everything that can be pulled now.
  std::vector<chunk_ptr> pull() {
    std::vector<chunk_ptr> all;
    for (;;) {
      auto c = std::make_shared<chunk>();
      if (!queue.pull(*c, now))
        return all;
      all.push_back(std::move(c));
    }
  }
  void end(const chunk& posted, wr_end how) {
    chunk c = posted;
    for (std::size_t i = 0; i < c.count; ++i)
      c.slices[i].end = how;
    queue.ended(c, now += 1us);
  }
  void end_one_by_one(const chunk& posted, base::duration each) {
    for (std::size_t i = 0; i < posted.count; ++i) {
      chunk one;
      one.slot = posted.slot;
      one.generation = posted.generation;
      one.add(posted.slices[i].what, wr_end::success);
      queue.ended(one, now += each);
    }
  }
  void batch_ended(const std::shared_ptr<batch_state>&) noexcept override { ++ended_batches; }
  void keys_refused() override { ++refusals; }

  settings config;
  work_queue queue{config, *this};
  std::shared_ptr<local_buffer> buffer;
  std::shared_ptr<const remote_memory> target;
  std::vector<std::uint16_t> generation;
  base::time_point now{1s};
  int ended_batches = 0;
  int refusals = 0;
};

/// The slices of a chunk as its QP hands them over on suspicion.
chunk suspicion(chunk& posted) {
  auto c = suspicion_of(posted);
  for (std::size_t i = 0; i < c.count; ++i)
    c.slices[i].what.avoid = posted.slot; // device number = slot in this fixture
  return c;
}

} // namespace

TEST_CASE("a transfer is cut into slices and completes when all of them have") {
  fixture f;
  const auto b = f.submit({250, 1});
  const auto posted = f.pull();
  std::map<std::uint64_t, int> lengths;
  for (const auto& c : posted)
    for (std::size_t i = 0; i < c->count; ++i)
      ++lengths[c->slices[i].what.length];
  CHECK(lengths == std::map<std::uint64_t, int>{{100, 2}, {50, 1}, {1, 1}});
  for (const auto& c : posted)
    f.end(*c, wr_end::success);
  CHECK(b->done());
  CHECK(f.ended_batches == 1);
  CHECK(b->result(0).bytes == 250);
}

TEST_CASE("credit bounds what a QP is given, and comes back with ends") {
  fixture f(1);
  const auto b = f.submit(std::vector<std::uint64_t>(20, 10));
  auto first = f.pull();
  CHECK(f.queue.outstanding() == 8);
  CHECK(f.pull().empty());
  f.end(*first[0], wr_end::success);
  CHECK(f.pull().size() == 1);
}

TEST_CASE("time without work does not make a rail look slow") {
  fixture f;
  std::array<int, 2> given{};
  std::vector<chunk_ptr> outs;
  const auto pull = [&] {
    for (auto& c : f.pull()) {
      given[c->slot] += c->count;
      outs.push_back(std::move(c));
    }
  };
  for (int round = 0; round < 50; ++round) {
    f.now += 1s; // nobody sends anything
    f.submit({100, 100, 100});
    pull();
    f.submit({100});
    pull();
    for (auto& c : std::exchange(outs, {}))
      f.end(*c, wr_end::success);
  }
  CHECK(given[0] + given[1] == 200);
  CHECK(given[0] >= 60);
  CHECK(given[1] >= 60);
}

TEST_CASE("a rail that is slow under load is given less") {
  fixture f;
  std::array<int, 2> given{};
  std::array<std::deque<chunk_ptr>, 2> outs;
  for (int step = 0; step < 2000; ++step) {
    if (f.queue.open_batches() < 8)
      f.submit({100, 100, 100, 100});
    for (auto& c : f.pull()) {
      given[c->slot] += c->count;
      outs[c->slot].push_back(std::move(c));
    }
    f.now += 10us;
    for (std::size_t slot = 0; slot < 2; ++slot)
      if (!outs[slot].empty() && (slot == 0 || step % 4 == 0)) {
        f.end(*outs[slot].front(), wr_end::success);
        outs[slot].pop_front();
      }
  }
  CHECK(given[0] > 2 * given[1]);
  CHECK(given[1] > 0);
}

TEST_CASE("under a light load a rail that was measured slow once is not left out for ever") {
  fixture f;
  // Rail 1 is measured while it is a thousand times slower than rail 0, then everything is at rest.
  f.submit(std::vector<std::uint64_t>(16, 100));
  for (int half = 0; half < 2; ++half)
    for (const auto& c : f.pull())
      f.end_one_by_one(*c, c->slot == 0 ? 1us : 1ms);
  // From now on they are equal, and one slice at a time never fills a rail.
  for (int second = 0; second < 3; ++second) {
    std::array<int, 2> given{};
    for (const auto until = f.now + 1s; f.now < until;) {
      f.submit({100});
      for (const auto& c : f.pull()) {
        given[c->slot] += c->count;
        f.now += 9us;
        f.end(*c, wr_end::success);
      }
    }
    CHECK(given[0] > 0);
    CHECK(given[1] > 0);
  }
}

TEST_CASE("a QP of a new generation is not taken to be as slow as the old one was at its end") {
  fixture f;
  f.submit(std::vector<std::uint64_t>(16, 100));
  for (const auto& c : f.pull())
    f.end_one_by_one(*c, c->slot == 0 ? 1us : 10ms);
  f.generation[1] = 2;
  f.queue.set_usable(1, false, 1);
  f.queue.set_usable(1, true, 2);
  f.submit({100, 100});
  const auto given = f.pull();
  REQUIRE(given.size() == 2);
  CHECK(given[0]->slot != given[1]->slot);
}

TEST_CASE("a suspected slice goes to another device and its transfer still waits for the hung WR and for the "
          "peer") {
  fixture f;
  const auto b = f.submit({50});
  auto posted = f.pull();
  REQUIRE(posted.size() == 1);
  auto& hung = *posted[0];
  f.queue.set_usable(hung.slot, false, 1);
  f.queue.suspected(suspicion(hung));
  const auto again = f.pull();
  REQUIRE(again.size() == 1);
  CHECK(again[0]->slot != hung.slot);
  f.end(*again[0], wr_end::success);
  CHECK_FALSE(b->done()); // the hung WR could still touch our memory
  f.end(hung, wr_end::flushed);
  CHECK_FALSE(b->done()); // its packets could still touch the peer's
  f.queue.remote_fenced(hung.slot, 1, true);
  CHECK(b->done());
  CHECK(b->result(0).status == transfer_status::completed);
  CHECK(b->result(0).bytes == 50);
  CHECK_FALSE(b->result(0).remote_fence_unconfirmed);
}

TEST_CASE("a READ needs no remote fence") {
  fixture f;
  const auto b = f.submit({50}, operation::read);
  auto posted = f.pull();
  f.queue.set_usable(posted[0]->slot, false, 1);
  f.end(*posted[0], wr_end::flushed);
  const auto again = f.pull();
  REQUIRE(again.size() == 1);
  f.end(*again[0], wr_end::success);
  CHECK(b->done());
}

TEST_CASE("a false alarm drops the queued copy, and bytes count once") {
  fixture f;
  const auto b = f.submit({50});
  auto posted = f.pull();
  f.queue.set_usable(0, false, 1);
  f.queue.set_usable(1, false, 1);
  f.queue.suspected(suspicion(*posted[0]));
  CHECK(f.queue.waiting_slices() == 1);
  f.end(*posted[0], wr_end::success);
  CHECK(f.queue.waiting_slices() == 0);
  CHECK(b->done());
  CHECK(b->result(0).bytes == 50);
}

TEST_CASE("a request that the device refuses fails alone, its flushed neighbours are issued again") {
  fixture f(1);
  const auto b = f.submit({50, 50});
  auto posted = f.pull();
  REQUIRE(posted[0]->count == 2);
  chunk c = *posted[0];
  c.slices[0].end = wr_end::refused;
  c.slices[1].end = wr_end::flushed;
  f.queue.ended(c, f.now);
  CHECK_FALSE(b->done());
  f.queue.remote_fenced(0, 1, true);
  CHECK(b->result(0).status == transfer_status::failed);
  CHECK(b->result(0).cause == base::reason::request_fault);
  f.queue.set_usable(0, true, 2);
  const auto again = f.pull();
  REQUIRE(again.size() == 1);
  f.end(*again[0], wr_end::success);
  CHECK(b->result(1).status == transfer_status::completed);
}

TEST_CASE("an unconfirmed remote fence is told") {
  fixture f;
  const auto b = f.submit({50});
  auto posted = f.pull();
  f.end(*posted[0], wr_end::error);
  const auto again = f.pull();
  f.end(*again[0], wr_end::success);
  CHECK_FALSE(b->done());
  f.queue.remote_fenced(posted[0]->slot, 1, false);
  CHECK(b->done());
  CHECK(b->result(0).remote_fence_unconfirmed);
}

TEST_CASE("a confirmation that comes before the end of its WRs counts all the same") {
  fixture f;
  const auto b = f.submit({50});
  auto posted = f.pull();
  f.queue.remote_fenced(posted[0]->slot, 1, true);
  f.queue.stop(*b, transfer_status::timed_out, base::reason::timeout);
  CHECK_FALSE(b->done());
  f.end(*posted[0], wr_end::flushed);
  CHECK(b->done());
  CHECK(b->result(0).status == transfer_status::timed_out);
}

TEST_CASE("whatever happens in whatever order, no end comes early, every end comes, and bytes are exact") {
  CHECK(rc::check("ends", [] {
    fixture f(3, 64);
    struct out {
      chunk_ptr posted;
      bool suspected = false;
    };
    std::vector<out> outs;
    std::vector<std::shared_ptr<batch_state>> batches;
    const auto early = [&] {
      for (const auto& b : batches)
        for (const auto& t : b->transfers())
          if (t.status != transfer_status::pending && (t.wrs > 0 || t.fences > 0))
            return true;
      return false;
    };
    for (const int step : *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 1000))) {
      const auto pick = static_cast<std::size_t>(step / 10);
      switch (step % 10) {
      case 0:
      case 1:
        batches.push_back(
            f.submit({1 + pick, 64 * (1 + pick % 4)}, step % 4 == 0 ? operation::read : operation::write));
        break;
      case 2:
      case 3:
        for (auto& c : f.pull())
          outs.push_back({std::move(c), false});
        break;
      case 4:
      case 5:
        if (!outs.empty()) {
          const auto i = pick % outs.size();
          f.end(*outs[i].posted, step % 3 == 0 ? wr_end::flushed : wr_end::success);
          outs.erase(outs.begin() + static_cast<std::ptrdiff_t>(i));
        }
        break;
      case 6:
        if (!outs.empty() && !outs[pick % outs.size()].suspected) {
          auto& o = outs[pick % outs.size()];
          o.suspected = true;
          f.queue.suspected(suspicion(*o.posted));
        }
        break;
      case 7: { // a QP is replaced: its WRs flush, then its generation is settled
        const auto slot = static_cast<slot_id>(pick % 3);
        f.queue.set_usable(slot, false, f.generation[slot]);
        for (std::size_t i = outs.size(); i-- > 0;)
          if (outs[i].posted->slot == slot) {
            f.end(*outs[i].posted, wr_end::flushed);
            outs.erase(outs.begin() + static_cast<std::ptrdiff_t>(i));
          }
        f.queue.remote_fenced(slot, f.generation[slot], pick % 2 == 0);
        f.queue.set_usable(slot, true, ++f.generation[slot]);
        break;
      }
      case 8:
        if (!batches.empty())
          f.queue.stop(*batches[pick % batches.size()], transfer_status::cancelled, base::reason::cancelled);
        break;
      default:
        f.queue.set_usable(static_cast<slot_id>(pick % 3), pick % 2 == 0, f.generation[pick % 3]);
        break;
      }
      RC_ASSERT(!early());
    }
    for (int round = 0; round < 10'000 && f.queue.open_batches() > 0; ++round) {
      for (slot_id s = 0; s < 3; ++s)
        f.queue.set_usable(s, true, f.generation[s]);
      for (auto& c : f.pull())
        outs.push_back({std::move(c), false});
      for (auto& o : std::exchange(outs, {}))
        f.end(*o.posted, wr_end::success);
      for (slot_id s = 0; s < 3; ++s)
        f.queue.remote_fenced(s, f.generation[s]++, true);
    }
    RC_ASSERT(f.queue.open_batches() == 0u);
    RC_ASSERT(f.queue.outstanding() == 0u);
    RC_ASSERT(f.queue.waiting_slices() == 0u);
    for (const auto& b : batches) {
      RC_ASSERT(b->done());
      for (std::size_t i = 0; i < b->transfers().size(); ++i) {
        const auto r = b->result(i);
        RC_ASSERT(r.status != transfer_status::pending);
        RC_ASSERT((r.status == transfer_status::completed) == (r.bytes == b->transfers()[i].length));
      }
    }
  }));
}

TEST_CASE("a QP whose send queue is shorter than the settings say gets no more than it holds") {
  fixture f{2};
  f.queue.set_usable(1, true, 2, 3);
  f.submit({2000});
  std::array<std::size_t, 2> out{};
  for (const auto& c : f.pull())
    out.at(c->slot) += c->count;
  CHECK(out == std::array<std::size_t, 2>{8, 3});
}
