// SPDX-License-Identifier: Apache-2.0
//
// The files that programs expect beside verbs: /sys/class/infiniband with the PCI function above each device,
// and /dev/infiniband. Either they are mounted where they belong, for a process and its descendants, or they
// lie in a directory to which libsoftfiles.so redirects.
#pragma once

#include "base/error.hpp"
#include "verbs/soft/device_options.hpp"

#include <string>
#include <vector>

namespace actor_rdma::verbs::dropin {

/// Where libsoftfiles.so finds the directory.
inline constexpr const char* view_variable = "ACTOR_RDMA_SOFT_VIEW";

/// Gives this process a mount namespace in which /sys/class and /dev/infiniband show the devices, beside
/// everything else that is in /sys/class. False when the kernel does not permit it; nothing has changed then.
[[nodiscard]] bool mount_view(const std::vector<soft::device_options>& devices);

/// The directory with the same files; it is made once per user, number of devices and their link layers, and
/// stays.
[[nodiscard]] base::expected<std::string> make_view(const std::vector<soft::device_options>& devices);

} // namespace actor_rdma::verbs::dropin
