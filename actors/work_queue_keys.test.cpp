// SPDX-License-Identifier: Apache-2.0
// Regions and keys in the work queue: borders, refusals, and what a new reading of the peer's memory decides.
#include "actors/work_queue.hpp"
#include "actors/work_queue_rig.hpp"

#include <algorithm>
#include <memory>
#include <vector>

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace actor_rdma::actors;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t base_addr = 0x10000;

std::shared_ptr<const remote_memory> memory_with(std::uint64_t version,
                                                 std::vector<bootstrap::remote_buffer> buffers) {
  bootstrap::segment s;
  s.version = version;
  s.buffers = std::move(buffers);
  return make_remote_memory(1, s);
}

bootstrap::remote_buffer entry(std::uint64_t id, std::uint64_t addr, std::uint64_t length,
                               std::uint32_t key) {
  bootstrap::remote_buffer b;
  b.id = id;
  b.addr = addr;
  b.length = length;
  b.rkeys = {key};
  return b;
}

struct fixture : indifferent_owner {
  fixture() {
    config.slice_bytes = 100;
    config.send_queue_depth = 64;
    queue.add_slot(0, 0);
    queue.set_usable(0, true, 1);
    buffer->length = 1 << 20;
    buffer->devices = 1;
    buffer->lkeys = {7};
  }
  std::shared_ptr<batch_state> submit(const std::shared_ptr<const remote_memory>& target,
                                      std::uint64_t remote, std::uint64_t length) {
    auto b = std::make_shared<batch_state>(target, 1);
    b->locals.push_back(buffer);
    auto& t = b->transfers()[0];
    t.op = operation::read; // no remote fences: they are another test's matter
    t.remote = remote;
    t.length = length;
    t.remote_buffer = static_cast<std::uint16_t>(*target->find(remote, length));
    queue.submit(b);
    return b;
  }
  std::vector<slice> pull() {
    std::vector<slice> all;
    chunk c;
    while (c.clear(), queue.pull(c, now))
      for (std::size_t i = 0; i < c.count; ++i)
        all.push_back(c.slices[i].what);
    return all;
  }
  void end(const slice& what, wr_end how) {
    chunk c;
    c.generation = 1;
    c.add(what, how);
    queue.ended(c, now += 1us);
  }
  void keys_refused() override { ++refusals; }

  settings config;
  work_queue queue{config, *this};
  std::shared_ptr<local_buffer> buffer = std::make_shared<local_buffer>();
  base::time_point now{1s};
  int refusals = 0;
};

} // namespace

TEST_CASE("no slice crosses the border of a region, and each carries the keys of its own") {
  fixture f;
  f.buffer->length = 400;
  f.buffer->chunk_bytes = 130;
  f.buffer->lkeys = {70, 71, 72, 73};
  const auto target = memory_with(1, {entry(1, base_addr, 150, 10), entry(1, base_addr + 150, 150, 11),
                                      entry(1, base_addr + 300, 90, 12)});
  REQUIRE(target->ranges.size() == 1);
  const auto b = f.submit(target, base_addr + 40, 350);
  std::uint64_t next = 0;
  std::vector<std::uint64_t> cuts;
  for (const auto& s : f.pull()) {
    CHECK(s.offset == next);
    const auto local = s.offset;
    const auto remote = s.offset + 40;
    CHECK(local / 130 == (local + s.length - 1) / 130);
    CHECK(remote / 150 == (remote + s.length - 1) / 150);
    CHECK(s.lkey == 70 + local / 130);
    CHECK(s.rkey == 10 + remote / 150);
    next += s.length;
    cuts.push_back(next);
    f.end(s, wr_end::success);
  }
  CHECK(cuts == std::vector<std::uint64_t>{100, 110, 130, 230, 260, 350});
  CHECK(b->result(0).status == transfer_status::completed);
}

TEST_CASE(
    "a refused key holds what uses the range, until the peer's memory was read again, and nothing else") {
  fixture f;
  const auto old = memory_with(1, {entry(1, base_addr, 1000, 10), entry(2, 0x90000, 1000, 20)});
  const auto revoked = f.submit(old, base_addr, 300);
  auto posted = f.pull();
  REQUIRE(posted.size() == 3);
  const auto beside = f.submit(old, 0x90000, 100);
  const auto later = f.submit(old, base_addr + 500, 100);
  f.end(posted[0], wr_end::no_access);
  CHECK(f.refusals == 1);
  f.end(posted[1], wr_end::flushed);
  const auto meanwhile = f.pull();
  REQUIRE(meanwhile.size() == 1);
  CHECK(meanwhile[0].rkey == 20);
  f.end(meanwhile[0], wr_end::success);
  CHECK(beside->result(0).status == transfer_status::completed);
  const auto now = memory_with(2, {entry(9, base_addr, 1000, 30), entry(2, 0x90000, 1000, 20)});
  CHECK(f.queue.refreshed(now) == 2);
  f.end(posted[2], wr_end::no_access); // with the old key: the new one is known already
  CHECK(f.refusals == 1);
  const auto again = f.pull();
  REQUIRE(again.size() == 4);
  for (const auto& s : again) {
    CHECK(s.rkey == 30);
    f.end(s, wr_end::success);
  }
  CHECK(revoked->result(0).status == transfer_status::completed);
  CHECK(revoked->result(0).bytes == 300);
  CHECK(later->result(0).status == transfer_status::completed);
}

