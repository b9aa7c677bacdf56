// SPDX-License-Identifier: Apache-2.0
//
// Ports of the link layer InfiniBand: attributes, LIDs, address handles, and what gets lost.
#include "verbs/soft/routing.hpp"
#include "verbs/soft/testing/rig.hpp"

#include <cerrno>
#include <memory>

using namespace actor_rdma;
using namespace actor_rdma::verbs;
using namespace actor_rdma::verbs::soft;
using namespace actor_rdma::verbs::soft::testing;
using namespace std::chrono_literals;

namespace {

device_options infiniband(std::uint16_t lid = 0, std::uint64_t prefix = default_subnet_prefix) {
  device_options o;
  o.link_layer = IBV_LINK_LAYER_INFINIBAND;
  o.lid = lid;
  o.subnet_prefix = prefix;
  return o;
}

qp_options handle(bool grh, std::uint8_t gid_index = 0) {
  qp_options o;
  o.grh = grh;
  o.gid_index = gid_index;
  return o;
}

ibv_wc_status outcome_of_write(pair_rig& rig) {
  REQUIRE(rig.a->write(1, rig.b->where(), 0, 0, 100) == 0);
  rig.run_for(5s);
  const auto wcs = rig.a->poll();
  REQUIRE(wcs.size() == 1);
  return wcs[0].status;
}

constexpr std::uint64_t site_local = 0xfec0'0000'0000'0002;

/// Two hosts in subnets of their own, connected as the caller says.
struct two_subnets {
  two_subnets() {
    fabric_options f;
    f.clock = &clock;
    net = *fabric::open(f);
    host_a = std::move(*net->attach("a", {infiniband(7, site_local)}));
    host_b = std::move(*net->attach("b", {infiniband(7, site_local + 1)}));
    a = end::open(*host_a, 0, handle(true, 1));
    b = end::open(*host_b, 0, handle(true, 1));
  }
  base::manual_clock clock;
  std::shared_ptr<fabric> net;
  std::unique_ptr<host> host_a;
  std::unique_ptr<host> host_b;
  std::unique_ptr<end> a;
  std::unique_ptr<end> b;
};

} // namespace

TEST_CASE("an InfiniBand port shows a LID, a subnet manager and one GID, that of its subnet") {
  pair_rig rig{nic_mode::immediate, true, handle(false), infiniband()};
  const auto a = *rig.a->ctx.query_port(1);
  const auto b = *rig.b->ctx.query_port(1);
  for (const auto& port : {a, b}) {
    CHECK(port.link_layer == IBV_LINK_LAYER_INFINIBAND);
    CHECK(port.state == IBV_PORT_ACTIVE);
    CHECK(port.phys_state == 5);
    CHECK(port.lid >= least_lid);
    CHECK(port.sm_lid == subnet_manager_lid);
    CHECK((port.port_cap_flags & IBV_PORT_IP_BASED_GIDS) == 0);
  }
  CHECK(a.lid != b.lid);
  const auto gids = *rig.a->ctx.query_gids(1);
  REQUIRE(gids.size() == 1);
  CHECK(gids[0].index == 0);
  CHECK(gids[0].type == IBV_GID_TYPE_IB);
  CHECK(gids[0].interface_index == 0); // no network interface
  CHECK(to_text(gids[0].gid) == "fe80::52:41ff:fe4d:0");
  CHECK(rig.net->devices().at(1).link_layer == IBV_LINK_LAYER_INFINIBAND);
  const auto guid = rig.a->ctx.query_device()->node_guid;
  CHECK(std::memcmp(&guid, &gids[0].gid.raw[8], sizeof guid) == 0);
}

TEST_CASE("in a subnet packets go by the LID, with a GRH or without") {
  for (const auto mode : {nic_mode::immediate, nic_mode::paced})
    for (const bool grh : {false, true}) {
      pair_rig rig{mode, true, handle(grh), infiniband()};
      CHECK(outcome_of_write(rig) == IBV_WC_SUCCESS);
      fill(rig.b->memory, 64, 9);
      REQUIRE(rig.a->read(2, rig.b->where(), 0, 0, 64) == 0);
      rig.run_for(1s);
      REQUIRE(rig.a->poll().size() == 1);
      CHECK(std::memcmp(rig.a->memory, rig.b->memory, 64) == 0);
    }
}

