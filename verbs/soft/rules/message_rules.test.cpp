// SPDX-License-Identifier: Apache-2.0
//
// Rules about messages and atomics: what is lost, doubled or late arrives once all the same, and an atomic's
// answer is the first one however often it is asked for.
#include "verbs/soft/testing/atomic_rig.hpp"
#include "verbs/soft/testing/ruled_rig.hpp"

#include <chrono>
#include <string>
#include <vector>

using namespace actor_rdma;
using namespace actor_rdma::verbs;
using namespace actor_rdma::verbs::soft;
using namespace actor_rdma::verbs::soft::testing;
using namespace std::chrono_literals;

namespace {

std::uint32_t add(pair_rig& rig, const std::string& text) {
  const auto id = rig.net->add_rule(text);
  REQUIRE_MESSAGE(id, (id ? "" : id.error().to_string()));
  return *id;
}

} // namespace

TEST_CASE("a message arrives once and in order, whatever rules do to its packets") {
  const char* const rules[] = {"dev=a op=send nth=2 do=drop", "dev=a op=send dir=ack nth=3 do=drop",
                               "dev=a op=send nth=2 do=delay:5ms", "dev=a op=send every=2 do=duplicate:1ms",
                               "dev=a op=send nth=1 do=reorder:2ms"};
  for (const auto* const text : rules) {
    CAPTURE(text);
    ruled_rig rig;
    const auto id = rig.rule(text);
    for (std::uint64_t i = 0; i < 6; ++i)
      REQUIRE(rig.b->receive(i, 8192 * i, 8192) == 0);
    for (std::uint64_t i = 0; i < 4; ++i)
      REQUIRE(rig.a->send(i, 8192 * i, 8192) == 0);
    rig.run_for(retry_time);
    CHECK(rig.hits(id) >= 1);
    const auto sent = rig.a->poll();
    const auto got = rig.b->poll();
    REQUIRE(sent.size() == 4);
    REQUIRE(got.size() == 4);
    for (std::size_t i = 0; i < 4; ++i) {
      CHECK(sent[i].status == IBV_WC_SUCCESS);
      CHECK(got[i].status == IBV_WC_SUCCESS);
      CHECK(got[i].wr_id == i);
    }
    CHECK(arrived(*rig.a, *rig.b, 0, 4 * 8192));
  }
}

TEST_CASE("a message ends with the status that a rule says, and takes a receive only if it lands") {
  ruled_rig rig;
  rig.rule("dev=a op=write do=status:REM_OP_ERR"); // not about messages
  REQUIRE(rig.b->receive(0, 0, 64) == 0);
  REQUIRE(rig.b->receive(1, 64, 64) == 0);
  REQUIRE(rig.a->send(0, 0, 64) == 0);
  rig.run_for(1ms);
  REQUIRE(rig.a->poll().at(0).status == IBV_WC_SUCCESS);
  REQUIRE(rig.b->poll().size() == 1);
  SUBCASE("it does not") {
    rig.rule("dev=a op=send do=status:REM_ACCESS_ERR");
    REQUIRE(rig.a->send(1, 0, 64) == 0);
    rig.run_for(1ms);
    CHECK(rig.b->poll().empty());
    CHECK(rig.b->memory[65] == std::byte{0});
  }
  SUBCASE("it does") {
    rig.rule("dev=a op=send do=status:REM_ACCESS_ERR,landed");
    REQUIRE(rig.a->send(1, 0, 64) == 0);
    rig.run_for(1ms);
    CHECK(rig.b->poll().size() == 1);
    CHECK(std::memcmp(rig.a->memory, rig.b->memory + 64, 64) == 0);
  }
  CHECK(rig.a->poll().at(0).status == IBV_WC_REM_ACCESS_ERR);
}

TEST_CASE("an atomic is executed once, and its answer is the first one, though it was lost") {
  const char* const rules[] = {"dev=a op=atomic dir=ack nth=1 do=drop",
                               "dev=a op=atomic dir=ack nth=2 do=drop", "dev=a op=atomic nth=2 do=drop",
                               "dev=a op=atomic every=2 do=duplicate:1ms"};
  for (const auto* const text : rules)
    for (const auto mode : {nic_mode::immediate, nic_mode::paced}) {
      CAPTURE(text);
      CAPTURE(mode);
      atomic_rig rig{mode};
      add(rig, text);
      std::memset(rig.a->memory, 0xee, 64);
      for (std::uint64_t i = 0; i < 4; ++i)
        REQUIRE(rig.post(IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 1, 0, 8 * i) == 0);
      rig.run_for(2 * retry_time);
      const auto wcs = rig.a->poll();
      REQUIRE(wcs.size() == 4);
      for (std::uint64_t i = 0; i < 4; ++i) {
        CHECK(wcs[i].status == IBV_WC_SUCCESS);
        CHECK(word_at(*rig.a, 8 * i) == i);
      }
      CHECK(word_at(*rig.b) == 4);
    }
}

TEST_CASE("an atomic whose status comes from a rule does nothing, unless it lands") {
  for (const bool lands : {false, true})
    for (const std::string status : {"SUCCESS", "REM_OP_ERR"}) {
      CAPTURE(status);
      atomic_rig rig{nic_mode::immediate};
      add(rig, "dev=a op=atomic nth=1 do=status:" + status + (lands ? ",landed" : ""));
      REQUIRE(rig.post(IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 5) == 0);
      rig.run_for(1ms);
      const auto wcs = rig.a->poll();
      REQUIRE(wcs.size() == 1);
      CHECK(wcs[0].status == (status == "SUCCESS" ? IBV_WC_SUCCESS : IBV_WC_REM_OP_ERR));
      CHECK(word_at(*rig.b) == (lands ? 5 : 0));
      if (status == "SUCCESS") { // and the connection goes on
        REQUIRE(rig.post(IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 1) == 0);
        rig.run_for(1ms);
        CHECK(rig.a->poll().at(0).status == IBV_WC_SUCCESS);
        CHECK(word_at(*rig.b) == (lands ? 6 : 1));
      }
    }
}
