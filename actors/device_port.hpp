// SPDX-License-Identifier: Apache-2.0
// What one look at a port found. Internal to the device actor.
#pragma once

#include "actors/device.hpp"

namespace actor_rdma::actors {

struct device::port_reading {
  /// `ib_grh`: an InfiniBand port wants a GRH within its subnet too. Blocks; not on a lane.
  static port_reading take(const open_device& dev, std::uint8_t read_depth, bool ib_grh);
  /// A port that does not say is an InfiniBand port if it has a LID.
  static std::uint8_t link_layer_of(const ibv_port_attr& port) noexcept;

  base::error failure{base::reason::none};
  bool up = false;
  bootstrap::port_address address; ///< but its GID
  std::vector<gid_candidate> gids;
  double bytes_per_second = 0;
};

} // namespace actor_rdma::actors
