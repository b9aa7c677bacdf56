// SPDX-License-Identifier: Apache-2.0
// Transfers that adjoin share a WR, and still each of them ends by itself, once, with its own bytes and for
// its own reasons.
#include "actors/work_queue.hpp"
#include "actors/work_queue_rig.hpp"

#include <chrono>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <rapidcheck.h>

using namespace actor_rdma;
using namespace actor_rdma::actors;
using namespace std::chrono_literals;

namespace {

constexpr std::uint32_t slice_bytes = 256;

class fixture : public indifferent_owner {
public:
  explicit fixture(std::size_t slots) {
    config.slice_bytes = slice_bytes;
    config.send_queue_depth = 8;
    for (std::size_t i = 0; i < slots; ++i)
      queue.set_usable(queue.add_slot(static_cast<std::uint16_t>(i), static_cast<std::uint16_t>(i)), true, 1);
    generation.assign(slots, 1);
    buffer = one_buffer(1u << 20, slots);
    target = one_range(1u << 20, slots);
  }

  /// One behind the other in both memories; a length of 0 leaves a gap of a byte.
  std::shared_ptr<batch_state> submit(const std::vector<std::uint64_t>& lengths,
                                      operation op = operation::write) {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> places;
    std::uint64_t at = 0;
    for (const auto n : lengths) {
      if (n > 0)
        places.emplace_back(at, n);
      at += std::max<std::uint64_t>(n, 1);
    }
    auto b = std::make_shared<batch_state>(target, places.size());
    b->locals.push_back(buffer);
    for (std::size_t i = 0; i < places.size(); ++i) {
      auto& t = b->transfers()[i];
      t.local = t.remote = places[i].first;
      t.length = places[i].second;
      t.op = op;
    }
    queue.submit(b);
    return b;
  }
  std::vector<chunk> pull() {
    std::vector<chunk> all;
    for (chunk c; queue.pull(c, now); c.clear())
      all.push_back(c);
    return all;
  }
  void end(chunk c, wr_end how) {
    for (std::size_t i = 0; i < c.count; ++i)
      c.slices[i].end = how;
    queue.ended(c, now += 1us);
  }
  void suspect(chunk& posted) { queue.suspected(suspicion_of(posted)); }
  void keys_refused() override { ++refusals; }

  settings config;
  work_queue queue{config, *this};
  std::shared_ptr<local_buffer> buffer;
  std::shared_ptr<const remote_memory> target;
  std::vector<std::uint16_t> generation;
  base::time_point now{1s};
  int refusals = 0;
};

std::vector<std::uint32_t> lengths(const std::vector<chunk>& all) {
  std::vector<std::uint32_t> n;
  for (const auto& c : all)
    for (std::size_t i = 0; i < c.count; ++i)
      n.push_back(c.slices[i].what.length);
  return n;
}

} // namespace

TEST_CASE("G-03: neighbours share a WR up to the slice size, and a gap, a direction or a long one ends it") {
  fixture f(1);
  CHECK(f.submit(std::vector<std::uint64_t>(16, 32)) != nullptr);
  CHECK(lengths(f.pull()) == std::vector<std::uint32_t>{256, 256});
  fixture gaps(1);
  gaps.submit({32, 32, 0, 32, 0, 32, 32});
  CHECK(lengths(gaps.pull()) == std::vector<std::uint32_t>{64, 32, 64});
  fixture longer(1);
  longer.submit({300, 32, 32, 250}); // a long one is cut as ever, and its rest is left alone
  CHECK(lengths(longer.pull()) == std::vector<std::uint32_t>{256, 44, 64, 250});
}

TEST_CASE("G-03: what does not adjoin still goes out 64 at a time: one message and one doorbell") {
  fixture f(1);
  f.config.send_queue_depth = 256;
  std::vector<std::uint64_t> apart;
  for (int i = 0; i < 256; ++i) {
    apart.push_back(8);
    apart.push_back(0);
  }
  f.submit(apart);
  const auto posted = f.pull();
  CHECK(posted.size() == 4);
  CHECK(f.queue.outstanding() == 256);
}

TEST_CASE("a shared WR ends each of its transfers with its own bytes") {
  fixture f(1);
  const auto b = f.submit({10, 20, 30});
  const auto posted = f.pull();
  REQUIRE(lengths(posted) == std::vector<std::uint32_t>{60});
  for (const auto& t : b->transfers())
    CHECK(t.wrs == 1);
  f.end(posted[0], wr_end::success);
  CHECK(b->done());
  CHECK(b->result(0).bytes == 10);
  CHECK(b->result(2).bytes == 30);
}

TEST_CASE("rails share a short run of neighbours instead of one taking it all") {
  fixture f(4);
  f.submit({16, 16, 16, 16});
  CHECK(lengths(f.pull()) == std::vector<std::uint32_t>{16, 16, 16, 16});
}

