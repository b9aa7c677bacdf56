// SPDX-License-Identifier: Apache-2.0
//
// How large the parts of a message may be. Both ends keep to the same bounds: what exceeds one is not sent,
// and is refused when it arrives. The bounds fit together: the largest message that keeps to all the others
// is smaller than max_message_bytes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace actor_rdma::bootstrap {

inline constexpr std::size_t max_message_bytes = std::size_t{4} << 20;
inline constexpr std::size_t max_string_bytes = 4096;
inline constexpr std::size_t max_devices = 32;     ///< of a segment; bounds every list of rkeys too
inline constexpr std::size_t max_buffers = 16384;  ///< of a segment
inline constexpr std::size_t max_qps = 256;        ///< of an endpoint
inline constexpr std::size_t max_endpoints = 4096; ///< that a hello names
inline constexpr std::size_t max_notice_name_bytes = 256;
inline constexpr std::size_t max_notice_bytes = 4096; ///< of a notice's payload
/// Notices that one sender may have in a receiver's inbox: with it one costs at most 280 KiB there.
inline constexpr std::uint64_t notice_window = 64;
inline constexpr std::uint32_t max_24_bits = 0xffffff; ///< QP numbers and PSNs

// What bounds the memory that a decoder spends on bytes which it does not know yet.
inline constexpr std::size_t max_nesting = 16;
inline constexpr std::size_t max_values = std::size_t{1} << 20; ///< of one message, keys included
inline constexpr std::size_t max_map_entries = 64;              ///< of one map, unknown keys included

} // namespace actor_rdma::bootstrap
