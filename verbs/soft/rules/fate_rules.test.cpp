// SPDX-License-Identifier: Apache-2.0
//
// Rules about the fate of work requests: their statuses, hangs and late payload, and rules by time and
// chance.
#include "verbs/soft/testing/ruled_rig.hpp"

#include <chrono>
#include <string>

using namespace actor_rdma;
using namespace actor_rdma::verbs;
using namespace actor_rdma::verbs::soft;
using namespace actor_rdma::verbs::soft::testing;
using namespace std::chrono_literals;

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

TEST_CASE("a device that cannot reach some memory fails what names it, at either end, and nothing else") {
  ruled_rig rig;
  const auto writes = [&](const memory_region& from, std::uint32_t rkey) {
    ibv_sge sge{reinterpret_cast<std::uintptr_t>(rig.a->memory), 64, from.lkey()};
    ibv_send_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(rig.b->memory);
    wr.wr.rdma.rkey = rkey;
    REQUIRE(rig.a->post({&wr, 1}) == 0);
    rig.run_for(1ms);
    return rig.a->poll().at(0).status;
  };
  constexpr int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  const auto ours = memory_region::reg(rig.a->pd, rig.a->memory, 8192, access);
  const auto theirs = memory_region::reg(rig.b->pd, rig.b->memory, 12288, access);
  REQUIRE((ours && theirs));
  SUBCASE("the requester's") {
    rig.rule("dev=a region=8192 do=status:LOC_PROT_ERR");
    CHECK(writes(rig.a->mr, theirs->rkey()) == IBV_WC_SUCCESS);
    CHECK(writes(*ours, rig.b->mr.rkey()) == IBV_WC_LOC_PROT_ERR);
  }
  SUBCASE("the responder's") {
    rig.rule("dev=a peer=b peer_region=12288 do=status:REM_ACCESS_ERR");
    CHECK(writes(*ours, rig.b->mr.rkey()) == IBV_WC_SUCCESS);
    CHECK(writes(*ours, theirs->rkey()) == IBV_WC_REM_ACCESS_ERR);
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
