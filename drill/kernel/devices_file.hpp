// SPDX-License-Identifier: Apache-2.0
// Which devices of the kernel stand for which of a scenario, as the set-up of the machine wrote it down:
//   {"devices": {"a/soft0": {"device": "rxe0", "netdev": "n0", "cable": "sw0", "addresses":
//   ["10.7.0.1/24"]}}}
// A bond has its slaves in "members": [{"netdev": "m0", "cable": "sw0"}, ...].
#pragma once

#include "base/error.hpp"

#include <string>
#include <vector>

namespace actor_rdma::drill {

struct kernel_device {
  /// A slave of the bond under the device.
  struct member {
    std::string netdev;
    std::string cable;
  };
  std::string name;   ///< as scenarios say it: "a/soft0"
  std::string device; ///< as libibverbs says it: "rxe0"
  std::string netdev; ///< the interface under it
  std::string cable;  ///< the other end of its cable: a port of the switch; empty: there is no switch
  std::vector<std::string> addresses; ///< "10.7.0.1/24"
  std::vector<member> members;        ///< empty: no bond
};

/// Reads and checks the file; unknown keys, missing ones and doubles are refused by name.
base::expected<std::vector<kernel_device>> read_devices_file(const std::string& path);
/// The same from its text; `where` names it in errors.
base::expected<std::vector<kernel_device>> parse_devices(const std::string& text, const std::string& where);

} // namespace actor_rdma::drill
