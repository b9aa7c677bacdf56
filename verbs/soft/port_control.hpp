// SPDX-License-Identifier: Apache-2.0
//
// Control of what is behind a port and of what it says of itself: members of a bond, rates, width and speed,
// and the memory of the host.
#pragma once

#include "base/error.hpp"
#include "base/time.hpp"
#include "verbs/soft/runtime.hpp"

#include <cstdint>
#include <optional>
#include <string_view>

namespace actor_rdma::verbs::soft {

/// Of a port with `lanes` lanes, as in ibv_port_attr: 1, 2, 4, 8 or 12.
[[nodiscard]] std::optional<std::uint8_t> width_code(std::uint32_t lanes) noexcept;
/// Of one lane, likewise: 2.5, 5, 10, 14, 25, 50 or 100 Gbit/s.
[[nodiscard]] std::optional<std::uint8_t> speed_code(double gbit_s) noexcept;
[[nodiscard]] double speed_of_code(std::uint8_t code) noexcept;

/// `member`: nothing is all of them.
[[nodiscard]] base::expected<void> set_rate(runtime& rt, std::string_view device, double gbit_s,
                                            std::optional<std::uint32_t> member);
[[nodiscard]] base::expected<void> set_member(runtime& rt, std::string_view device, std::uint32_t member,
                                              bool up, std::optional<base::duration> leaves_after);
/// The same for all of them, without announcing it. False if all were up.
bool restore_members(layout::tables& t, nanos now, std::uint32_t device) noexcept;
[[nodiscard]] base::expected<void> set_width(runtime& rt, std::string_view device, std::uint32_t lanes,
                                             double lane_gbit_s);
[[nodiscard]] base::expected<void> set_host_memory(runtime& rt, std::string_view host, double gbit_s);

} // namespace actor_rdma::verbs::soft