TEST_CASE("an adapter drops what comes with a GRH when its queue pair has none, and the other way round") {
  for (const bool grh : {false, true}) {
    pair_rig rig{nic_mode::immediate, true, handle(grh), infiniband()};
    rig.a = end::open(*rig.host_a, 0, handle(!grh));
    rig.b = end::open(*rig.host_b, 0, handle(grh));
    rig.connect();
    CHECK(outcome_of_write(rig) == IBV_WC_RETRY_EXC_ERR);
  }
}

TEST_CASE("what is sent to a LID that no port has is lost, and so is a GRH for somebody else") {
  pair_rig rig{nic_mode::immediate, true, handle(false), infiniband()};
  rig.a->make_qp();
  rig.b->make_qp();
  const auto from = rig.a->where();
  auto to = rig.b->where();
  SUBCASE("nobody has the LID") {
    to.lid = 900;
  }
  SUBCASE("none at all") {
    to.lid = 0;
  }
  SUBCASE("the GID is another port's") {
    rig.a->options.grh = rig.b->options.grh = true;
    to.gid.raw[15] ^= 0x40;
  }
  rig.a->connect(to);
  rig.b->connect(from);
  CHECK(outcome_of_write(rig) == IBV_WC_RETRY_EXC_ERR);
}

TEST_CASE("address handles are checked as the kernel checks them") {
  pair_rig ib{nic_mode::immediate, true, handle(false), infiniband()};
  pair_rig roce{nic_mode::immediate, true};
  const auto rtr = [](end& e, qp_options options, address to) {
    e.make_qp();
    e.options = options;
    REQUIRE(e.to_init() == 0);
    return e.to_rtr(to);
  };
  auto to = ib.b->where();
  CHECK(rtr(*ib.a, handle(false), to) == 0);
  CHECK(rtr(*ib.a, handle(true), to) == 0);
  CHECK(rtr(*ib.a, handle(true, 1), to) == ENODATA); // an empty place
  CHECK(rtr(*ib.a, handle(true, 200), to) == EINVAL);
  CHECK(rtr(*ib.a, handle(false, 200), to) == 0); // it is not looked at
  to.lid = 0xc000;                                // multicast
  CHECK(rtr(*ib.a, handle(false), to) == EINVAL);
  CHECK(rtr(*roce.a, handle(false, 3), roce.b->where()) == EINVAL);
  CHECK(rtr(*roce.a, handle(true, 3), roce.b->where()) == 0);
}

TEST_CASE("a LID that changes is an event, and breaks connections in both directions until it is back") {
  for (const char* who : {"a/soft0", "b/soft0"}) {
    CAPTURE(who);
    pair_rig rig{nic_mode::immediate, true, handle(false), infiniband()};
    CHECK(outcome_of_write(rig) == IBV_WC_SUCCESS);
    auto& changed = *(who[0] == 'a' ? rig.a : rig.b);
    const auto before = changed.ctx.query_port(1)->lid;
    REQUIRE(rig.net->set_lid(who, 500));
    rig.run_for(1ms);
    const auto event = *changed.ctx.next_async_event();
    REQUIRE(event);
    CHECK(event->type == IBV_EVENT_LID_CHANGE);
    CHECK(changed.ctx.query_port(1)->lid == 500);
    REQUIRE(rig.a->write(1, rig.b->where(), 0, 0, 100) == 0);
    rig.run_for(10ms);
    CHECK(rig.a->poll().empty());
    SUBCASE("it stays") {
      rig.run_for(5s);
      CHECK(rig.a->poll().at(0).status == IBV_WC_RETRY_EXC_ERR);
    }
    SUBCASE("it comes back in time") {
      REQUIRE(rig.net->set_lid(who, before));
      rig.run_for(5s);
      CHECK(rig.a->poll().at(0).status == IBV_WC_SUCCESS);
    }
  }
}

TEST_CASE("a late packet does not reach a port whose LID is another by then") {
  pair_rig rig{nic_mode::paced, true, handle(false), infiniband()};
  REQUIRE(rig.net->set_delay("a/soft0", 20ms));
  fill(rig.a->memory, 100, 4);
  const auto before = rig.b->memory[0];
  REQUIRE(rig.a->write(1, rig.b->where(), 0, 0, 100) == 0);
  rig.run_for(1ms);
  REQUIRE(rig.net->set_lid("b/soft0", 500));
  rig.run_for(1s);
  CHECK(rig.b->memory[0] == before);
  CHECK(rig.count(log_kind::dropped_late) > 0);
}

