// SPDX-License-Identifier: Apache-2.0
//
// How soft-nic ends, and the sentence that goes with it.
#pragma once

#include "base/error.hpp"

#include <cstdio>

#include <fmt/format.h>

namespace actor_rdma::verbs::soft::tool {

enum exit_status : int {
  exit_done = 0,
  exit_refused = 1, ///< the fabric or the device said no
  exit_usage = 2,   ///< the command line is wrong
  exit_no_fabric = 3,
};

/// Prints the error. A value that is never accepted is the command line's fault.
inline int complain(const base::error& why) {
  fmt::print(stderr, "{}\n", why.to_string());
  return why.why == base::reason::invalid_argument ? exit_usage : exit_refused;
}

inline int report(const base::expected<void>& result) {
  return result ? exit_done : complain(result.error());
}

} // namespace actor_rdma::verbs::soft::tool
