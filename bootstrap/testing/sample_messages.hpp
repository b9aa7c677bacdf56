// SPDX-License-Identifier: Apache-2.0
//
// One message of every type, with no field at its default.
#pragma once

#include "bootstrap/messages.hpp"

#include <vector>

namespace actor_rdma::bootstrap::testing {

inline port_address sample_port() {
  port_address port;
  port.device = "soft0";
  for (std::size_t i = 0; i < port.gid.size(); ++i)
    port.gid[i] = static_cast<std::uint8_t>(0xf0 + i);
  port.lid = 0x1234;
  port.gid_type = 2;
  port.link_layer = 2;
  port.grh = false;
  port.mtu = 4096;
  port.read_depth = 8;
  return port;
}

inline qp_address sample_qp(std::uint16_t index) {
  return {index, 0x100u + index, 0xabcdefu - index, 7};
}

inline std::vector<message> sample_messages() {
  segment published{"seg", 3, {sample_port(), sample_port()}, {}, 0x7000, {11, 12}};
  published.buffers = {{1, 0x10000, 4096, false, {21, 22}}, {2, 0xfffffffffffff000, 4096, true, {31, 0}}};
  const std::vector<body> bodies = {
      hello{"node-a", "build-1", 0x8000000000000001, "hmac", 7, std::vector{5u, 6u}},
      publish{published},
      connect{5, sample_port(), "soft1", {sample_qp(0), sample_qp(1)}},
      accept{5, sample_port(), {sample_qp(0), sample_qp(1)}},
      rebuild{5, sample_port(), sample_qp(1)},
      rebuilt{5, sample_port(), sample_qp(1)},
      retire{5, 1, 7, true, "stall"},
      retired{5, 1, 7, true},
      reject{5, 1, 7, reject_code::busy, "later", 250},
      ping{42},
      pong{43},
      goodbye{"shutdown"},
      notice{0x8000000000000002, 9, "layer 7", {0x00, 0xff, 0x7f}},
      noticed{0x8000000000000002, 8, 72, true, true},
  };
  std::vector<message> result;
  for (const auto& what : bodies)
    result.push_back({protocol_version, 0xaaaa, 0xbbbb, what});
  return result;
}

} // namespace actor_rdma::bootstrap::testing
