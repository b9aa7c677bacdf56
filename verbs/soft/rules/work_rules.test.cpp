// SPDX-License-Identifier: Apache-2.0
//
// Rules about work requests: their packets, acknowledgements and ends, in virtual time.
#include "verbs/soft/testing/rig.hpp"

#include <chrono>
#include <string>

using namespace actor_rdma;
using namespace actor_rdma::verbs;
using namespace actor_rdma::verbs::soft;
using namespace actor_rdma::verbs::soft::testing;
using namespace std::chrono_literals;

namespace {

/// 4.096 us * 2^14 * (1 + 1), as the rig's queue pairs are set up; half of it is the acknowledge time-out.
constexpr auto retry_time = 134'217'728ns;

bool arrived(const end& from, const end& to, std::size_t offset, std::size_t length) {
  return std::memcmp(from.memory + offset, to.memory + offset, length) == 0;
}

struct ruled_rig : pair_rig {
  explicit ruled_rig(nic_mode mode = nic_mode::paced, std::uint64_t seed = 1)
      : pair_rig{mode, true, {}, {}, seed} {
    fill(a->memory, buffer_bytes, 1);
  }
  std::uint32_t rule(const std::string& text) {
    const auto id = net->add_rule(text);
    REQUIRE_MESSAGE(id, (id ? "" : id.error().to_string()));
    return *id;
  }
  /// Write number `i` puts 64 bytes at 64 * i.
  void write(std::uint64_t i, std::uint32_t length = 64, bool signaled = true) {
    CHECK(a->write(i, b->where(), 64 * i, 64 * i, length, signaled) == 0);
  }
  bool landed(std::uint64_t i) const { return arrived(*a, *b, 64 * i, 64); }
  std::uint64_t hits(std::uint32_t id) const {
    for (const auto& r : net->rules())
      if (r.id == id)
        return r.hits;
    return 0;
  }
  std::vector<std::string> verdicts() const {
    std::vector<std::string> all;
    for (const auto& e : log())
      if (e.kind == log_kind::rule)
        all.push_back(e.verdict + ' ' + e.op + ' ' + std::to_string(e.wr));
    return all;
  }
};

int to_error(end& e) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  const auto done = e.qp.modify(attr, IBV_QP_STATE);
  return done ? 0 : done.error().sys_errno;
}

} // namespace

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

TEST_CASE("a work request ends with the status that a rule says, and nothing lands unless it says so") {
  ruled_rig rig;
  SUBCASE("an error") {
    rig.rule("dev=a op=write nth=3 do=status:REM_ACCESS_ERR,garbage");
    for (std::uint64_t i = 0; i < 5; ++i)
      rig.write(i);
    rig.run_for(1ms);
    const auto wcs = rig.a->poll();
    REQUIRE(wcs.size() == 5);
    CHECK(wcs[1].status == IBV_WC_SUCCESS);
    CHECK(wcs[2].status == IBV_WC_REM_ACCESS_ERR);
    CHECK(wcs[2].wr_id == 2);
    CHECK(wcs[2].vendor_err != 0x500 + IBV_WC_REM_ACCESS_ERR);
    CHECK(wcs[3].status == IBV_WC_WR_FLUSH_ERR);
    CHECK(!rig.landed(2));
    CHECK(rig.a->state() == IBV_QPS_ERR);
    CHECK(rig.verdicts() == std::vector<std::string>{"status:REM_ACCESS_ERR write 2"});
  }
  SUBCASE("an error after the payload landed") {
    rig.rule("dev=a do=status:LOC_LEN_ERR,landed");
    rig.write(0);
    rig.run_for(1ms);
    CHECK(rig.a->poll().at(0).status == IBV_WC_LOC_LEN_ERR);
    CHECK(rig.landed(0));
  }
  SUBCASE("a success that is a lie") {
    rig.rule("dev=a nth=1 do=status:SUCCESS");
    rig.write(0);
    rig.write(1);
    rig.run_for(1ms);
    CHECK(rig.a->poll().size() == 2);
    CHECK(!rig.landed(0));
    CHECK(rig.landed(1));
  }
  SUBCASE("by size") {
    rig.rule("bytes=1025- do=status:LOC_LEN_ERR");
    rig.write(0, 1024);
    rig.write(1, 1025);
    rig.run_for(1ms);
    const auto wcs = rig.a->poll();
    REQUIRE(wcs.size() == 2);
    CHECK(wcs[0].status == IBV_WC_SUCCESS);
    CHECK(wcs[1].status == IBV_WC_LOC_LEN_ERR);
  }
}

TEST_CASE(
    "work that a rule hangs never completes, flushes in ERR when it is soft, and frees its place in RESET") {
  for (const bool is_hard : {false, true}) {
    ruled_rig rig;
    rig.rule(std::string{"dev=a nth=2 do=hang:"} + (is_hard ? "hard" : "soft"));
    for (std::uint64_t i = 0; i < 3; ++i)
      rig.write(i);
    rig.run_for(10s);
    CHECK(rig.a->poll().size() == 1);
    CHECK(!rig.landed(1));
    CHECK(rig.net->devices().at(0).stuck_wrs == 2);
    CHECK(to_error(*rig.a) == 0);
    rig.write(3);
    CHECK(rig.a->poll().size() == (is_hard ? 0 : 3));
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RESET;
    REQUIRE(rig.a->qp.modify(attr, IBV_QP_STATE));
    CHECK(rig.net->devices().at(0).stuck_wrs == 0);
    REQUIRE(rig.b->qp.modify(attr, IBV_QP_STATE));
    rig.connect();
    rig.write(4);
    rig.run_for(1ms);
    CHECK(rig.a->poll().at(0).status == IBV_WC_SUCCESS);
  }
}

