// SPDX-License-Identifier: Apache-2.0
//
// The control surface on the shared tables: faults, rates and modes of devices that may belong to any
// process.
#pragma once

#include "base/error.hpp"
#include "verbs/soft/fabric.hpp"
#include "verbs/soft/layout.hpp"
#include "verbs/soft/runtime.hpp"

#include <cstdint>
#include <string_view>
#include <vector>

namespace actor_rdma::verbs::soft {

/// The device's slot by "host/soft0", or by "soft0" if only one host has it. Devices of dead processes do not
/// count.
[[nodiscard]] base::expected<std::uint32_t> find_device(const runtime& rt, std::string_view name);

[[nodiscard]] base::expected<void> set_link(runtime& rt, std::string_view device, bool up);
[[nodiscard]] base::expected<void> set_hang(runtime& rt, std::string_view device, bool on);
[[nodiscard]] base::expected<void> set_delay(runtime& rt, std::string_view device, base::duration by);
[[nodiscard]] base::expected<void> set_mode(runtime& rt, std::string_view device, nic_mode mode);
[[nodiscard]] base::expected<void> set_rate(runtime& rt, std::string_view device, double gbit_s);
[[nodiscard]] std::vector<device_state> list_devices(const runtime& rt);

} // namespace actor_rdma::verbs::soft
