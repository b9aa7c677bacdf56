// SPDX-License-Identifier: Apache-2.0
//
// GID tables, LID and MTU that change while queue pairs use them.
#include "verbs/soft/addressing.hpp"

#include "verbs/soft/testing/rig.hpp"

#include <cerrno>

using namespace actor_rdma;
using namespace actor_rdma::verbs::soft;
using namespace actor_rdma::verbs::soft::testing;
using namespace std::chrono_literals;

namespace {

std::vector<ibv_event_type> events(end& of) {
  std::vector<ibv_event_type> all;
  for (;;) {
    const auto next = of.ctx.next_async_event();
    REQUIRE(next);
    if (!*next)
      return all;
    if ((*next)->type == IBV_EVENT_GID_CHANGE || (*next)->type == IBV_EVENT_LID_CHANGE)
      CHECK((*next)->port == 1);
    all.push_back((*next)->type);
  }
}

ibv_wc_status outcome_of_write(pair_rig& rig, std::uint32_t length = 100) {
  REQUIRE(rig.a->write(1, rig.b->where(), 0, 0, length) == 0);
  rig.run_for(5s);
  const auto wcs = rig.a->poll();
  REQUIRE(wcs.size() == 1);
  return wcs[0].status;
}

gid_row row_of(std::uint32_t index, const char* text, std::uint32_t type = IBV_GID_TYPE_ROCE_V2) {
  gid_row row;
  row.index = index;
  row.value = *parse_gid(text);
  row.type = type;
  return row;
}

} // namespace

TEST_CASE("a device is known by the addresses of its table and by no other") {
  pair_rig rig{nic_mode::immediate, true};
  const auto before = *rig.a->ctx.query_gids(1);
  CHECK(before.size() == default_gids);
  REQUIRE(rig.net->set_gid("b/soft0", row_of(7, "fd00::7", IBV_GID_TYPE_ROCE_V1)));
  REQUIRE(rig.net->delete_gid("b/soft0", 0));
  const auto after = *rig.b->ctx.query_gids(1);
  REQUIRE(after.size() == default_gids);
  CHECK(after.front().index == 1);
  CHECK(after.back().index == 7);
  CHECK(after.back().type == IBV_GID_TYPE_ROCE_V1);
  CHECK(to_text(after.back().gid) == "fd00::7");
  ibv_gid_entry entry{};
  CHECK(rig.host_b->verbs().query_gid_ex(rig.b->ctx.get(), 1, 0, &entry) == ENODATA);
  CHECK(rig.host_b->verbs().query_gid_ex(rig.b->ctx.get(), 1, layout::gids_per_port, &entry) == EINVAL);
  ibv_gid plain{};
  CHECK(rig.host_b->verbs().query_gid(rig.b->ctx.get(), 1, 0, &plain) == 0);
  CHECK(is_same_gid(plain, ibv_gid{}));
}

TEST_CASE("each change of a table is an event of the port, and a change of nothing is none") {
  pair_rig rig{nic_mode::immediate, true};
  CHECK(events(*rig.b).empty());
  REQUIRE(rig.net->move_gid("b/soft0", 3, 5));
  REQUIRE(rig.net->set_lid("b/soft0", 9));
  REQUIRE(rig.net->delete_gid("b/soft0", 12));
  REQUIRE(rig.net->move_gid("b/soft0", 5, 5));
  rig.run_for(1ms);
  const auto seen = events(*rig.b);
  REQUIRE(seen.size() == 2);
  CHECK(seen[0] == IBV_EVENT_GID_CHANGE);
  CHECK(seen[1] == IBV_EVENT_LID_CHANGE);
  CHECK(rig.b->ctx.query_port(1)->lid == 9);
  CHECK(events(*rig.a).empty());
  CHECK(!rig.net->move_gid("b/soft0", 12, 5));
  CHECK(!rig.net->set_gid("b/soft0", row_of(layout::gids_per_port, "fd00::1")));
}

