// SPDX-License-Identifier: Apache-2.0
#include "actors/port_name.hpp"

#include <doctest/doctest.h>

using namespace actor_rdma::actors;

TEST_CASE("a port is named by its device and its number, and port 1 by the device alone") {
  for (const auto* text : {"mlx5_0", "mlx5_0:1"}) {
    CHECK(parse_port_name(text).device == "mlx5_0");
    CHECK(parse_port_name(text).port == 1);
    CHECK(parse_port_name(text).text() == "mlx5_0");
  }
  CHECK(parse_port_name("mlx5_0:2").device == "mlx5_0");
  CHECK(parse_port_name("mlx5_0:2").port == 2);
  CHECK(parse_port_name("mlx5_0:2").text() == "mlx5_0:2");
}

TEST_CASE("what is no port number is part of a device's name") {
  for (const auto* text : {"mlx5_0:", "mlx5_0:0", "mlx5_0:255", "mlx5_0:x", "mlx5_0:2x", "mlx5_0:-1"}) {
    CHECK(parse_port_name(text).device == text);
    CHECK(parse_port_name(text).port == 1);
  }
}

TEST_CASE("of a device those ports are wanted that are named, once each, and port 1 if nothing is said") {
  using ports = std::vector<std::uint8_t>;
  CHECK(wanted_ports("a", {}) == ports{1});
  CHECK(wanted_ports("a", {"b", "b:2"}).empty());
  CHECK(wanted_ports("a", {"a:2", "b", "a", "a:1", "a:2"}) == ports{1, 2});
  CHECK(wanted_ports("a", {"a:2"}) == ports{2});
}
