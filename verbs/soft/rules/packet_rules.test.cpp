// SPDX-License-Identifier: Apache-2.0
//
// Rules about packets of work requests and their acknowledgements, in virtual time.
#include "verbs/soft/testing/ruled_rig.hpp"

#include <chrono>
#include <string>

using namespace actor_rdma;
using namespace actor_rdma::verbs;
using namespace actor_rdma::verbs::soft;
using namespace actor_rdma::verbs::soft::testing;
using namespace std::chrono_literals;

TEST_CASE("a packet that a rule drops is sent again after the acknowledge time-out") {
  for (const auto mode : {nic_mode::paced, nic_mode::immediate}) {
    ruled_rig rig{mode};
    const auto id = rig.rule("dev=a/soft0 peer=b op=write nth=2 do=drop");
    for (std::uint64_t i = 0; i < 4; ++i)
      rig.write(i);
    rig.run_for(retry_time / 2 - 1ms);
    CHECK(rig.a->poll().size() == 1);
    CHECK(rig.landed(0));
    CHECK(!rig.landed(1));
    CHECK(!rig.landed(3)); // what follows is behind a gap
    rig.run_for(2ms);
    CHECK(rig.a->poll().size() == 3);
    CHECK(rig.landed(1));
    CHECK(rig.landed(3));
    CHECK(rig.hits(id) == 1);
    CHECK(rig.verdicts() == std::vector<std::string>{"drop write 1"});
  }
}

TEST_CASE("a direction that loses everything ends in retry-exceeded, and the other one goes on") {
  ruled_rig rig;
  rig.rule("dev=a peer=b do=drop");
  rig.write(0);
  CHECK(rig.b->write(7, rig.a->where(), 4096, 4096, 64) == 0);
  rig.run_for(retry_time + 1ms);
  CHECK(rig.a->poll().at(0).status == IBV_WC_RETRY_EXC_ERR);
  CHECK(rig.b->poll().at(0).status == IBV_WC_SUCCESS);
}

TEST_CASE("a one-way loss of all packets takes acknowledgements of the other way's requests too") {
  ruled_rig rig;
  rig.rule("dev=a dir=tx do=drop");
  fill(rig.b->memory, 64, 9);
  CHECK(rig.b->write(7, rig.a->where(), 0, 0, 64) == 0);
  rig.run_for(1ms);
  CHECK(arrived(*rig.b, *rig.a, 0, 64)); // it landed, b only never hears of it
  rig.run_for(retry_time);
  CHECK(rig.b->poll().at(0).status == IBV_WC_RETRY_EXC_ERR);
}

TEST_CASE("a lost acknowledgement is covered by the next one") {
  ruled_rig rig;
  rig.rule("dev=a dir=ack nth=1 do=drop");
  rig.write(0);
  rig.run_for(1ms);
  CHECK(rig.landed(0));
  CHECK(rig.a->poll().empty());
  rig.write(1);
  rig.run_for(1ms);
  const auto wcs = rig.a->poll();
  REQUIRE(wcs.size() == 2);
  CHECK(wcs[0].wr_id == 0);
  CHECK(wcs[1].wr_id == 1);
}

TEST_CASE("a lost acknowledgement that nothing covers is asked for again, and the payload lands once") {
  ruled_rig rig;
  rig.rule("dev=a dir=ack nth=1 do=drop");
  rig.write(0);
  rig.run_for(1ms);
  CHECK(rig.landed(0));
  rig.b->memory[0] = std::byte{0xee}; // whoever owns the memory now
  rig.run_for(retry_time / 2 - 2ms);
  CHECK(rig.a->poll().empty());
  rig.run_for(2ms);
  CHECK(rig.a->poll().at(0).status == IBV_WC_SUCCESS);
  CHECK(rig.b->memory[0] == std::byte{0xee});
}

TEST_CASE("acknowledgements that never come end in retry-exceeded though all payload landed") {
  ruled_rig rig;
  rig.rule("dev=a dir=ack do=drop");
  for (std::uint64_t i = 0; i < 3; ++i)
    rig.write(i);
  rig.run_for(1ms);
  CHECK(rig.landed(2));
  rig.run_for(retry_time - 2ms);
  CHECK(rig.a->poll().empty());
  rig.run_for(2ms);
  const auto wcs = rig.a->poll();
  REQUIRE(wcs.size() == 3);
  CHECK(wcs[0].status == IBV_WC_RETRY_EXC_ERR);
  CHECK(wcs[2].status == IBV_WC_WR_FLUSH_ERR);
  CHECK(rig.b->state() == IBV_QPS_RTS);
}

