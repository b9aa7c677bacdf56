// SPDX-License-Identifier: Apache-2.0
// What of a scenario cannot be played on devices of the kernel.
#pragma once

#include "drill/kernel/devices_file.hpp"
#include "drill/scenario.hpp"

#include <string>
#include <vector>

namespace actor_rdma::drill {

/// Complaints with their places, "faults[2].kind: ...", beside those of real time; empty: it can be played.
std::vector<std::string> refuse_on_kernel(const scenario& what, const std::vector<kernel_device>& devices);

} // namespace actor_rdma::drill
