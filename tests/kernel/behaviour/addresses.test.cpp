// SPDX-License-Identifier: Apache-2.0
//
// Rows of the behaviour table: addresses, MTU, and devices that are taken away.
#include "tests/kernel/behaviour/duo.hpp"
#include "tests/kernel/behaviour/rows.hpp"

#include <cerrno>

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace actor_rdma::tests::kernel;
using namespace std::chrono_literals;

TEST_CASE("addresses: a second one comes and goes") {
  duo d;
  const auto gids = d.a().ctx.query_gids(1);
  REQUIRE(gids);
  fault_play what{"second address added", [](stage& s) { return s.second_address(side::a, true); },
                  [](stage& s) { return s.second_address(side::a, false); }};
  what.lasts = 500ms;
  play(d, what);
  CHECK(d.seen.saw(side::a, IBV_EVENT_GID_CHANGE));
  mend_and_go_on(d);
}

TEST_CASE("addresses: the one in use is taken away, and comes back at another place") {
  duo d;
  const auto old_index = d.a().options.gid_index;
  fault_play what{"own address removed", [](stage& s) { return s.address(side::a, false); },
                  [](stage& s) { return s.address(side::a, true); }};
  play(d, what);
  CHECK(d.seen.saw(side::a, IBV_EVENT_GID_CHANGE));
  std::optional<std::uint8_t> new_index; // 6.12 puts it in a moment after the address is back
  d.run(false, 2s, [&] { return (new_index = d.index_of(d.a(), d.on().gid(side::a))).has_value(); });
  REQUIRE(new_index);
  check_row(d.on().where(), "where a returned address is found",
            *new_index == old_index ? "same" : "another");
  // Its old place is empty, though queue pairs may still hold it.
  d.renew();
  REQUIRE(d.a().to_init() == 0);
  d.a().options.gid_index = old_index;
  check_row(d.on().where(), "RTR with the index that it had", errno_name(d.a().to_rtr(d.where(side::b))));
  mend_and_go_on(d);
}

TEST_CASE("addresses: that of the peer is taken away") {
  duo d;
  play(d, {"peer's address removed", [](stage& s) { return s.address(side::b, false); },
           [](stage& s) { return s.address(side::b, true); }});
  CHECK(d.seen.events[0].empty());
  mend_and_go_on(d);
}

TEST_CASE("addresses: the MAC address changes") {
  duo d;
  fault_play what{"own MAC address changed", [](stage& s) { return s.other_mac(side::a); },
                  [](stage&) { return stage::done{}; }};
  play(d, what);
  CHECK(d.seen.saw(side::a, IBV_EVENT_GID_CHANGE));
  CHECK(!d.seen.saw(side::a, IBV_EVENT_PORT_ERR));
  mend_and_go_on(d);
}

TEST_CASE("addresses: the MTU becomes smaller than that of the path") {
  duo d;
  const auto before = d.a().ctx.query_port(1)->active_mtu;
  play(d, {"MTU below that of the path", [](stage& s) { return s.small_mtu(side::a, true); },
           [&](stage& s) {
             CHECK(d.a().ctx.query_port(1)->active_mtu == IBV_MTU_512);
             return s.small_mtu(side::a, false);
           }});
  CHECK(d.a().ctx.query_port(1)->active_mtu == before);
  mend_and_go_on(d);
}

TEST_CASE("devices: one is deleted while it is open") {
  duo d;
  const auto removed = d.on().remove_device(side::a);
  REQUIRE_MESSAGE(removed, (removed ? "" : removed.error().to_string()));
  d.run(false, 500ms);
  const bool is_told = d.seen.saw(side::a, IBV_EVENT_DEVICE_FATAL);
  std::string outcome = "goes on";
  if (is_told)
    outcome = d.post_one() != 0 ? "fatal" : "fatal, and posts";
  else if (!d.traffic_flows())
    outcome = "stops without a word";
  check_row(d.on().where(), "device deleted while it is open", outcome, describe(d.seen));
  CHECK(d.on().device(side::a) == nullptr);
  CHECK(d.on().is_removed(side::a) == is_told); // the kernel waits for the last one who has it open
  d.close();
  CHECK(d.run_closed(5s, [&] { return d.on().is_removed(side::a); }));
  const auto returned = d.on().return_device(side::a);
  REQUIRE_MESSAGE(returned, (returned ? "" : returned.error().to_string()));
  CHECK(d.run_closed(5s, [&] { return d.on().device(side::a) != nullptr; }));
  d.open();
  CHECK(d.try_connect() == 0);
  d.forget();
  CHECK(d.traffic_flows());
}