TEST_CASE("an answer of a read that is lost is asked for again") {
  ruled_rig rig;
  fill(rig.b->memory, 64, 5);
  rig.rule("dev=a dir=ack op=read first=1 do=drop");
  CHECK(rig.a->read(1, rig.b->where(), 0, 0, 64) == 0);
  rig.run_for(1ms);
  CHECK(!arrived(*rig.a, *rig.b, 0, 64));
  rig.run_for(retry_time / 2);
  CHECK(rig.a->poll().at(0).status == IBV_WC_SUCCESS);
  CHECK(arrived(*rig.a, *rig.b, 0, 64));
}

TEST_CASE("a rule delays packets one way and acknowledgements the other") {
  ruled_rig rig;
  rig.rule("dev=a nth=1 do=delay:20ms");
  rig.rule("dev=a dir=ack nth=2 do=delay:30ms");
  rig.write(0);
  rig.run_for(19ms);
  CHECK(!rig.landed(0));
  rig.run_for(2ms);
  CHECK(rig.landed(0));
  CHECK(rig.a->poll().size() == 1);
  rig.write(1);
  rig.run_for(29ms);
  CHECK(rig.landed(1));
  CHECK(rig.a->poll().empty());
  rig.run_for(2ms);
  CHECK(rig.a->poll().size() == 1);
}

TEST_CASE("a duplicate that comes late does not land again") {
  ruled_rig rig;
  rig.rule("dev=a nth=1 do=duplicate:5ms");
  rig.write(0);
  rig.run_for(1ms);
  CHECK(rig.a->poll().size() == 1);
  rig.b->memory[0] = std::byte{0xee};
  rig.run_for(10ms);
  CHECK(rig.b->memory[0] == std::byte{0xee});
  CHECK(rig.count(log_kind::dropped_late) == 1);
  CHECK(rig.count(log_kind::landed_late) == 0);
}

TEST_CASE("payload in disorder is visible in part before its completion, and whole with it") {
  ruled_rig rig;
  rig.rule("dev=a nth=1 do=reorder:10ms");
  rig.write(0, 64 * 4096);
  bool is_in_order = true;
  std::size_t seen = 0;
  for (int ms = 0; ms < 11; ++ms) {
    rig.run_for(1ms);
    std::size_t pieces = 0;
    for (std::size_t i = 0; i < 64; ++i) {
      const bool is_there = arrived(*rig.a, *rig.b, i * 4096, 4096);
      pieces += is_there ? 1 : 0;
      is_in_order &= is_there == (i < pieces);
    }
    CHECK(pieces >= seen);
    seen = pieces;
    CHECK((rig.a->poll().empty() || pieces == 64));
  }
  CHECK(seen == 64);
  CHECK(!is_in_order);
  rig.write(1);
  rig.run_for(1ms);
  CHECK(rig.a->poll().at(0).status == IBV_WC_SUCCESS); // sequence numbers went on as they should
}

TEST_CASE("requests behind a payload in disorder wait for it, and are not sent again") {
  ruled_rig rig;
  rig.rule("dev=a do=reorder:10ms");
  for (std::uint64_t slot = 0; slot < 3; ++slot)
    rig.write(slot, 4 * 4096);
  rig.run_for(29ms);
  CHECK(rig.a->poll().size() == 2);
  rig.run_for(2ms);
  CHECK(rig.a->poll().size() == 1);
  CHECK(rig.count(log_kind::dropped_late) == 0);
}

TEST_CASE("a rule that does not concern a read costs it no time") {
  const auto time_of_read = [](const std::string& rule) {
    ruled_rig rig;
    if (!rule.empty())
      rig.rule(rule);
    const auto begin = rig.clock.now();
    CHECK(rig.a->read(1, rig.b->where(), 0, 0, 256U << 10) == 0);
    while (rig.a->poll().empty() && rig.clock.now() < begin + 1s) {
      const auto next = rig.net->next_event();
      REQUIRE(next);
      rig.run_until(*next);
    }
    return rig.clock.now() - begin;
  };
  CHECK(time_of_read("dev=a op=write do=drop") == time_of_read(""));
}