TEST_CASE("a port without a subnet manager has no LID and is in INIT") {
  pair_rig rig{nic_mode::immediate, true, handle(false), infiniband()};
  REQUIRE(rig.net->set_lid("b/soft0", 0));
  const auto port = *rig.b->ctx.query_port(1);
  CHECK(port.state == IBV_PORT_INIT);
  CHECK(port.phys_state == 5);
  CHECK(port.lid == 0);
  CHECK(port.sm_lid == 0);
  REQUIRE(rig.net->raise_event("b/soft0", "CLIENT_REREGISTER"));
  rig.run_for(1ms);
  CHECK((*rig.b->ctx.next_async_event())->type == IBV_EVENT_LID_CHANGE);
  CHECK((*rig.b->ctx.next_async_event())->type == IBV_EVENT_CLIENT_REREGISTER);
}

TEST_CASE("LIDs are unique in a subnet and say nothing in another one") {
  const auto net = *fabric::open({});
  const auto a = std::move(*net->attach("a", {infiniband(9)}));
  CHECK(!net->attach("b", {infiniband(9)}));
  CHECK(!net->attach("b", {infiniband(1)}));
  CHECK(!net->attach("b", {infiniband(0x8000)}));
  auto second = infiniband(9, site_local);
  second.name = "soft1";
  const auto b = net->attach("b", {infiniband(), second});
  REQUIRE(b);
  CHECK(!net->set_lid("b/soft0", 9));
}

TEST_CASE("to another subnet packets need a GRH and the LID that routers know the port by") {
  const auto status = [](auto change) {
    two_subnets net;
    CHECK(router_lid(net.b->where().gid) >= 0x8000);
    auto to_b = net.b->where();
    auto to_a = net.a->where();
    to_b.lid = router_lid(to_b.gid);
    to_a.lid = router_lid(to_a.gid);
    change(net, to_a, to_b);
    net.a->connect(to_b);
    net.b->connect(to_a);
    REQUIRE(net.a->write(1, to_b, 0, 0, 100) == 0);
    while (const auto next = net.net->next_event()) {
      if (*next > net.clock.now())
        net.clock.set(*next);
      net.net->advance(net.clock.now());
    }
    return net.a->poll().at(0).status;
  };
  CHECK(status([](auto&, auto&, auto&) {}) == IBV_WC_SUCCESS);
  CHECK(status([](auto&, auto&, auto& to) { to.lid = 7; }) ==
        IBV_WC_RETRY_EXC_ERR); // a port of its own subnet
  CHECK(status([](auto& net, auto&, auto&) { net.a->options.grh = net.b->options.grh = false; }) ==
        IBV_WC_RETRY_EXC_ERR);
}

TEST_CASE("packets never cross link layers, whatever the addresses") {
  const auto net = *fabric::open({});
  auto roce = device_options{};
  gid_row row;
  row.index = 0;
  row.value = *parse_gid("fe80::1");
  roce.gids = {row};
  auto ib = infiniband();
  row.type = IBV_GID_TYPE_IB;
  ib.gids = {row};
  const auto a = std::move(*net->attach("a", {roce}));
  const auto b = std::move(*net->attach("b", {ib}));
  CHECK(!net->set_gid("b/soft0", {1, *parse_gid("10.0.0.1")})); // no RoCE address
  auto from = end::open(*a, 0, handle(true));
  auto to = end::open(*b, 0, handle(true));
  from->connect(to->where());
  to->connect(from->where());
  REQUIRE(from->write(1, to->where(), 0, 0, 8) == 0);
  const auto wcs = from->poll_for(1);
  REQUIRE(wcs.size() == 1);
  CHECK(wcs[0].status == IBV_WC_RETRY_EXC_ERR);
}

TEST_CASE("RoCE v1 and v2 do not understand each other, although the address is the same") {
  pair_rig rig{nic_mode::immediate, true};
  for (const auto type_at_b : {std::uint8_t{2}, std::uint8_t{3}}) { // v1, v2 of the IPv4 address
    rig.a = end::open(*rig.host_a, 0, handle(true, 3));
    rig.b = end::open(*rig.host_b, 0, handle(true, type_at_b));
    rig.connect();
    CHECK(outcome_of_write(rig) == (type_at_b == 3 ? IBV_WC_SUCCESS : IBV_WC_RETRY_EXC_ERR));
  }
}
