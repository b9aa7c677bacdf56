// SPDX-License-Identifier: Apache-2.0
// E-16 in the work queue: a device that does not reach some memory costs one attempt and is avoided for that
// memory alone; a request that is wrong by itself is tried once for each device, fails, and leaves no trace.
#include "actors/work_queue.hpp"
#include "actors/work_queue_rig.hpp"

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace actor_rdma::actors;
using namespace std::chrono_literals;

namespace {

/// Four rails, device i to device i, two buffers of ours and two ranges of the peer's. What devices do with
/// what is posted is said by `verdict`.
struct fixture : indifferent_owner {
  fixture() {
    config.slice_bytes = 100;
    config.send_queue_depth = 4;
    for (std::uint16_t i = 0; i < 4; ++i)
      queue.set_usable(queue.add_slot(i, i), true, 1);
    for (std::uint64_t i = 0; i < 2; ++i) {
      auto& b = buffers[i] = std::make_shared<local_buffer>();
      b->id = 1 + i;
      b->length = 1 << 20;
      b->devices = 4;
      b->lkeys = {1, 2, 3, 4};
      bootstrap::remote_buffer r;
      r.id = 11 + i;
      r.addr = i << 20;
      r.length = 1 << 20;
      r.rkeys = {5, 6, 7, 8};
      published.buffers.push_back(r);
    }
    published.version = 1;
    target = make_remote_memory(1, published);
    queue.published(target);
  }
  ~fixture() { queue.stop_all(transfer_status::cancelled, base::reason::cancelled); }
  std::shared_ptr<batch_state> submit(const std::vector<std::uint64_t>& lengths, std::uint16_t local = 0,
                                      std::uint16_t remote = 0) {
    auto b = std::make_shared<batch_state>(target, lengths.size());
    b->submitted = now;
    b->locals = {buffers[0], buffers[1]};
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      auto& t = b->transfers()[i];
      t.op = operation::read;
      t.local = i * 4096;
      t.remote = target->ranges[remote].addr + i * 4096;
      t.length = lengths[i];
      t.local_buffer = local;
      t.remote_buffer = remote;
    }
    queue.submit(b);
    return b;
  }
  /// As QPs do it: what stands behind an error on one QP is flushed, and the QP is another one then.
  void run(int rounds = 100) {
    chunk c;
    while (rounds-- > 0 && (c.clear(), queue.pull(c, now))) {
      posted[c.slot] += c.count;
      bool broken = false;
      for (std::size_t i = 0; i < c.count; ++i) {
        auto& e = c.slices[i];
        e.end = broken ? wr_end::flushed : verdict(c.slot, e.what);
        broken = broken || e.end != wr_end::success;
      }
      if (broken)
        ++errors[c.slot];
      queue.ended(c, now += 1us);
      if (std::exchange(asked, false)) {
        published.version++;
        queue.refreshed(target = make_remote_memory(1, published));
      }
    }
  }
  int all_errors() {
    int n = 0;
    for (const auto& [slot, count] : std::exchange(errors, {}))
      n += count;
    return n;
  }
  void keys_refused() override { asked = true; }
  void source_barred(const refusal_budget::source&, base::time_point) override { ++bars; }
  void pair_avoided(const reach::pair& p, base::time_point at) override {
    avoided.push_back(p);
    retry_at = at;
  }
  void pair_works(const reach::pair& p) override { works.push_back(p); }

  settings config;
  work_queue queue{config, *this};
  std::shared_ptr<local_buffer> buffers[2];
  bootstrap::segment published;
  std::shared_ptr<const remote_memory> target;
  std::function<wr_end(slot_id, const slice&)> verdict = [](slot_id, const slice&) {
    return wr_end::success;
  };
  std::map<slot_id, int> posted;
  std::map<slot_id, int> errors;
  std::vector<reach::pair> avoided;
  std::vector<reach::pair> works;
  base::time_point retry_at{};
  bool asked = false;
  int bars = 0;
  base::time_point now{1s};
};

bool names_buffer(const slice& s, std::uint16_t local) {
  return s.item->local_buffer == local;
}

/// Our device 3 does not reach our buffer 1 (id 2).
wr_end no_way_3_to_1(slot_id slot, const slice& s) {
  return slot == 3 && names_buffer(s, 1) ? wr_end::no_reach : wr_end::success;
}

} // namespace

TEST_CASE("E-16: memory that one device does not reach goes by the others, after one error") {
  fixture f;
  f.verdict = no_way_3_to_1;
  const auto b = f.submit({2000}, 1);
  const auto other = f.submit({2000}, 0);
  f.run();
  CHECK(b->result(0).status == transfer_status::completed);
  CHECK(other->result(0).status == transfer_status::completed);
  CHECK(f.errors == std::map<slot_id, int>{{3, 1}});
  REQUIRE(f.avoided.size() == 1);
  CHECK(f.avoided[0].whose == reach::side::ours);
  CHECK(f.avoided[0].device == 3);
  CHECK(f.avoided[0].buffer == 2);
  CHECK(f.retry_at >= f.now + f.config.reach_retry / 2 - 1ms);
  CHECK(f.retry_at <= f.now + f.config.reach_retry);
  f.posted.clear();
  f.submit({2000}, 1);
  f.run();
  CHECK(f.posted.count(3) == 0);
  f.submit({2000}, 0); // other memory uses it
  f.run();
  CHECK(f.posted[3] > 0);
  CHECK(f.bars == 0);
}

