// SPDX-License-Identifier: Apache-2.0
//
// What the NIC says of itself: limits, the port, its addresses, and the names of statuses and events.
#pragma once

#include <cstddef>
#include <cstdint>

#include <infiniband/verbs.h>

namespace actor_rdma::verbs::soft {

[[nodiscard]] int query_device(ibv_context* context, ibv_device_attr* out);
/// Writes no more than `size` bytes: the caller's struct may be older than ours.
[[nodiscard]] int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* out, std::size_t size);
[[nodiscard]] int query_gid(ibv_context* context, std::uint8_t port, int index, ibv_gid* out);
[[nodiscard]] int query_gid_ex(ibv_context* context, std::uint32_t port, std::uint32_t index,
                               ibv_gid_entry* out);
/// Whether the network interface behind a GID is up.
[[nodiscard]] bool interface_is_up(ibv_context* context, const ibv_gid_entry& gid);
/// The partition key in network byte order; -1 and errno for an empty place.
[[nodiscard]] int query_pkey(ibv_context* context, std::uint8_t port, int index, std::uint16_t* out);
[[nodiscard]] const char* wc_status_name(ibv_wc_status status);
[[nodiscard]] const char* event_type_name(ibv_event_type type);

} // namespace actor_rdma::verbs::soft
