// SPDX-License-Identifier: Apache-2.0
#include "drill/kernel/kernel_network.hpp"

#include "drill/kernel/devices_file.hpp"
#include "drill/kernel/interfaces.hpp"

#include <cerrno>
#include <string>

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace actor_rdma::drill;

namespace {

std::string error_of(const std::string& text) {
  const auto read = parse_devices(text, "f");
  return read ? std::string{} : read.error().what;
}

} // namespace

TEST_CASE("a devices file says which device of the kernel stands for which of a scenario") {
  const auto read = parse_devices(R"({"devices": {
    "a/soft0": {"device": "rxe0", "netdev": "n0", "cable": "sw0", "addresses": ["10.7.0.1/24", "fd00::1/64"]},
    "b/soft0": {"device": "rxe1", "netdev": "bond0", "members": [{"netdev": "m0", "cable": "sw1"}]}}})",
                                  "f");
  REQUIRE(read);
  REQUIRE(read->size() == 2);
  CHECK((*read)[0].name == "a/soft0");
  CHECK((*read)[0].device == "rxe0");
  CHECK((*read)[0].cable == "sw0");
  CHECK((*read)[0].addresses == std::vector<std::string>{"10.7.0.1/24", "fd00::1/64"});
  CHECK((*read)[1].cable.empty());
  REQUIRE((*read)[1].members.size() == 1);
  CHECK((*read)[1].members[0].cable == "sw1");
}

TEST_CASE("what is wrong in a devices file is refused by its place") {
  CHECK(error_of("{").find("f: is not JSON") == 0);
  CHECK(error_of("{}").find("f: devices: is missing") == 0);
  CHECK(error_of(R"({"devices": {}})").find("f: devices: ") == 0);
  CHECK(error_of(R"({"devices": {"a/soft0": {"netdev": "n0"}}})")
            .find("f: devices.a/soft0.device: is missing") == 0);
  CHECK(error_of(R"({"devices": {"a/soft0": {"device": "r", "netdev": "n0", "wire": "x"}}})")
            .find("f: devices.a/soft0.wire: is not a key here") == 0);
}

TEST_CASE("an interface that is not there, and an address that is none, are refused with what was asked") {
  const auto up = interfaces::set_up("no-such-netdev", true);
  REQUIRE_FALSE(up);
  CHECK(up.error().what.find("no-such-netdev") != std::string::npos);
  CHECK(up.error().sys_errno == ENODEV);
  const auto address = interfaces::set_address("lo", "10.7.0.300/24", true);
  REQUIRE_FALSE(address);
  CHECK(address.error().what.find("10.7.0.300/24") != std::string::npos);
  const auto mac = interfaces::set_mac("lo", "02:00:00:00:00");
  REQUIRE_FALSE(mac);
  CHECK(mac.error().why == base::reason::invalid_argument);
}