TEST_CASE(
    "a range that is gone, a key that is refused although it is published, and silence each end it once") {
  struct {
    const char* what;
    std::vector<bootstrap::remote_buffer> now;
    base::reason expected;
  } const cases[] = {
      {"gone", {entry(2, 0x90000, 1000, 20)}, base::reason::not_found},
      {"nothing is published", {}, base::reason::not_found},
      {"shorter", {entry(9, base_addr, 100, 30)}, base::reason::not_found},
      {"the same key", {entry(1, base_addr, 1000, 10)}, base::reason::request_fault},
  };
  for (const auto& c : cases) {
    CAPTURE(c.what);
    fixture f;
    const auto old = memory_with(1, {entry(1, base_addr, 1000, 10)});
    const auto b = f.submit(old, base_addr, 300);
    const auto posted = f.pull();
    f.end(posted[0], wr_end::no_access);
    f.end(posted[1], wr_end::flushed);
    CHECK(f.queue.refreshed(memory_with(2, c.now)) == 0);
    CHECK(b->result(0).status == transfer_status::pending); // a WR is still out
    f.end(posted[2], wr_end::no_access);
    CHECK(f.refusals == 1);
    CHECK(b->result(0).status == transfer_status::failed);
    CHECK(b->result(0).cause == c.expected);
    CHECK(f.pull().empty());
    CHECK(f.queue.open_batches() == 0);
  }
  fixture f;
  const auto b = f.submit(memory_with(1, {entry(1, base_addr, 1000, 10)}), base_addr, 100);
  f.end(f.pull().at(0), wr_end::no_access);
  f.queue.refresh_failed(base::reason::peer_silent);
  CHECK(b->result(0).cause == base::reason::peer_silent);
  CHECK(f.queue.open_batches() == 0);
}

TEST_CASE("a held batch can be stopped") {
  fixture f;
  const auto b = f.submit(memory_with(1, {entry(1, base_addr, 1000, 10)}), base_addr, 1000);
  const auto posted = f.pull();
  for (const auto& s : posted)
    f.end(s, s.offset == 0 ? wr_end::no_access : wr_end::flushed);
  CHECK(!f.queue.stop(*b, transfer_status::cancelled, base::reason::cancelled));
  CHECK(b->result(0).status == transfer_status::cancelled);
  CHECK(f.queue.waiting_slices() == 0);
  CHECK(f.queue.refreshed(memory_with(2, {})) == 0);
}

TEST_CASE("keys that the peer publishes anew by itself are used at once, also for what was cut before") {
  fixture f;
  const auto old = memory_with(1, {entry(1, base_addr, 1000, 10), entry(2, 0x90000, 1000, 20)});
  f.queue.published(old);
  f.config.send_queue_depth = 2;
  const auto b = f.submit(old, base_addr, 400);
  const auto posted = f.pull();
  REQUIRE(posted.size() == 2);
  const auto now = memory_with(2, {entry(1, base_addr, 1000, 30), entry(2, 0x90000, 1000, 20)});
  f.queue.published(now);
  f.end(posted[0], wr_end::flushed); // their device was lost
  f.end(posted[1], wr_end::flushed);
  for (auto next = f.pull(); !next.empty(); next = f.pull())
    for (const auto& s : next) {
      CHECK(s.rkey == 30);
      f.end(s, wr_end::success);
    }
  CHECK(b->result(0).status == transfer_status::completed);
  CHECK(f.refusals == 0);
  const auto late = f.submit(old, base_addr + 100, 100); // made from what was known before
  const auto slices = f.pull();
  REQUIRE(slices.size() == 1);
  CHECK(slices[0].rkey == 30);
}

TEST_CASE("what a publication says of other ranges, or no more, leaves open batches as they are") {
  fixture f;
  const auto old = memory_with(1, {entry(1, base_addr, 1000, 10), entry(2, 0x90000, 1000, 20)});
  f.queue.published(old);
  const auto b = f.submit(old, base_addr, 100);
  SUBCASE("the range is gone, and another one has new keys") {
    f.queue.published(memory_with(2, {entry(2, 0x90000, 1000, 40)}));
  }
  SUBCASE("the range was registered anew") {
    f.queue.published(memory_with(2, {entry(3, base_addr, 1000, 30), entry(2, 0x90000, 1000, 40)}));
  }
  SUBCASE("nothing that was known has another key") {
    f.queue.published(memory_with(
        2, {entry(1, base_addr, 1000, 10), entry(2, 0x90000, 1000, 20), entry(5, 0x80000, 1000, 50)}));
  }
  const auto slices = f.pull();
  REQUIRE(slices.size() == 1);
  CHECK(slices[0].rkey == 10); // the device decides
}