TEST_CASE("a shared WR that is refused is issued again one by one, and only the guilty one fails") {
  for (const auto refusal : {wr_end::refused, wr_end::no_access}) {
    CAPTURE(static_cast<int>(refusal));
    fixture f(1);
    const auto b = f.submit({10, 20, 30}, operation::read);
    f.end(f.pull().at(0), refusal);
    CHECK_FALSE(b->done());
    if (refusal == wr_end::no_access) {
      CHECK(f.refusals == 1);
      CHECK(f.pull().empty()); // nothing is posted before the keys are known
      CHECK(f.queue.refreshed(f.target) == 3);
    }
    auto alone = f.pull();
    REQUIRE(lengths(alone) == std::vector<std::uint32_t>{10, 20, 30});
    auto& c = alone[0];
    c.slices[0].end = wr_end::success;
    c.slices[1].end = wr_end::refused;
    c.slices[2].end = wr_end::flushed;
    f.queue.ended(c, f.now);
    f.end(f.pull().at(0), wr_end::success);
    CHECK(b->result(0).status == transfer_status::completed);
    CHECK(b->result(1).status == transfer_status::failed);
    CHECK(b->result(1).cause == base::reason::request_fault);
    CHECK(b->result(2).status == transfer_status::completed);
    CHECK(b->done());
  }
}

TEST_CASE(
    "a shared WR that is suspected and then refused leaves its transfers to the copy, and the other way") {
  fixture f(2);
  f.queue.set_usable(1, false, 1);
  const auto b = f.submit({10, 20}, operation::read);
  auto posted = f.pull();
  REQUIRE(lengths(posted) == std::vector<std::uint32_t>{30});
  f.queue.set_usable(1, true, 1);
  f.suspect(posted[0]);
  const auto copy = f.pull();
  REQUIRE(lengths(copy) == std::vector<std::uint32_t>{30});
  f.end(posted[0], wr_end::refused);
  CHECK(f.pull().empty()); // the copy is still out
  f.end(copy[0], wr_end::refused);
  CHECK(lengths(f.pull()) == std::vector<std::uint32_t>{10, 20});
  CHECK(b->transfers()[0].wrs == 1);
}

TEST_CASE("neighbours that share WRs end once, never early, and with exact bytes, whatever happens") {
  CHECK(rc::check("shared ends", [] {
    fixture f(3);
    std::vector<chunk> outs;
    std::vector<std::shared_ptr<batch_state>> batches;
    const auto take = [&](std::size_t pick) {
      const auto i = pick % outs.size();
      const auto c = outs[i];
      outs.erase(outs.begin() + static_cast<std::ptrdiff_t>(i));
      return c;
    };
    for (const int step : *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 1000))) {
      const auto pick = static_cast<std::size_t>(step / 10);
      switch (step % 10) {
      case 0:
      case 1: {
        std::vector<std::uint64_t> sizes;
        for (std::size_t i = 0; i < 1 + pick % 12; ++i)
          sizes.push_back((pick * 7 + i * 13) % 90); // some of them gaps
        sizes.push_back(1 + pick * 5);
        batches.push_back(f.submit(sizes, step % 4 == 0 ? operation::read : operation::write));
        break;
      }
      case 2:
      case 3:
        for (auto& c : f.pull())
          outs.push_back(c);
        break;
      case 4:
      case 5:
        if (!outs.empty())
          f.end(take(pick), step % 3 == 0 ? wr_end::flushed : wr_end::success);
        break;
      case 6:
        if (!outs.empty())
          f.end(take(pick), pick % 2 == 0 ? wr_end::refused : wr_end::no_access);
        break;
      case 7:
        if (!outs.empty())
          f.suspect(outs[pick % outs.size()]); // also more than once
        break;
      case 8:
        if (!batches.empty() && pick % 3 == 0)
          f.queue.stop(*batches[pick % batches.size()], transfer_status::cancelled, base::reason::cancelled);
        else
          f.queue.refreshed(f.target);
        break;
      default: {
        const auto slot = static_cast<slot_id>(pick % 3);
        f.queue.remote_fenced(slot, f.generation[slot], pick % 2 == 0);
        f.queue.set_usable(slot, pick % 4 != 0, ++f.generation[slot]);
        break;
      }
      }
      for (const auto& b : batches)
        for (const auto& t : b->transfers())
          RC_ASSERT(t.status == transfer_status::pending || (t.wrs == 0 && t.fences == 0 && t.queued == 0));
    }
    for (int round = 0; round < 10'000 && f.queue.open_batches() > 0; ++round) {
      f.queue.refreshed(f.target);
      for (slot_id s = 0; s < 3; ++s)
        f.queue.set_usable(s, true, f.generation[s]);
      for (auto& c : f.pull())
        outs.push_back(c);
      for (auto& o : std::exchange(outs, {}))
        f.end(o, wr_end::success);
      for (slot_id s = 0; s < 3; ++s)
        f.queue.remote_fenced(s, f.generation[s]++, true);
    }
    RC_ASSERT(f.queue.open_batches() == 0u);
    RC_ASSERT(f.queue.outstanding() == 0u);
    RC_ASSERT(f.queue.waiting_slices() == 0u);
    for (const auto& b : batches)
      for (std::size_t i = 0; i < b->transfers().size(); ++i) {
        const auto r = b->result(i);
        RC_ASSERT(r.status != transfer_status::pending);
        RC_ASSERT((r.status == transfer_status::completed) == (r.bytes == b->transfers()[i].length));
      }
  }));
}
