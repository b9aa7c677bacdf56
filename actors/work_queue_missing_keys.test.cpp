// SPDX-License-Identifier: Apache-2.0
// Keys that are missing in the work queue: on rails whose devices do not have the memory nothing of it is
// posted, whoever's device it is; what no usable rail can carry waits, and keeps nothing else from its way.
#include "actors/work_queue.hpp"
#include "actors/work_queue_rig.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace actor_rdma::actors;
using namespace std::chrono_literals;

namespace {

using keys = std::vector<std::uint32_t>;

/// Three rails: device i to device i. Two ranges of the peer's and two buffers of ours.
struct fixture : indifferent_owner {
  fixture() {
    config.slice_bytes = 100;
    config.send_queue_depth = 8;
    for (std::uint16_t i = 0; i < 3; ++i)
      queue.set_usable(queue.add_slot(i, i), true, 1);
    for (auto& b : buffers) {
      b = std::make_shared<local_buffer>();
      b->length = 1 << 20;
      b->devices = 3;
      b->lkeys = {1, 1, 1};
    }
    publish({5, 5, 5}, {6, 6, 6});
  }
  ~fixture() { queue.stop_all(transfer_status::cancelled, base::reason::cancelled); }
  void publish(keys first, keys second) {
    bootstrap::segment s;
    s.version = ++version;
    bootstrap::remote_buffer b;
    b.id = 1;
    b.length = 1 << 20;
    b.rkeys = std::move(first);
    s.buffers.push_back(b);
    b.id = 2;
    b.addr = 1 << 20;
    b.rkeys = std::move(second);
    s.buffers.push_back(b);
    target = make_remote_memory(1, s);
    queue.published(target);
  }
  struct wish {
    std::uint64_t length;
    std::uint16_t local = 0;
    std::uint16_t remote = 0;
  };
  std::shared_ptr<batch_state> submit(const std::vector<wish>& what) {
    auto b = std::make_shared<batch_state>(target, what.size());
    b->locals = {buffers[0], buffers[1]};
    for (std::size_t i = 0; i < what.size(); ++i) {
      auto& t = b->transfers()[i];
      t.op = operation::read;
      t.local = i * 4096;
      t.remote = target->ranges[what[i].remote].addr + i * 4096;
      t.length = what[i].length;
      t.local_buffer = what[i].local;
      t.remote_buffer = what[i].remote;
    }
    queue.submit(b);
    return b;
  }
  /// Everything that can be pulled now, slot by slot. No slice may be without one of its keys.
  std::map<slot_id, std::vector<slice>> pull() {
    std::map<slot_id, std::vector<slice>> all;
    chunk c;
    while (c.clear(), queue.pull(c, now))
      for (std::size_t i = 0; i < c.count; ++i) {
        CHECK(c.slices[i].what.lkey != 0);
        CHECK(c.slices[i].what.rkey != 0);
        all[c.slot].push_back(c.slices[i].what);
      }
    return all;
  }
  void end(slot_id slot, const std::vector<slice>& what, wr_end how) {
    for (const auto& s : what) {
      chunk c;
      c.slot = slot;
      c.generation = 1;
      c.add(s, how);
      queue.ended(c, now += 1us);
    }
  }
  /// Posts and completes until nothing is left to post; returns the slots that were used.
  std::vector<slot_id> drain() {
    std::vector<slot_id> used;
    for (auto posted = pull(); !posted.empty(); posted = pull())
      for (const auto& [slot, what] : posted) {
        used.push_back(slot);
        end(slot, what, wr_end::success);
      }
    std::sort(used.begin(), used.end());
    used.erase(std::unique(used.begin(), used.end()), used.end());
    return used;
  }

  settings config;
  work_queue queue{config, *this};
  std::shared_ptr<local_buffer> buffers[2];
  std::shared_ptr<const remote_memory> target;
  std::uint64_t version = 0;
  base::time_point now{1s};
};

/// The slices as their QP hands them over when it is suspected.
chunk suspicion(slot_id slot, std::vector<slice>& posted) {
  chunk c;
  c.slot = slot;
  c.generation = 1;
  for (auto& s : posted) {
    auto other = again(s);
    other.avoid = slot; // device number = slot in this fixture
    c.add(other, wr_end::flushed);
  }
  return c;
}

} // namespace

TEST_CASE("E-12: slices go over the rails that have both keys, and over these only") {
  struct {
    const char* what;
    std::vector<std::uint32_t> ours;
    keys theirs;
    std::vector<slot_id> expected;
  } const cases[] = {
      {"all", {1, 1, 1}, {5, 5, 5}, {0, 1, 2}},
      {"ours is missing on one", {0, 1, 1}, {5, 5, 5}, {1, 2}},
      {"the peer's is missing on one", {1, 1, 1}, {5, 5, 0}, {0, 1}},
      {"one rail is left", {1, 1, 0}, {0, 5, 5}, {1}},
      {"the peer names fewer devices", {1, 1, 1}, {5}, {0}},
  };
  for (const auto& c : cases) {
    CAPTURE(c.what);
    fixture f;
    for (std::size_t i = 0; i < 3; ++i)
      f.buffers[0]->lkeys.set(i, c.ours[i]);
    f.publish(c.theirs, {6, 6, 6});
    const auto b = f.submit({{5000}, {60}, {60}});
    CHECK(f.drain() == c.expected);
    CHECK(b->done());
    CHECK(b->result(0).bytes == 5000);
  }
}

