// SPDX-License-Identifier: Apache-2.0
// How a port of an RDMA device is named in options, events and towards peers: port 1 as its device, "mlx5_0",
// and another one with its number behind that, "mlx5_0:2". No RDMA device has a colon in its name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace actor_rdma::actors {

struct port_name {
  std::string device;
  std::uint8_t port = 1;
  /// "mlx5_0" or "mlx5_0:2"; never "mlx5_0:1".
  std::string text() const;
};

/// "mlx5_0", "mlx5_0:1" and "mlx5_0:2". What is no number from 1 to 254 behind the colon is part of the
/// device's name, and there will be no such device.
port_name parse_port_name(std::string_view text);

/// The ports of a device that are wanted, in the order of their numbers: port 1 if nothing is said, else
/// those that are among `only`.
std::vector<std::uint8_t> wanted_ports(const std::string& device, const std::vector<std::string>& only);

} // namespace actor_rdma::actors