TEST_CASE("a queue pair whose source address moved cannot send until it is back") {
  for (const auto mode : {nic_mode::immediate, nic_mode::paced}) {
    pair_rig rig{mode, true};
    CHECK(outcome_of_write(rig) == IBV_WC_SUCCESS);
    REQUIRE(rig.net->move_gid("a/soft0", 3, 5));
    SUBCASE("it stays away") {
      CHECK(outcome_of_write(rig) == IBV_WC_RETRY_EXC_ERR);
    }
    SUBCASE("it comes back in time") {
      REQUIRE(rig.a->write(1, rig.b->where(), 0, 0, 100) == 0);
      rig.run_for(10ms);
      REQUIRE(rig.net->move_gid("a/soft0", 5, 3));
      rig.run_for(5s);
      const auto wcs = rig.a->poll();
      REQUIRE(wcs.size() == 1);
      CHECK(wcs[0].status == IBV_WC_SUCCESS);
    }
    SUBCASE("another address took its place") {
      REQUIRE(rig.net->set_gid("a/soft0", row_of(3, "10.9.9.9")));
      CHECK(outcome_of_write(rig) == IBV_WC_RETRY_EXC_ERR);
    }
  }
}

TEST_CASE("what is sent to an address follows the address and is lost when nobody has it") {
  pair_rig rig{nic_mode::paced, true};
  CHECK(outcome_of_write(rig) == IBV_WC_SUCCESS);
  REQUIRE(rig.net->move_gid("b/soft0", 3, 9)); // the responder's index does not matter
  REQUIRE(rig.net->move_gid("b/soft0", 2, 11));
  CHECK(outcome_of_write(rig) == IBV_WC_SUCCESS);
  REQUIRE(rig.net->delete_gid("b/soft0", 9));
  REQUIRE(rig.net->delete_gid("b/soft0", 11));
  CHECK(outcome_of_write(rig) == IBV_WC_RETRY_EXC_ERR);
}

TEST_CASE("a late packet does not reach a device that has lost the address meanwhile") {
  pair_rig rig{nic_mode::paced, true};
  REQUIRE(rig.net->set_delay("a/soft0", 20ms));
  fill(rig.b->memory, 100, 3);
  const auto before = rig.b->memory[0];
  fill(rig.a->memory, 100, 4);
  REQUIRE(rig.a->write(1, rig.b->where(), 0, 0, 100) == 0);
  rig.run_for(1ms);
  REQUIRE(rig.net->delete_gid("b/soft0", 2));
  REQUIRE(rig.net->delete_gid("b/soft0", 3));
  rig.run_for(1s);
  CHECK(rig.b->memory[0] == before);
  CHECK(rig.count(log_kind::dropped_late) > 0);
}

TEST_CASE("a path MTU beyond the port's is refused, and longer frames get lost when the MTU shrinks") {
  pair_rig rig{nic_mode::immediate, true};
  REQUIRE(rig.net->set_mtu("b/soft0", 1024));
  CHECK(rig.b->ctx.query_port(1)->active_mtu == IBV_MTU_1024);
  auto fresh = end::open(*rig.host_b);
  CHECK(fresh->to_init() == 0);
  CHECK(fresh->to_rtr(rig.a->where()) == EINVAL);
  fresh->options.mtu = IBV_MTU_1024;
  CHECK(fresh->to_rtr(rig.a->where()) == 0);
  CHECK(!rig.net->set_mtu("b/soft0", 1500));
  // Both ends were connected with 4096.
  CHECK(outcome_of_write(rig, 1024) == IBV_WC_SUCCESS);
  CHECK(outcome_of_write(rig, 1025) == IBV_WC_RETRY_EXC_ERR);
}

TEST_CASE("a device may begin with a table and an MTU of its own") {
  const auto net = *fabric::open({});
  device_options o;
  o.mtu = 2048;
  o.gids = {row_of(1, "fe80::1"), row_of(4, "192.168.7.1")};
  o.gids[0].interface_up = false;
  const auto h = std::move(*net->attach("h", {o}));
  CHECK(net->devices().at(0).mtu == 2048);
  const auto rows = *net->gids("h/soft0");
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].index == 1);
  CHECK(!rows[0].interface_up);
  CHECK(to_text(rows[1].value) == "::ffff:192.168.7.1");
  o.name = "soft1";
  o.mtu = 1500;
  CHECK(!net->attach("h2", {o}));
}
