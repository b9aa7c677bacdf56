// SPDX-License-Identifier: Apache-2.0
// The choice of a GID over layouts as ports of real machines show them.
#include "actors/gid_choice.hpp"

#include <algorithm>
#include <cstring>
#include <sstream>
#include <vector>

#include <arpa/inet.h>
#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace actor_rdma::actors;

namespace {

bootstrap::gid_bytes gid_of(const std::string& text) {
  bootstrap::gid_bytes g{};
  REQUIRE(::inet_pton(AF_INET6, text.c_str(), g.data()) == 1);
  return g;
}

std::uint8_t type_of(const std::string& word) {
  return word == "ib" ? 0 : word == "v1" ? 1 : 2;
}

/// "0 v1 fe80::1, 3 v2 ::ffff:10.0.0.1 down"
std::vector<gid_candidate> table_of(const std::string& text) {
  std::vector<gid_candidate> table;
  std::istringstream rows(text);
  for (std::string row; std::getline(rows, row, ',');) {
    std::istringstream words(row);
    gid_candidate c;
    std::string type;
    std::string gid;
    std::string state;
    words >> c.index >> type >> gid >> state;
    c.type = type_of(type);
    c.gid = gid_of(gid);
    c.interface_index = 7;
    c.interface_up = state != "down";
    table.push_back(c);
  }
  return table;
}

/// "v2 ::ffff:10.0.0.1", or nothing.
std::optional<gid_address> address_of(const std::string& text) {
  if (text.empty())
    return std::nullopt;
  const auto space = text.find(' ');
  return gid_address{gid_of(text.substr(space + 1)), type_of(text.substr(0, space))};
}

struct layout {
  const char* what;
  const char* table;
  const char* peer;
  const char* present;
  std::uint32_t expected;
};

constexpr layout layouts[] = {
    {"ConnectX with one IPv4 address",
     "0 v1 fe80::ba59:9fff:fe03:1, 1 v2 fe80::ba59:9fff:fe03:1, 2 v1 ::ffff:10.1.2.3, "
     "3 v2 ::ffff:10.1.2.3",
     "v2 ::ffff:10.9.0.1", "", 3},
    {"the same before the peer is known",
     "0 v1 fe80::1, 1 v2 fe80::1, 2 v1 ::ffff:10.1.2.3, 3 v2 ::ffff:10.1.2.3", "", "", 3},
    {"link-local first, private IPv4 second (D-01)", "0 v2 fe80::1, 1 v2 ::ffff:10.4.0.9",
     "v2 ::ffff:10.77.0.1", "", 1},
    {"10/8 is no overlay (D-01)", "0 v2 fe80::1, 1 v2 ::ffff:10.4.0.9", "", "", 1},
    {"172.16/12 and 192.168/16 neither", "0 v2 fe80::1, 1 v2 ::ffff:172.16.4.9, 2 v1 ::ffff:192.168.1.1", "",
     "", 1},
    {"unique local IPv6 only (D-03)", "0 v2 fe80::1, 1 v2 fc00::5", "v2 fc00:1::7", "", 1},
    {"fd00::/8 (D-03)", "0 v1 fe80::1, 1 v2 fe80::1, 2 v1 fd12::5, 3 v2 fd12::5", "", "", 3},
    {"global IPv6 only", "0 v1 fe80::1, 1 v2 fe80::1, 2 v1 2001:db8::5, 3 v2 2001:db8::5", "v2 2001:db8:9::1",
     "", 3},
    {"broadcom: v1 and v2 alternate the other way round",
     "0 v2 fe80::1, 1 v1 fe80::1, 2 v2 ::ffff:10.0.0.2, "
     "3 v1 ::ffff:10.0.0.2",
     "", "", 2},
    {"irdma: one address, RoCE v2 only", "0 v2 ::ffff:10.0.0.2", "", "", 0},
    {"rxe: link-local and IPv4", "0 v2 fe80::5054:ff:fe12:3456, 1 v2 ::ffff:192.168.122.5",
     "v2 ::ffff:192.168.122.6", "", 1},
    {"EFA-like: a single link-local", "0 v2 fe80::1", "v2 fe80::2", "", 0},
    {"InfiniBand port", "0 ib fe80::506b:4b03:1:1", "ib fe80::506b:4b03:1:2", "", 0},
    {"InfiniBand with an alias GUID", "0 ib fec0:0:0:1::1, 1 ib fec0:0:0:1::2", "", "", 0},
    {"InfiniBand with a GID that routers know", "0 ib fec0:0:0:1::1, 1 ib fec0:0:8001:1::1", "", "", 1},
    {"InfiniBand, a peer of another subnet whose GUID is like an alias GUID",
     "0 ib fec0:0:0:1::1, 1 ib fec0:0:0:1::ff02", "ib fec0:0:0:2::ff02", "", 0},
    {"RoCE v1 only", "0 v1 fe80::1, 1 v1 ::ffff:10.0.0.1", "v1 ::ffff:10.0.0.2", "", 1},
    {"the peer speaks RoCE v1 only", "0 v1 fe80::1, 1 v2 fe80::1, 2 v1 ::ffff:10.0.0.1, 3 v2 ::ffff:10.0.0.1",
     "v1 ::ffff:10.0.0.2", "", 2},
    {"IPv4 and IPv6, the peer has IPv6", "0 v2 fe80::1, 1 v2 ::ffff:10.0.0.1, 2 v2 2001:db8::1",
     "v2 2001:db8::2", "", 2},
    {"IPv4 and IPv6, the peer has IPv4", "0 v2 fe80::1, 1 v2 2001:db8::1, 2 v2 ::ffff:10.0.0.1",
     "v2 ::ffff:10.0.0.2", "", 2},
    {"IPv4 and IPv6, nobody is known: IPv4, in whatever order", "0 v2 2001:db8::1, 1 v2 ::ffff:10.0.0.1", "",
     "", 1},
    {"global before unique local", "0 v2 fd00::1, 1 v2 2001:db8::1", "", "", 1},
    {"the peer has nothing but link-local", "0 v2 fe80::1, 1 v2 ::ffff:10.0.0.1", "v2 fe80::9", "", 0},
    {"VLAN interface is down", "0 v2 fe80::1, 1 v2 ::ffff:10.5.0.1 down, 2 v2 ::ffff:10.6.0.1",
     "v2 ::ffff:10.5.0.2", "", 2},
    {"the only routable address is on an interface that is down", "0 v2 fe80::1, 1 v2 ::ffff:10.5.0.1 down",
     "", "", 0},
    {"two subnets: the peer's", "0 v2 fe80::1, 1 v2 ::ffff:10.1.0.1, 2 v2 ::ffff:10.2.0.1",
     "v2 ::ffff:10.2.0.77", "", 2},
    {"two subnets, a peer behind a router", "0 v2 fe80::1, 1 v2 ::ffff:10.1.0.1, 2 v2 ::ffff:10.2.0.1",
     "v2 ::ffff:192.168.0.77", "", 1},
    {"the present one stays among equals", "1 v2 ::ffff:10.1.0.1, 2 v2 ::ffff:10.2.0.1", "",
     "v2 ::ffff:10.2.0.1", 2},
    {"the present one moved from 3 to 5 (D-04)",
     "0 v1 fe80::1, 1 v2 fe80::1, 4 v2 ::ffff:10.8.0.1, 5 v2 ::ffff:10.1.0.1", "", "v2 ::ffff:10.1.0.1", 5},
    {"the present one is gone (D-04)", "0 v1 fe80::1, 1 v2 fe80::1, 4 v2 ::ffff:10.8.0.1", "",
     "v2 ::ffff:10.1.0.1", 4},
    {"a routable one has come: link-local is left", "0 v2 fe80::1, 3 v2 ::ffff:10.8.0.1", "", "v2 fe80::1",
     3},
    {"IPv4 link-local (169.254/16) is link-local", "0 v2 ::ffff:169.254.3.4, 1 v2 fd00::1", "", "", 1},
    {"loopback and multicast are nothing", "0 v2 ::1, 1 v2 ::ffff:127.0.0.1, 2 v2 ff02::1, 3 v1 fe80::1", "",
     "", 3},
    {"bond: an address per slave port and one of the bond",
     "0 v1 fe80::1 down, 1 v2 fe80::1 down, 2 v1 fe80::b, "
     "3 v2 fe80::b, 4 v1 ::ffff:10.0.0.3, 5 v2 ::ffff:10.0.0.3",
     "v2 ::ffff:10.0.0.4", "", 5},
    {"container: the host's addresses first, ours behind holes",
     "1 v2 fe80::1 down, 9 v2 ::ffff:10.244.1.7, 12 v1 fe80::2", "", "", 9},
};

} // namespace

