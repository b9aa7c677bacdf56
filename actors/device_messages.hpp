// SPDX-License-Identifier: Apache-2.0
// Messages between devices, the node and those who use devices. Part of messages.hpp, which says what holds
// for all messages; included by it.
#pragma once

#include "bootstrap/messages.hpp"

#include <cstdint>
#include <memory>

#include <caf/actor.hpp>

namespace actor_rdma::actors {

class device;
class lane_env;
struct open_device;

/// device -> endpoints, node; one per change.
struct device_changed {
  std::uint16_t device = 0;
  bool active = false;
  bool gone = false; ///< closed for good
  bool lost = false; ///< with all that was made of it, until it is opened again
  /// What memory is to be registered with. Nothing: the device is lost, its QPs are gone, and now its regions
  /// have to go.
  std::shared_ptr<open_device> open;
  std::uint32_t opening = 0; ///< counts, from 1, how often it was opened
  bootstrap::port_address address;
};
/// node -> peers, guests: a device appeared; one per device.
struct device_added {
  std::shared_ptr<device> object;
  caf::actor handle;
  lane_env* env = nullptr;
};
/// node -> device, once per opening but the first: all memory is registered on it and its keys are published.
struct memory_registered {
  std::uint32_t opening = 0;
};
/// node -> device, per opening that was lost: none of its memory regions is left, or some refused to go.
struct memory_released {
  std::uint32_t opening = 0;
  bool all = true;
};
/// endpoint, node -> device: tell me changes, and the present state at once.
struct subscribe {
  caf::actor who;
};
/// endpoint -> device, once, when it ends: a device outlives many endpoints and must not keep them.
struct unsubscribe {
  caf::actor who;
};

} // namespace actor_rdma::actors
