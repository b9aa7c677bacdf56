// SPDX-License-Identifier: Apache-2.0
#include "drill/kernel/suits_kernel.hpp"

#include "drill/format/read.hpp"

#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace actor_rdma::drill;

namespace {

std::vector<std::string> complaints(const std::string& devices_of_a, const std::string& faults) {
  const auto what = parse_scenario(R"({"id": "x", "title": "y", "hosts": [{"name": "a", "devices": [{)" +
                                   devices_of_a + R"(}]}, {"name": "b", "devices": [{}]}],
      "traffic": [{"from": "a", "to": "b"}], "faults": [)" +
                                   faults + "]}");
  REQUIRE_MESSAGE(what.has_value(), what.error().front());
  std::vector<kernel_device> devices(2);
  devices[0].name = "a/soft0";
  devices[0].cable = "sw0";
  devices[1].name = "b/soft0";
  return refuse_on_kernel(*what, devices);
}

bool begins(const std::vector<std::string>& all, const std::string& with) {
  return all.size() == 1 && all.front().find(with) == 0;
}

} // namespace

TEST_CASE("on the kernel only what can be done to a network, a process or a control link is accepted") {
  CHECK(complaints("", R"({"at_ms": 1, "kind": "link_down", "device": "a/soft0", "for_ms": 5},
                          {"at_ms": 1, "kind": "packets_lost", "device": "a/soft0", "direction": "rx"},
                          {"at_ms": 1, "kind": "carrier_lost", "device": "a/soft0"},
                          {"at_ms": 9, "kind": "host_kill", "host": "b"})")
            .empty());
  CHECK(begins(complaints("", R"({"at_ms": 1, "kind": "hang", "device": "a/soft0"})"),
               "faults[0].kind: hang is done to the software NIC only"));
  CHECK(begins(complaints("", R"({"at_ms": 1, "kind": "link_down", "device": "a/soft0", "quiet": true})"),
               "faults[0].quiet: "));
  CHECK(begins(complaints("", R"({"at_ms": 1, "kind": "packets_lost", "device": "a/soft0", "peer": "b"})"),
               "faults[0].peer: "));
  CHECK(begins(
      complaints("", R"({"at_ms": 1, "kind": "packets_lost", "device": "a/soft0", "direction": "ack"})"),
      "faults[0].direction: is ack"));
}

TEST_CASE("what the machine's network has not is refused with the device that lacks it") {
  CHECK(begins(complaints("", R"({"at_ms": 1, "kind": "carrier_lost", "device": "b/soft0"})"),
               "faults[0].device: the devices file names no cable of b/soft0"));
  CHECK(begins(complaints("", R"({"at_ms": 1, "kind": "address_lost", "device": "a/soft0"})"),
               "faults[0].device: the devices file names no addresses of a/soft0"));
  CHECK(begins(complaints(R"("bond_members": 2)",
                          R"({"at_ms": 1, "kind": "member_down", "device": "a/soft0", "member": 1})"),
               "faults[0].member: the devices file names 0 members of a/soft0"));
  CHECK(begins(complaints(R"("ports": 2)", ""), "hosts: a/soft0: ports, link_layer, lid and gids"));
  CHECK(begins(complaints(R"("count": 2)", ""), "hosts: the devices file has no a/soft1"));
}
