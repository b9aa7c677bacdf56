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

[[nodiscard]] base::expected<void> set_link(runtime& rt, std::string_view device, bool up, bool is_quiet);
/// The same without finding the device and without announcing it. False if the link was there already.
bool change_link(layout::tables& t, nanos now, std::uint32_t device, bool up, bool is_quiet) noexcept;
[[nodiscard]] base::expected<void> set_hang(runtime& rt, std::string_view device, hang_mode mode);
[[nodiscard]] base::expected<void> raise_event(runtime& rt, std::string_view device, std::string_view type,
                                               std::uint32_t count, std::uint32_t qp_num);
[[nodiscard]] base::expected<void> reset_faults(runtime& rt);
[[nodiscard]] base::expected<std::uint32_t> add_rule(runtime& rt, std::string_view text);
[[nodiscard]] base::expected<void> remove_rule(runtime& rt, std::uint32_t id);
void clear_rules(runtime& rt);
[[nodiscard]] std::vector<rule_state> list_rules(const runtime& rt);
[[nodiscard]] base::expected<void> set_delay(runtime& rt, std::string_view device, base::duration by);
[[nodiscard]] base::expected<void> set_lost(runtime& rt, std::string_view device, bool on);
/// The same without finding the device and without announcing it. False if it was so already.
bool change_loss(layout::tables& t, nanos now, std::uint32_t device, bool lost) noexcept;
[[nodiscard]] base::expected<void> set_mode(runtime& rt, std::string_view device, nic_mode mode);
[[nodiscard]] base::expected<void> set_gid(runtime& rt, std::string_view device, const gid_row& row);
[[nodiscard]] base::expected<void> delete_gid(runtime& rt, std::string_view device, std::uint32_t index);
[[nodiscard]] base::expected<void> move_gid(runtime& rt, std::string_view device, std::uint32_t from,
                                            std::uint32_t to);
[[nodiscard]] base::expected<std::vector<gid_row>> list_gids(const runtime& rt, std::string_view device);
[[nodiscard]] base::expected<void> set_mtu(runtime& rt, std::string_view device, std::uint32_t bytes);
[[nodiscard]] base::expected<void> set_lid(runtime& rt, std::string_view device, std::uint16_t lid);
[[nodiscard]] std::vector<device_state> list_devices(const runtime& rt);

} // namespace actor_rdma::verbs::soft