TEST_CASE("a device that hangs hard does not flush") {
  ruled_rig rig;
  REQUIRE(rig.net->set_hang_mode("a/soft0", hang_mode::hard));
  CHECK(rig.net->devices().at(0).hang_hard);
  rig.write(0);
  rig.run_for(1s);
  CHECK(to_error(*rig.a) == 0);
  CHECK(rig.a->poll().empty());
  REQUIRE(rig.a->qp.destroy());
  CHECK(rig.net->devices().at(0).stuck_wrs == 0);
}

TEST_CASE("the requester gives up and the payload lands all the same") {
  ruled_rig rig;
  rig.rule("dev=a nth=1 do=hold_dma:500ms");
  rig.write(0);
  rig.run_for(retry_time + 1ms);
  CHECK(rig.a->poll().at(0).status == IBV_WC_RETRY_EXC_ERR);
  CHECK(!rig.landed(0));
  REQUIRE(rig.a->qp.destroy());
  rig.run_for(500ms - retry_time);
  CHECK(rig.landed(0));
  CHECK(rig.count(log_kind::landed_late) == 1);
}

TEST_CASE("a late payload is refused by a responder that is gone") {
  ruled_rig rig;
  rig.rule("dev=a nth=1 do=hold_dma:500ms");
  rig.write(0);
  rig.run_for(200ms);
  CHECK(to_error(*rig.b) == 0);
  rig.run_for(400ms);
  CHECK(!rig.landed(0));
  CHECK(rig.count(log_kind::dropped_late) == 1);
}

TEST_CASE("a read whose payload is held lands while the queue pair lives, and not after it") {
  for (const bool is_ended : {false, true}) {
    ruled_rig rig;
    fill(rig.b->memory, 64, 5);
    rig.rule("dev=a op=read do=hold_dma:100ms");
    CHECK(rig.a->read(1, rig.b->where(), 0, 0, 64) == 0);
    rig.run_for(90ms);
    CHECK(rig.a->poll().empty());
    if (is_ended)
      CHECK(to_error(*rig.a) == 0);
    rig.run_for(20ms);
    CHECK(arrived(*rig.a, *rig.b, 0, 64) != is_ended);
  }
}

TEST_CASE("marker work in ERR is not flushed where a rule says so") {
  ruled_rig rig;
  SUBCASE("only the marker") {
    rig.rule("dev=a do=no_flush:marker");
    REQUIRE(rig.net->set_link("b/soft0", false));
    rig.write(0);
    CHECK(to_error(*rig.a) == 0);
    rig.write(1);
    const auto wcs = rig.a->poll();
    REQUIRE(wcs.size() == 1);
    CHECK(wcs[0].wr_id == 0);
  }
  SUBCASE("one of many") {
    rig.rule("dev=a nth=2 do=no_flush");
    REQUIRE(rig.net->set_link("b/soft0", false));
    for (std::uint64_t i = 0; i < 3; ++i)
      rig.write(i);
    CHECK(to_error(*rig.a) == 0);
    const auto wcs = rig.a->poll();
    REQUIRE(wcs.size() == 2);
    CHECK(wcs[1].wr_id == 2);
  }
}

TEST_CASE("a rule that nothing matches changes nothing, and one that is removed stops") {
  ruled_rig rig;
  rig.rule("dev=nobody do=drop");
  rig.rule("dev=a peer=nobody do=drop");
  rig.rule("dev=a qp=0x1 do=drop");
  rig.rule("dev=a op=read do=drop");
  const auto id = rig.rule("dev=a do=drop");
  REQUIRE(rig.net->remove_rule(id));
  CHECK(!rig.net->remove_rule(id));
  rig.write(0);
  rig.run_for(1ms);
  CHECK(rig.a->poll().size() == 1);
  CHECK(rig.verdicts().empty());
  CHECK(rig.net->rules().size() == 4);
  rig.net->clear_rules();
  CHECK(rig.net->rules().empty());
}

TEST_CASE("a rule by time holds from its moment for its span") {
  ruled_rig rig;
  rig.rule("dev=a after_ms=10 for_ms=10 do=status:RETRY_EXC_ERR");
  rig.write(0);
  rig.run_for(9ms);
  CHECK(rig.a->poll().at(0).status == IBV_WC_SUCCESS);
  rig.run_for(12ms);
  rig.write(1);
  rig.run_for(1ms);
  CHECK(rig.a->poll().at(0).status == IBV_WC_SUCCESS);
  rig.rule("dev=a for_ms=10 do=status:RETRY_EXC_ERR");
  rig.write(2);
  rig.run_for(1ms);
  CHECK(rig.a->poll().at(0).status == IBV_WC_RETRY_EXC_ERR);
}

TEST_CASE("the same seed gives the same losses") {
  const auto run = [](std::uint64_t seed) {
    ruled_rig rig{nic_mode::paced, seed};
    rig.rule("dev=a chance=0.2 do=drop");
    for (std::uint64_t i = 0; i < 30; ++i)
      rig.write(i);
    rig.run_for(5s);
    return rig.verdicts();
  };
  CHECK(run(3) == run(3));
  CHECK(run(3) != run(4));
  CHECK(!run(3).empty());
}