TEST_CASE("E-16: the pair is tried again by one slice, later each time, and used again when that succeeds") {
  fixture f;
  f.verdict = no_way_3_to_1;
  f.submit({2000}, 1);
  f.run();
  auto pause = f.retry_at - f.now;
  for (int i = 0; i < 3; ++i) {
    f.now = f.retry_at;
    f.all_errors();
    f.posted.clear();
    const auto b = f.submit({2000}, 1);
    f.run();
    CHECK(b->result(0).status == transfer_status::completed);
    CHECK(f.posted[3] == 1);
    CHECK(f.errors == std::map<slot_id, int>{{3, 1}});
    CHECK(f.retry_at - f.now > pause * 5 / 4);
    pause = f.retry_at - f.now;
  }
  CHECK(f.avoided.size() == 4);
  f.verdict = [](slot_id, const slice&) { return wr_end::success; };
  f.now = f.retry_at;
  f.submit({4000}, 1);
  f.run();
  REQUIRE(f.works.size() == 1);
  CHECK(f.works[0].device == 3);
  f.posted.clear();
  f.submit({4000}, 1);
  f.run();
  CHECK(f.posted[3] > 1);
}

TEST_CASE("E-16: a pair that may be tried again is, also if its rail is the last that would get anything") {
  fixture f;
  f.verdict = no_way_3_to_1;
  f.submit({2000}, 1);
  f.run();
  f.verdict = [](slot_id, const slice&) { return wr_end::success; };
  f.submit({400}, 0);
  chunk busy; // its rail is the fullest
  while (f.queue.pull(busy, f.now) && busy.slot != 3) {
    f.queue.ended(busy, f.now += 1us);
    busy.clear();
  }
  REQUIRE(busy.slot == 3);
  f.now = f.retry_at;
  f.posted.clear();
  f.submit({100}, 1);
  f.run();
  CHECK(f.posted[3] == 1);
  CHECK(f.works.size() == 1);
  f.queue.ended(busy, f.now);
}

TEST_CASE("E-16: memory of the peer that one of its devices does not reach goes by the others") {
  fixture f;
  f.verdict = [](slot_id slot, const slice& s) {
    return slot == 2 && s.item->remote_buffer == 1 ? wr_end::no_access : wr_end::success;
  };
  const auto b = f.submit({2000}, 0, 1);
  f.run();
  CHECK(b->result(0).status == transfer_status::completed);
  CHECK(f.errors == std::map<slot_id, int>{{2, 1}});
  REQUIRE(f.avoided.size() == 1);
  CHECK(f.avoided[0].whose == reach::side::peers);
  CHECK(f.avoided[0].device == 2);
  CHECK(f.avoided[0].buffer == 12);
  f.posted.clear();
  f.submit({2000}, 1, 1);
  f.run();
  CHECK(f.posted.count(2) == 0);
  SUBCASE("until it registers it anew") {
    f.published.buffers[1].rkeys[2] = 77;
    ++f.published.version;
    f.queue.published(f.target = make_remote_memory(1, f.published));
  }
  SUBCASE("and another process of it is another matter") {
    ++f.published.version;
    f.queue.published(f.target = make_remote_memory(2, f.published));
  }
  f.verdict = [](slot_id, const slice&) { return wr_end::success; };
  f.posted.clear();
  f.submit({4000}, 0, 1);
  f.run();
  CHECK(f.posted[2] > 1);
}

TEST_CASE("E-16: a request that no device takes is tried on each once, fails, and no pair is blamed") {
  for (const auto how : {wr_end::no_reach, wr_end::no_access}) {
    CAPTURE(static_cast<int>(how));
    fixture f;
    f.verdict = [&](slot_id, const slice& s) { return s.length == 66 ? how : wr_end::success; };
    const auto bad = f.submit({66});
    const auto good = f.submit({3000});
    f.run();
    CHECK(bad->result(0).status == transfer_status::failed);
    CHECK(bad->result(0).cause == base::reason::request_fault);
    CHECK(good->result(0).status == transfer_status::completed);
    CHECK(f.all_errors() == 4);
    CHECK(f.avoided.empty());
    f.posted.clear();
    f.submit({4000});
    f.run();
    CHECK(f.posted.size() == 4);
  }
}

TEST_CASE("E-16: a source of requests that no device takes is barred, and others of its devices go on") {
  fixture f;
  f.verdict = [&](slot_id, const slice& s) { return s.length == 66 ? wr_end::no_reach : wr_end::success; };
  for (int i = 0; i < 20; ++i) {
    const auto bad = f.submit({66, 66});
    const auto other = f.submit({1000}, 1, 1);
    f.run();
    CHECK(bad->result(1).cause == base::reason::request_fault);
    CHECK(other->result(0).status == transfer_status::completed);
  }
  CHECK(f.bars == 1);
  CHECK(f.all_errors() <= 3 * 4);
}

