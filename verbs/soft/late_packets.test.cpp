// SPDX-License-Identifier: Apache-2.0
//
// Packets that are late on the wire: independent of their sender, and checked when they land.
#include "verbs/soft/testing/rig.hpp"

#include <chrono>
#include <cstring>
#include <vector>

using namespace actor_rdma;
using namespace actor_rdma::verbs;
using namespace actor_rdma::verbs::soft;
using namespace actor_rdma::verbs::soft::testing;
using namespace std::chrono_literals;

namespace {

bool arrived(const end& from, const end& to, std::size_t offset, std::size_t length) {
  return std::memcmp(from.memory + offset, to.memory + offset, length) == 0;
}

} // namespace

TEST_CASE("a delayed write lands and completes late") {
  for (const auto mode : {nic_mode::immediate, nic_mode::paced}) {
    pair_rig rig{mode, true};
    fill(rig.a->memory, 100'000, 1);
    REQUIRE(rig.net->set_delay("a/soft0", 50ms));
    CHECK(rig.a->write(1, rig.b->where(), 0, 0, 100'000) == 0);
    rig.run_for(49ms);
    CHECK(rig.b->memory[1] == std::byte{0});
    CHECK(rig.a->poll().empty());
    rig.run_for(2ms);
    CHECK(arrived(*rig.a, *rig.b, 0, 100'000));
    CHECK(rig.a->poll().size() == 1);
    CHECK(rig.count(log_kind::landed_late) == 1);
    REQUIRE(rig.net->set_delay("a/soft0", 0ns));
    CHECK(rig.a->write(2, rig.b->where(), 0, 0, 100) == 0);
    rig.run_for(1ms);
    CHECK(rig.a->poll().size() == 1);
  }
}

TEST_CASE("a delayed write carries the bytes that it left with, and lands though its queue pair is flushed") {
  pair_rig rig{nic_mode::paced, true};
  fill(rig.a->memory, 4096, 1);
  REQUIRE(rig.net->set_delay("a/soft0", 50ms));
  CHECK(rig.a->write(1, rig.b->where(), 0, 0, 4096) == 0);
  rig.run_for(1ms);
  std::vector<std::byte> sent(rig.a->memory, rig.a->memory + 4096);
  std::memset(rig.a->memory, 0xee, 4096);
  SUBCASE("in ERR") {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_ERR;
    REQUIRE(rig.a->qp.modify(attr, IBV_QP_STATE));
    CHECK(rig.a->poll().at(0).status == IBV_WC_WR_FLUSH_ERR);
  }
  SUBCASE("destroyed, and its buffer too") {
    REQUIRE(rig.a->qp.destroy());
    REQUIRE(rig.a->mr.destroy());
  }
  rig.run_for(60ms);
  CHECK(std::memcmp(sent.data(), rig.b->memory, 4096) == 0);
  CHECK(rig.count(log_kind::landed_late) == 1);
  CHECK(rig.a->poll().empty());
}

TEST_CASE("a delayed write is refused when the responder is not what it was") {
  pair_rig rig{nic_mode::paced, true};
  fill(rig.a->memory, 4096, 1);
  REQUIRE(rig.net->set_delay("a/soft0", 50ms));
  CHECK(rig.a->write(1, rig.b->where(), 0, 0, 4096) == 0);
  CHECK(rig.a->write(2, rig.b->where(), 0, 0, 4096) == 0);
  rig.run_for(1ms);
  ibv_qp_attr attr{};
  auto first = IBV_WC_RETRY_EXC_ERR;
  SUBCASE("in ERR") {
    attr.qp_state = IBV_QPS_ERR;
    REQUIRE(rig.b->qp.modify(attr, IBV_QP_STATE));
  }
  SUBCASE("destroyed") {
    REQUIRE(rig.b->qp.destroy());
  }
  SUBCASE("reset and connected again with the same numbers") {
    attr.qp_state = IBV_QPS_RESET;
    REQUIRE(rig.b->qp.modify(attr, IBV_QP_STATE));
    REQUIRE(rig.a->qp.modify(attr, IBV_QP_STATE));
    rig.connect();
    first = IBV_WC_SUCCESS; // nothing at all: the new life has no work
  }
  SUBCASE("its key gone") {
    REQUIRE(rig.b->mr.destroy());
    first = IBV_WC_REM_ACCESS_ERR;
  }
  rig.run_for(10s);
  CHECK(rig.b->memory[1] == std::byte{0});
  CHECK(rig.count(log_kind::landed_late) == 0);
  CHECK(rig.count(log_kind::dropped_late) == 2);
  const auto wcs = rig.a->poll();
  if (first == IBV_WC_SUCCESS) {
    CHECK(wcs.empty());
  } else {
    REQUIRE(wcs.size() == 2);
    CHECK(wcs[0].status == first);
    CHECK(wcs[1].status == IBV_WC_WR_FLUSH_ERR);
  }
}

TEST_CASE("the requester gives up on a packet that is later than its retries, and the packet lands still") {
  pair_rig rig{nic_mode::paced, true};
  fill(rig.a->memory, 4096, 1);
  REQUIRE(rig.net->set_delay("a/soft0", 500ms));
  CHECK(rig.a->write(1, rig.b->where(), 0, 0, 4096) == 0);
  rig.run_for(200ms);
  CHECK(rig.a->poll().at(0).status == IBV_WC_RETRY_EXC_ERR);
  CHECK(rig.b->memory[1] == std::byte{0});
  rig.run_for(400ms);
  CHECK(arrived(*rig.a, *rig.b, 0, 4096));
}

TEST_CASE("a delayed packet waits for the links of both ends") {
  for (const char* const device : {"a/soft0", "b/soft0"}) {
    pair_rig rig{nic_mode::paced, true};
    fill(rig.a->memory, 4096, 1);
    REQUIRE(rig.net->set_delay("a/soft0", 50ms));
    CHECK(rig.a->write(1, rig.b->where(), 0, 0, 4096) == 0);
    REQUIRE(rig.net->set_link(device, false));
    rig.run_for(1s);
    CHECK(rig.a->poll().at(0).status == IBV_WC_RETRY_EXC_ERR);
    CHECK(rig.b->memory[1] == std::byte{0});
    REQUIRE(rig.net->set_link(device, true));
    rig.run_for(1ms);
    CHECK(arrived(*rig.a, *rig.b, 0, 4096));
  }
}

TEST_CASE("a delayed read changes local memory only while its queue pair lives") {
  for (const char* const device : {"a/soft0", "b/soft0"}) {
    pair_rig rig{nic_mode::paced, true};
    fill(rig.b->memory, 4096, 1);
    REQUIRE(rig.net->set_delay(device, 50ms));
    CHECK(rig.a->read(1, rig.b->where(), 0, 0, 4096) == 0);
    rig.run_for(40ms);
    CHECK(rig.a->memory[1] == std::byte{0});
    SUBCASE("it does") {
      rig.run_for(20ms);
      CHECK(arrived(*rig.a, *rig.b, 0, 4096));
      CHECK(rig.a->poll().at(0).status == IBV_WC_SUCCESS);
      CHECK(rig.count(log_kind::landed_late) == 1);
    }
    SUBCASE("it does not") {
      ibv_qp_attr attr{};
      attr.qp_state = IBV_QPS_ERR;
      REQUIRE(rig.a->qp.modify(attr, IBV_QP_STATE));
      rig.run_for(1s);
      CHECK(rig.a->memory[1] == std::byte{0});
      CHECK(rig.a->poll().at(0).status == IBV_WC_WR_FLUSH_ERR);
    }
    SUBCASE("its buffer is gone") {
      REQUIRE(rig.a->mr.destroy());
      rig.run_for(1s);
      CHECK(rig.a->memory[1] == std::byte{0});
      CHECK(rig.a->poll().at(0).status == IBV_WC_LOC_PROT_ERR);
    }
  }
}

TEST_CASE("delayed packets of a queue pair land in order, those without delay behind them") {
  pair_rig rig{nic_mode::paced, true};
  REQUIRE(rig.net->set_delay("a/soft0", 50ms));
  for (std::uint64_t i = 0; i < 10; ++i) {
    std::memset(rig.a->memory, static_cast<int>(i + 1), 64);
    CHECK(rig.a->write(i, rig.b->where(), 0, 0, 64) == 0);
  }
  REQUIRE(rig.net->set_delay("a/soft0", 0ns));
  std::memset(rig.a->memory, 99, 64);
  CHECK(rig.a->write(10, rig.b->where(), 0, 0, 64) == 0);
  rig.run_for(1s);
  const auto wcs = rig.a->poll();
  REQUIRE(wcs.size() == 11);
  for (std::uint64_t i = 0; i < 11; ++i)
    CHECK(wcs[i].wr_id == i);
  CHECK(rig.b->memory[0] == std::byte{99});
}