TEST_CASE("the choice is right for the layouts of real machines") {
  static_assert(std::size(layouts) >= 30);
  for (const auto& l : layouts) {
    CAPTURE(l.what);
    auto table = table_of(l.table);
    gid_wish wish;
    wish.peer = address_of(l.peer);
    wish.present = address_of(l.present);
    const auto choice = choose_gid(table, wish);
    REQUIRE(choice);
    CHECK(choice->chosen.index == l.expected);
    CHECK(choice->reasons.find(gid_text(choice->chosen.gid)) != std::string::npos);
    std::reverse(table.begin(), table.end()); // the order of reading does not matter
    CHECK(choose_gid(table, wish)->chosen.index == l.expected);
  }
}

TEST_CASE("an index that is asked for is honoured, whatever is there, and refused when nothing is") {
  const auto table = table_of("0 v1 fe80::1 down, 3 v2 ::ffff:10.0.0.1");
  gid_wish wish;
  wish.index = 0;
  CHECK(choose_gid(table, wish)->chosen.index == 0);
  CHECK(choose_gid(table, wish)->reasons.find("gid_index asks for it") != std::string::npos);
  wish.index = 2;
  const auto refused = choose_gid(table, wish);
  REQUIRE(!refused);
  CHECK(refused.error().why == base::reason::not_found);
  CHECK(refused.error().what.find("gid_index 2 is an empty place") != std::string::npos);
  CHECK(refused.error().what.find("3 (::ffff:10.0.0.1)") != std::string::npos);
}

