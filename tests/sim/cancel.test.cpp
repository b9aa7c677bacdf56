// SPDX-License-Identifier: Apache-2.0
// J-05: what cancelling tells, and that it never tells it early: not begun, or stopped and quiet, or
// complete.
#include "tests/sim/load.hpp"

#include <algorithm>
#include <cstring>

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t bytes = 8u << 20;

/// A READ of 8 MiB from b into memory of a.
class read_rig {
public:
  explicit read_rig(std::uint64_t seed) : c(seed) {
    sim::node_options how;
    how.devices = 1;
    how.config.send_queue_depth = 4; // so that much of it is not posted when it is cancelled
    how.config.slice_bytes = 64 * 1024;
    how.nic.mode = verbs::soft::nic_mode::paced;
    how.name = "a";
    a = &c.add(how);
    how.name = "b";
    b = &c.add(how);
    here = a->memory(bytes, false);
    there = b->memory(bytes);
    std::memset(reinterpret_cast<void*>(there->addr), 0x33, bytes);
    peer = *a->connect(*b);
    c.world().run_until([&] { return sim::activations(*a) == 2; }, c.now() + 1s);
  }
  std::shared_ptr<actors::batch_state> read() {
    return *a->submit(peer, {{operation::read, reinterpret_cast<void*>(here->addr), there->addr, bytes}},
                      20s);
  }
  bool finish(const actors::batch_state& batch) {
    return c.world().run_until([&] { return batch.done(); }, c.now() + 5s);
  }
  void cancel(const std::shared_ptr<actors::batch_state>& batch) { actors::engine::cancel_at(peer, batch); }
  void fill(unsigned char with) { std::memset(reinterpret_cast<void*>(here->addr), with, bytes); }
  std::size_t holding(unsigned char value) const {
    const auto* p = reinterpret_cast<const unsigned char*>(here->addr);
    return static_cast<std::size_t>(std::count(p, p + bytes, value));
  }

  sim::cluster c;
  sim::machine* a = nullptr;
  sim::machine* b = nullptr;
  std::shared_ptr<actors::local_buffer> here;
  std::shared_ptr<actors::local_buffer> there;
  actors::peer_ref peer;
};

} // namespace

TEST_CASE(
    "J-05: a READ that is cancelled under way is told when it is quiet, and its memory can go at once") {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    CAPTURE(seed);
    read_rig r(seed);
    const bool hangs = seed % 2 == 0;
    r.fill(0);
    const auto batch = r.read();
    if (hangs)
      REQUIRE(r.c.fabric().set_hang("a/soft0", true));
    else
      r.c.world().run_until([&] { return r.holding(0x33) > 8192; }, r.c.now() + 1s);
    r.c.world().run_for(100us);
    r.cancel(batch);
    REQUIRE(r.finish(*batch));
    const auto end = batch->result(0);
    CHECK(end.status == transfer_status::cancelled);
    CHECK(end.started);
    CHECK(end.bytes < bytes);
    r.a->deregister(r.here);
    r.fill(0xee);
    r.c.world().run_for(1s);
    CHECK(r.holding(0xee) == bytes);
  }
}

TEST_CASE(
    "J-05: a READ that is cancelled before it has begun says so, and one that was complete stays complete") {
  read_rig r(1);
  r.fill(0);
  REQUIRE(r.c.fabric().set_link("a/soft0", false));
  r.c.world().run_for(5ms); // no rail
  const auto early = r.read();
  r.c.world().run_for(5ms);
  r.cancel(early);
  REQUIRE(r.finish(*early));
  CHECK(early->result(0).status == transfer_status::cancelled);
  CHECK_FALSE(early->result(0).started);
  CHECK(early->result(0).bytes == 0);
  REQUIRE(r.c.fabric().set_link("a/soft0", true));
  r.c.world().run_for(1s);
  CHECK(r.holding(0) == bytes);

  const auto whole = r.read();
  REQUIRE(r.finish(*whole));
  r.cancel(whole);
  r.c.world().run_for(10ms);
  CHECK(whole->result(0).status == transfer_status::completed);
  CHECK(r.holding(0x33) == bytes);
}

TEST_CASE("J-05: memory of a READ under way is refused to go, or goes when nothing lands in it any more") {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    CAPTURE(seed);
    read_rig r(seed);
    r.fill(0);
    const auto batch = r.read();
    r.c.world().run_for(300us);
    std::optional<base::expected<void>> refused;
    r.a->engine().deregister_memory(r.here, true, 1s, [&](auto outcome) { refused = std::move(outcome); });
    REQUIRE(r.c.world().run_until([&] { return refused.has_value(); }, r.c.now() + 1s));
    REQUIRE_FALSE(refused->has_value());
    CHECK(refused->error().why == base::reason::busy);
    CHECK_FALSE(batch->done());
    r.a->deregister(r.here); // waits
    CHECK(batch->done());
    CHECK(batch->result(0).status == transfer_status::cancelled);
    r.fill(0xee);
    r.c.world().run_for(1s);
    CHECK(r.holding(0xee) == bytes);
  }
}
