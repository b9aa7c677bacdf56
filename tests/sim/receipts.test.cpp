// SPDX-License-Identifier: Apache-2.0
// Receipts of transfers, held against what the devices counted themselves.
#include "tests/sim/load.hpp"

#include <map>

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t piece = 256 * 1024;
constexpr std::size_t pieces = 16;

struct two_rails {
  sim::cluster c{1};
  sim::machine& a = c.add(sim::paced("a"));
  sim::machine& b = c.add(sim::paced("b"));
  sim::load load{c, a, b, piece, pieces, 4};
};

struct account {
  std::map<std::string, std::uint64_t> bytes; ///< by rail
  std::uint64_t issued_again = 0;
  base::duration longest{};
};

account sum_of(const actors::batch_state& batch) {
  account a;
  for (std::size_t i = 0; i < batch.transfers().size(); ++i) {
    const auto r = batch.receipt(i);
    REQUIRE(r);
    for (const auto& s : r->rails)
      a.bytes[s.rail] += s.bytes;
    a.issued_again += r->issued_again;
    a.longest = std::max(a.longest, r->queued + r->carried);
  }
  return a;
}

} // namespace

TEST_CASE("H-02: receipts say which rail carried how much, as the devices counted it") {
  two_rails on;
  auto& c = on.c;
  auto& a = on.a;
  auto& load = on.load;
  REQUIRE(load.connected());
  c.world().run_for(10ms); // what came up has sent its probes
  const std::uint64_t before[] = {state_of(c, "a/soft0").bytes_sent, state_of(c, "a/soft1").bytes_sent};
  const auto begin = c.now();
  const auto batch = load.send(1);
  REQUIRE(load.finish(*batch));
  const auto took = c.now() - begin;
  auto told = sum_of(*batch);
  CHECK(told.bytes.size() == 2);
  CHECK(told.bytes["a/soft0>b/soft0"] == state_of(c, "a/soft0").bytes_sent - before[0]);
  CHECK(told.bytes["a/soft1>b/soft1"] == state_of(c, "a/soft1").bytes_sent - before[1]);
  CHECK(told.bytes["a/soft0>b/soft0"] > 0);
  CHECK(told.bytes["a/soft1>b/soft1"] > 0);
  CHECK(told.issued_again == 0);
  CHECK(told.longest <= took);
  CHECK(told.longest > took / 2); // the last transfer was in the queue or on its way nearly all of that time
  CHECK(a.stop());
}

TEST_CASE("H-02: a receipt tells that a rail hung, and which one delivered in its place") {
  two_rails on;
  auto& c = on.c;
  auto& a = on.a;
  auto& load = on.load;
  REQUIRE(load.connected());
  REQUIRE(c.fabric().set_hang("a/soft0", true));
  const auto batch = load.send(1);
  REQUIRE(load.finish(*batch));
  CHECK(load.arrived(1));
  auto told = sum_of(*batch);
  CHECK(told.bytes["a/soft1>b/soft1"] == piece * pieces);
  CHECK(told.bytes.count("a/soft0>b/soft0") == 1);
  CHECK(told.bytes["a/soft0>b/soft0"] == 0);
  CHECK(told.issued_again > 0);
  CHECK(told.longest > 20ms); // the stall limit is in it
  REQUIRE(c.fabric().set_hang("a/soft0", false));
  CHECK(a.stop());
}
