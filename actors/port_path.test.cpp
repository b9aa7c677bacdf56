// SPDX-License-Identifier: Apache-2.0
// Address handles for each kind of port, and which ports are paired.
#include "actors/port_path.hpp"

#include <arpa/inet.h>
#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace actor_rdma::actors;

namespace {

constexpr std::uint8_t ib = IBV_LINK_LAYER_INFINIBAND;
constexpr std::uint8_t eth = IBV_LINK_LAYER_ETHERNET;

bootstrap::port_address port(std::uint8_t layer, std::uint16_t lid, const char* gid, bool grh = false) {
  bootstrap::port_address p;
  p.link_layer = layer;
  p.lid = lid;
  p.grh = grh;
  p.gid_type = layer == ib ? IBV_GID_TYPE_IB : IBV_GID_TYPE_ROCE_V2;
  REQUIRE(::inet_pton(AF_INET6, gid, p.gid.data()) == 1);
  return p;
}

std::vector<rail> pairs(std::vector<std::uint8_t> ours, std::vector<std::uint8_t> theirs,
                        std::vector<rail> have = {}) {
  return missing_rails(ours, theirs, have);
}

using rails = std::vector<rail>;

} // namespace

TEST_CASE("within an InfiniBand subnet the LID is the address and there is no GRH") {
  const auto a = port(ib, 5, "fe80::5");
  const auto b = port(ib, 9, "fe80::9");
  CHECK(!needs_grh(a, b));
  const auto h = address_handle(a, 1, 0, b);
  CHECK(h.is_global == 0);
  CHECK(h.dlid == 9);
  CHECK(h.port_num == 1);
}

TEST_CASE("RoCE always has a GRH, whatever a peer says of it") {
  const auto a = port(eth, 0, "::ffff:10.0.0.1");
  const auto b = port(eth, 0, "::ffff:10.0.0.2");
  CHECK(needs_grh(a, b));
  const auto h = address_handle(a, 1, 3, b);
  CHECK(h.is_global == 1);
  CHECK(h.grh.sgid_index == 3);
  CHECK(h.grh.hop_limit == 64);
  CHECK(std::equal(b.gid.begin(), b.gid.end(), h.grh.dgid.raw));
}

TEST_CASE("an InfiniBand port has a GRH if either end asks for one, and both ends come to the same") {
  const auto a = port(ib, 5, "fe80::5");
  const auto b = port(ib, 9, "fe80::9", true);
  for (const auto& [x, y] : {std::pair{a, b}, std::pair{b, a}}) {
    CHECK(needs_grh(x, y));
    const auto h = address_handle(x, 1, 0, y);
    CHECK(h.is_global == 1);
    CHECK(h.dlid == y.lid);
  }
}

TEST_CASE("to another InfiniBand subnet the packets have a GRH and the LID of the way out") {
  const auto a = port(ib, 5, "fec0:0:0:1::5");
  const auto b = port(ib, 9, "fec0:0:8003:2::9");
  CHECK(router_lid(b.gid) == 0x8003);
  CHECK(router_lid(port(ib, 1, "fe80:0:8003:2::9").gid) == 0); // not site-local
  CHECK(address_handle(a, 1, 1, b).is_global == 1);
  CHECK(address_handle(a, 1, 1, b).dlid == 0x8003);
  CHECK(address_handle(b, 1, 1, a).dlid == 5); // it names none
  CHECK(same_subnet(port(ib, 1, "fec0:0:8001:2::1").gid, b.gid));
  CHECK(!same_subnet(a.gid, b.gid));
  // Within a subnet the LID for routers is not used.
  const auto c = port(ib, 7, "fec0:0:8007:2::7");
  CHECK(address_handle(b, 1, 1, c).is_global == 0);
  CHECK(address_handle(b, 1, 1, c).dlid == 7);
}

TEST_CASE("a port that does not name its link layer is taken for what peers of earlier builds were") {
  auto old = port(0, 0, "::ffff:10.0.0.1", true);
  CHECK(link_layer_of(old) == eth);
  old.gid_type = IBV_GID_TYPE_IB; // iWARP
  CHECK(link_layer_of(old) == eth);
  old.lid = 4;
  CHECK(link_layer_of(old) == ib);
  CHECK(needs_grh(old, port(ib, 5, "::ffff:10.0.0.2"))); // they always have one
  CHECK(link_layer_text(ib) == "InfiniBand");
  CHECK(link_layer_text(eth) == "Ethernet");
  CHECK(link_layer_text(7) == "link layer 7");
}

TEST_CASE("devices of one link layer are paired in order, the shorter list again and again") {
  CHECK(pairs({eth, eth}, {eth, eth}) == rails{{0, 0}, {1, 1}});
  CHECK(pairs({eth, eth}, {eth, eth, eth, eth}) == rails{{0, 0}, {1, 1}, {0, 2}, {1, 3}});
  CHECK(pairs({ib, ib, ib}, {ib}) == rails{{0, 0}, {1, 0}, {2, 0}});
}

TEST_CASE("devices of different link layers are never paired, in whatever order they come") {
  CHECK(pairs({ib, eth}, {ib, eth}) == rails{{0, 0}, {1, 1}});
  CHECK(pairs({ib, eth}, {eth, ib}) == rails{{0, 1}, {1, 0}});
  CHECK(pairs({ib, ib, eth}, {eth, eth, ib}) == rails{{0, 2}, {1, 2}, {2, 0}, {2, 1}});
  CHECK(pairs({ib}, {eth}).empty());
  CHECK(pairs({ib, eth}, {eth}) == rails{{1, 0}});
}

TEST_CASE("devices that come later are paired beside the rails that there are") {
  CHECK(pairs({eth, ib}, {eth, eth}, {{0, 0}, {0, 1}}).empty());
  CHECK(pairs({eth, ib}, {eth, eth, ib}, {{0, 0}, {0, 1}}) == rails{{1, 2}});
  CHECK(pairs({eth, eth, eth}, {eth, eth}, {{0, 0}, {1, 1}}) == rails{{2, 0}});
}