TEST_CASE("E-16: requests that are stopped before their fault is known are charged all the same") {
  fixture f;
  f.verdict = [&](slot_id, const slice& s) { return s.length == 66 ? wr_end::no_reach : wr_end::success; };
  for (int i = 0; i < 20; ++i) {
    const auto bad = f.submit({66});
    chunk c;
    if (!f.queue.pull(c, f.now))
      break;
    f.queue.stop(*bad, transfer_status::cancelled, base::reason::cancelled);
    c.slices[0].end = wr_end::no_reach;
    f.queue.ended(c, f.now += 1us);
    CHECK(bad->result(0).status == transfer_status::cancelled);
    CHECK(i < 3);
  }
  CHECK(f.bars == 1);
}

TEST_CASE("E-16: the wrong one of several in a slice fails alone, also where there is one device only") {
  for (const bool has_one_rail : {false, true}) {
    CAPTURE(has_one_rail);
    fixture f;
    for (slot_id s = 1; has_one_rail && s < 4; ++s)
      f.buffers[0]->lkeys.set(s, 0);
    f.config.slice_bytes = 10000;
    const auto b = f.submit({10, 10, 10, 10});
    for (std::size_t i = 0; i < 4; ++i) { // side by side
      b->transfers()[i].local = i * 10;
      b->transfers()[i].remote = i * 10;
    }
    f.verdict = [&](slot_id, const slice& s) {
      bool has_bad = false;
      s.each([&](const transfer& t, std::uint64_t) { has_bad = has_bad || &t == &b->transfers()[2]; });
      return has_bad ? wr_end::no_reach : wr_end::success;
    };
    f.run();
    for (std::size_t i = 0; i < 4; ++i)
      CHECK(b->result(i).status == (i == 2 ? transfer_status::failed : transfer_status::completed));
    CHECK(f.all_errors() <= (has_one_rail ? 2 : 5));
    CHECK(f.avoided.empty());
  }
}

TEST_CASE("E-16: while the other rails rest the slices wait for them, or until the pair may be tried") {
  fixture f;
  f.verdict = no_way_3_to_1;
  f.submit({2000}, 1);
  f.run();
  f.all_errors();
  for (slot_id s = 0; s < 3; ++s)
    f.queue.set_usable(s, false, 1);
  const auto b = f.submit({1000}, 1);
  f.run();
  CHECK(f.all_errors() == 0);
  CHECK_FALSE(b->done());
  CHECK(f.queue.next_try() == f.retry_at);
  CHECK(f.queue.lacks_keys(*b));
  SUBCASE("a rail is back") {
    f.queue.set_usable(1, true, 2);
  }
  SUBCASE("its time has come") {
    f.now = f.retry_at;
    f.queue.keys_made();
    SUBCASE("in vain") {
      f.run();
      CHECK(f.all_errors() == 1);
      CHECK_FALSE(b->done());
      CHECK(f.queue.next_try() == f.retry_at);
      f.queue.set_usable(0, true, 2);
    }
    SUBCASE("with success") {
      f.verdict = [](slot_id, const slice&) { return wr_end::success; };
    }
  }
  f.run();
  CHECK(b->result(0).status == transfer_status::completed);
  CHECK(f.queue.next_try() == base::time_point::max());
}

TEST_CASE(
    "E-16: if the others lose the memory for good, the pair is tried at once, and the request fails soon") {
  fixture f;
  f.verdict = no_way_3_to_1;
  f.submit({2000}, 1);
  f.run();
  f.all_errors();
  for (std::size_t s = 0; s < 3; ++s)
    f.buffers[1]->lkeys.set(s, 0);
  const auto b = f.submit({1000}, 1);
  f.run();
  CHECK(b->result(0).cause == base::reason::request_fault);
  CHECK(f.all_errors() <= 3);
  f.verdict = [](slot_id, const slice&) { return wr_end::success; };
  const auto later = f.submit({1000}, 1);
  f.run();
  CHECK(later->result(0).status == transfer_status::completed);
}

TEST_CASE("E-16: a slice that was suspected is given to nobody who refused it, and ends once") {
  fixture f;
  const auto b = f.submit({50});
  chunk c;
  REQUIRE(f.queue.pull(c, f.now));
  auto& first = c.slices[0].what;
  chunk copy;
  copy.slot = c.slot;
  copy.generation = 1;
  auto other = again(first);
  other.avoid = c.slot;
  copy.add(other, wr_end::flushed);
  f.queue.set_usable(c.slot, false, 1);
  f.queue.suspected(copy);
  chunk second;
  REQUIRE(f.queue.pull(second, f.now));
  CHECK(second.slot != c.slot);
  second.slices[0].end = wr_end::no_reach;
  f.queue.ended(second, f.now += 1us);
  CHECK_FALSE(b->done()); // the first WR of it may still succeed
  c.slices[0].end = wr_end::success;
  f.queue.ended(c, f.now += 1us);
  CHECK(b->result(0).status == transfer_status::completed);
  CHECK(b->result(0).bytes == 50);
}
