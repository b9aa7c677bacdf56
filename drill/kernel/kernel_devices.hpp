// SPDX-License-Identifier: Apache-2.0
// Devices of the kernel for a run in real time.
#pragma once

#include "drill/real/real_devices.hpp"

#include <memory>
#include <string>

namespace actor_rdma::drill {

/// Those of a devices file (drill/kernel/devices_file.hpp). The network is put in order before and after.
std::unique_ptr<real_devices> make_kernel_devices(const std::string& devices_file);

} // namespace actor_rdma::drill