TEST_CASE("an empty table has no choice, nor has one of useless addresses") {
  CHECK(!choose_gid({}, {}));
  CHECK(!choose_gid(table_of("0 v2 ::1"), {}));
}

TEST_CASE("the reasons name what lost and why") {
  gid_wish wish;
  wish.peer = address_of("v2 ::ffff:10.9.0.1");
  const auto table =
      table_of("0 v2 fe80::1, 1 v2 ::ffff:10.1.2.3, 2 v1 ::ffff:10.1.2.3, 3 v2 ::ffff:10.5.5.5 down");
  const auto choice = choose_gid(table, wish);
  REQUIRE(choice);
  CHECK(choice->reasons ==
        "GID 1 ::ffff:10.1.2.3: RoCE v2, routable (IPv4), interface 7 up, reaches the peer's "
        "::ffff:10.9.0.1; not 0 fe80::1: it cannot reach the peer's; not 2 ::ffff:10.1.2.3: it "
        "cannot reach the peer's; not 3 ::ffff:10.5.5.5: its interface is down");
}

TEST_CASE("an address is found by its value wherever it is now") {
  const auto table = table_of("0 v1 ::ffff:10.0.0.1, 5 v2 ::ffff:10.0.0.1");
  CHECK(find_gid(table, *address_of("v2 ::ffff:10.0.0.1")) == 5U);
  CHECK(find_gid(table, *address_of("v1 ::ffff:10.0.0.1")) == 0U);
  CHECK(!find_gid(table, *address_of("v2 ::ffff:10.0.0.2")));
}
