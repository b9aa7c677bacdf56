// SPDX-License-Identifier: Apache-2.0
//
// What a user says to the drop-in library. Programs that run on it know nothing of it, so all of it comes
// from environment variables; docs/dropin.md lists them.
#pragma once

#include "base/error.hpp"
#include "verbs/soft/fabric.hpp"

#include <functional>
#include <string>
#include <vector>

namespace actor_rdma::verbs::dropin {

inline constexpr const char* fabric_variable = "ACTOR_RDMA_SOFT_FABRIC";
inline constexpr const char* host_variable = "ACTOR_RDMA_SOFT_HOST";
inline constexpr const char* devices_variable = "ACTOR_RDMA_SOFT_DEVICES";
inline constexpr const char* mode_variable = "ACTOR_RDMA_SOFT_MODE";
inline constexpr const char* rate_variable = "ACTOR_RDMA_SOFT_RATE_GBIT";
inline constexpr const char* latency_variable = "ACTOR_RDMA_SOFT_LATENCY";
inline constexpr const char* link_layer_variable = "ACTOR_RDMA_SOFT_LINK_LAYER";
inline constexpr const char* yield_variable = "ACTOR_RDMA_SOFT_YIELD";

inline constexpr unsigned max_devices = 16;

struct settings {
  std::string fabric = "default";
  std::string host; ///< empty: the program's name and pid
  std::vector<soft::device_options> devices;
  unsigned yield_after = 20; ///< empty polls in a row before the core is given up; 0: never
};

/// As std::getenv, or a test's map.
using lookup = std::function<const char*(const char* name)>;

/// A value that is set but wrong is an error that names its variable and what would be accepted.
[[nodiscard]] base::expected<settings> read_environment(const lookup& get);

} // namespace actor_rdma::verbs::dropin
