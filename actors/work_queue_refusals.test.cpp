// SPDX-License-Identifier: Apache-2.0
// Requests that a device refuses for what they are: they fail, they cannot go on failing without end, and
// what stands beside them is not drawn in.
#include "actors/work_queue.hpp"
#include "actors/work_queue_rig.hpp"

#include <vector>

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace actor_rdma::actors;
using namespace std::chrono_literals;

namespace {

/// One rail, READs (no remote fences), and two pairs of buffers.
struct fixture : indifferent_owner {
  fixture() {
    config.slice_bytes = 100;
    config.send_queue_depth = 8;
    queue.add_slot(0, 0);
    queue.set_usable(0, true, generation);
    auto memory = std::make_shared<remote_memory>();
    memory->ranges.resize(2);
    for (std::uint64_t i = 0; i < 2; ++i) {
      auto& r = memory->ranges[i];
      r.id = 10 + i;
      r.length = 1u << 30;
      r.devices = 1;
      r.rkeys = {9};
    }
    target = memory;
    buffer->id = 1;
    buffer->length = 1u << 30;
    buffer->devices = 1;
    buffer->lkeys = {7};
  }
  std::shared_ptr<batch_state> submit(std::vector<std::uint64_t> lengths, std::uint16_t range = 0) {
    auto b = std::make_shared<batch_state>(target, lengths.size());
    b->submitted = now;
    b->locals.push_back(buffer);
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      b->transfers()[i].length = lengths[i];
      b->transfers()[i].op = operation::read;
      b->transfers()[i].remote_buffer = range;
    }
    queue.submit(b);
    return b;
  }
  /// What one pull gives; nothing: an empty chunk.
  chunk pull() {
    chunk c;
    (void)queue.pull(c, now);
    return c;
  }
  /// The QP ends with its WRs, and another one takes its place.
  void end(chunk c, wr_end how) {
    for (std::size_t i = 0; i < c.count; ++i)
      c.slices[i].end = how;
    queue.ended(c, now += 1us);
    queue.set_usable(0, true, ++generation);
  }
  void refuse_one(std::uint16_t range = 0) {
    const auto b = submit({50}, range);
    end(pull(), wr_end::refused);
    CHECK(b->result(0).cause == base::reason::request_fault);
  }
  void batch_ended(const std::shared_ptr<batch_state>&) noexcept override { ++ended_batches; }
  void source_barred(const refusal_budget::source& who, base::time_point) override { bars.push_back(who); }

  settings config;
  work_queue queue{config, *this};
  std::shared_ptr<const remote_memory> target;
  std::shared_ptr<local_buffer> buffer = std::make_shared<local_buffer>();
  std::uint16_t generation = 1;
  base::time_point now{};
  int ended_batches = 0;
  std::vector<refusal_budget::source> bars;
};

} // namespace

TEST_CASE("the third refused request of a source bars it, and its next ones fail without being posted") {
  fixture f;
  for (int i = 0; i < 3; ++i)
    f.refuse_one();
  CHECK(f.bars == std::vector<refusal_budget::source>{{1, 10}});
  const auto barred = f.submit({50, 50});
  CHECK(f.pull().count == 0);
  CHECK(barred->done());
  CHECK(barred->result(1).status == transfer_status::failed);
  CHECK(barred->result(1).cause == base::reason::request_fault);
  CHECK(f.ended_batches == 4);
  CHECK(f.queue.open_batches() == 0);
}

TEST_CASE("another source is served while one is barred, and the barred one again after ten seconds") {
  fixture f;
  for (int i = 0; i < 3; ++i)
    f.refuse_one();
  const auto other = f.submit({50}, 1);
  f.end(f.pull(), wr_end::success);
  CHECK(other->result(0).status == transfer_status::completed);
  f.now += 10s;
  const auto again = f.submit({50});
  f.end(f.pull(), wr_end::success);
  CHECK(again->result(0).status == transfer_status::completed);
}

TEST_CASE("what is open when its source is barred ends as soon as nothing of it is out") {
  fixture f;
  const auto open = f.submit({50, 50, 50, 1000});
  auto first = f.pull();
  REQUIRE(first.count == 8);
  auto rest = first;
  first.count = 3;
  f.end(first, wr_end::refused);
  CHECK(f.bars.size() == 1);
  CHECK_FALSE(open->done());
  CHECK(f.pull().count == 0);
  for (std::size_t i = 0; i < 5; ++i)
    rest.slices[i] = rest.slices[3 + i];
  rest.count = 5;
  f.end(rest, wr_end::flushed);
  CHECK(open->done());
  CHECK(open->result(3).cause == base::reason::request_fault);
}

TEST_CASE("open batches that were not posted yet end with the bar of their source") {
  fixture f;
  f.refuse_one();
  f.refuse_one();
  const auto last = f.submit({50});
  const auto posted = f.pull();
  const auto waiting = f.submit({50});
  f.end(posted, wr_end::refused);
  CHECK(last->done());
  CHECK(waiting->done());
  CHECK(f.queue.open_batches() == 0);
}

TEST_CASE("an error that no path explains is tried again twice, then it is the request's") {
  fixture f;
  const auto b = f.submit({50});
  for (int i = 0; i < 3; ++i) {
    const auto posted = f.pull();
    REQUIRE(posted.count == 1);
    CHECK_FALSE(b->done());
    f.end(posted, wr_end::fault);
  }
  CHECK(b->done());
  CHECK(b->result(0).cause == base::reason::request_fault);
  CHECK(f.pull().count == 0);
}

TEST_CASE("an error of the path is tried again for as long as the deadline allows") {
  fixture f;
  const auto b = f.submit({50});
  for (int i = 0; i < 20; ++i)
    f.end(f.pull(), wr_end::error);
  CHECK_FALSE(b->done());
  CHECK(f.bars.empty());
  f.end(f.pull(), wr_end::success);
  CHECK(b->done());
}