TEST_CASE(
    "E-12: what no usable rail can carry waits, alone, and goes on with a key of ours or of the peer's, "
    "or with a rail") {
  fixture f;
  f.buffers[0]->lkeys = {1, 0, 0};
  f.publish({0, 5, 5}, {6, 6, 6});
  const auto waits = f.submit({{100, 0, 1}, {300, 0, 0}, {100, 1, 1}, {100, 1, 0}});
  const auto behind = f.submit({{1000, 1, 1}});
  f.drain();
  CHECK(behind->done());
  CHECK(waits->result(0).status == transfer_status::completed);
  CHECK(waits->result(1).status == transfer_status::pending);
  CHECK_FALSE(waits->result(1).started);
  CHECK(waits->result(2).status == transfer_status::completed);
  CHECK(waits->result(3).status == transfer_status::completed);
  CHECK(f.queue.lacks_keys(*waits));
  SUBCASE("ours") {
    f.buffers[0]->lkeys.set(2, 1);
    CHECK(f.drain().empty()); // nobody has said so
    f.queue.keys_made();
    CHECK(f.drain() == std::vector<slot_id>{2});
  }
  SUBCASE("the peer's") {
    f.publish({5, 5, 5}, {6, 6, 6});
    CHECK(f.drain() == std::vector<slot_id>{0});
  }
  SUBCASE("a rail") {
    f.queue.set_usable(f.queue.add_slot(0, 1), true, 1);
    CHECK(f.drain() == std::vector<slot_id>{3});
  }
  CHECK(waits->done());
  CHECK(waits->result(1).bytes == 300);
}

TEST_CASE("E-12: a rail that has the keys and is not usable is waited for, and one without credit is too") {
  fixture f;
  f.buffers[0]->lkeys = {0, 1, 0};
  f.queue.set_usable(1, false, 1);
  const auto b = f.submit({{2000}});
  CHECK(f.drain().empty());
  f.queue.set_usable(1, true, 1);
  const auto first = f.pull();
  REQUIRE(first.size() == 1);
  CHECK(first.at(1).size() == f.config.send_queue_depth);
  const auto other = f.submit({{500, 1, 1}});
  const auto beside = f.pull(); // the others have room for what they have the keys of
  CHECK(beside.count(1) == 0);
  for (const auto& [slot, what] : beside)
    f.end(slot, what, wr_end::success);
  CHECK(other->done());
  CHECK_FALSE(f.queue.lacks_keys(*b));
  f.end(1, first.at(1), wr_end::success);
  CHECK(f.drain() == std::vector<slot_id>{1});
  CHECK(b->done());
}

TEST_CASE("E-12: slices that come back go to another rail that has the keys, and wait if there is none") {
  fixture f;
  f.buffers[0]->lkeys = {1, 1, 0};
  const auto b = f.submit({{400}});
  auto posted = f.pull();
  f.queue.set_usable(0, false, 1);
  for (const auto& [slot, what] : posted)
    f.end(slot, what, slot == 0 ? wr_end::flushed : wr_end::success);
  posted = f.pull();
  REQUIRE(posted.size() == 1);
  REQUIRE(posted.count(1) == 1);
  f.buffers[0]->lkeys.set(1, 0); // its device is lost
  f.queue.set_usable(1, false, 1);
  f.end(1, posted.at(1), wr_end::flushed);
  CHECK(f.drain().empty());
  CHECK(f.queue.waiting_slices() > 0);
  CHECK(f.queue.lacks_keys(*b));
  const auto other = f.submit({{100, 1, 1}});
  CHECK(f.drain() == std::vector<slot_id>{2});
  CHECK(other->done());
  f.queue.set_usable(0, true, 2);
  CHECK(f.drain() == std::vector<slot_id>{0});
  CHECK(b->done());
}

TEST_CASE("E-12: a suspect rail that alone has the keys keeps its slices until its rail has answered") {
  fixture f;
  f.buffers[0]->lkeys = {0, 1, 0};
  const auto b = f.submit({{300}});
  auto posted = f.pull();
  REQUIRE(posted.size() == 1);
  auto& out = posted.at(1);
  const auto also = f.queue.add_slot(1, 1); // another QP of the rail
  f.queue.set_usable(also, true, 1);
  f.queue.set_usable(1, false, 1);
  f.queue.suspected(suspicion(1, out), offer_to::other_devices);
  CHECK(f.pull().empty());
  f.queue.suspected(suspicion(1, out), offer_to::declined);
  auto again = f.pull();
  REQUIRE(again.size() == 1);
  CHECK(again.at(also).size() == out.size());
  f.end(also, again.at(also), wr_end::success);
  f.end(1, out, wr_end::flushed);
  CHECK(b->done());
  CHECK(b->result(0).bytes == 300);
  CHECK(f.queue.waiting_slices() == 0);
}

TEST_CASE("E-12: the deadline of what waits for keys says that it is not registered, and without rails it "
          "does not") {
  fixture f;
  f.buffers[0]->lkeys = {0, 0, 0};
  const auto b = f.submit({{300}, {100, 1, 1}});
  SUBCASE("keys") {
    f.drain();
    CHECK_FALSE(f.queue.stop(*b, transfer_status::timed_out, base::reason::timeout));
    CHECK(b->result(0).cause == base::reason::resource);
    CHECK(b->result(1).status == transfer_status::completed);
  }
  SUBCASE("cancelled") {
    f.drain();
    f.queue.stop(*b, transfer_status::cancelled, base::reason::cancelled);
    CHECK(b->result(0).cause == base::reason::cancelled);
  }
  SUBCASE("rails") {
    for (slot_id s = 0; s < 3; ++s)
      f.queue.set_usable(s, false, 1);
    f.drain();
    f.queue.stop(*b, transfer_status::timed_out, base::reason::timeout);
    CHECK(b->result(0).cause == base::reason::timeout);
    CHECK(b->result(1).cause == base::reason::timeout);
  }
  CHECK(b->done());
  CHECK(f.queue.open_batches() == 0);
}
