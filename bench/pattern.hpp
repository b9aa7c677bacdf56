// SPDX-License-Identifier: Apache-2.0
// What --verify writes and expects: every byte follows from its position in the range and from a round number
// that grows each time the position is used. Two places never hold the same bytes, nor does one place twice,
// so a slice that went to a wrong place, is missing or is left from an earlier round cannot pass for the
// right one. The pattern can be turned round: from bytes that are wrong it follows where they belong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace actor_rdma::bench {

/// Memory before anything was transferred.
inline constexpr std::uint32_t initial_round = 0;
/// What a destination is filled with before a transfer into it, where it would otherwise hold the right
/// bytes.
inline constexpr std::uint32_t poison_round = 0xffffffff;

/// `position` is that of the first byte in the range.
void fill_pattern(std::span<std::byte> at, std::uint64_t position, std::uint32_t round) noexcept;

struct comparison {
  std::uint64_t wrong_bytes = 0;
  std::uint64_t first_wrong = 0; ///< position in the range, if there is one
};
comparison compare_pattern(std::span<const std::byte> at, std::uint64_t position,
                           std::uint32_t round) noexcept;

/// The same, but bytes of up to 64 later rounds are right too, and of several of them side by side: the place
/// may be in use again by now. Bytes before the first and behind the last whole 8 are compared with a byte of
/// each of these rounds.
comparison compare_pattern_since(std::span<const std::byte> at, std::uint64_t position,
                                 std::uint32_t round) noexcept;

/// Which bytes these are that should be those of (position, round): "bytes of round 3 (stale)", "bytes that
/// belong to position 0x1000 (misplaced)". `at` begins with the first wrong byte, `range` is the range's
/// size.
std::string explain_mismatch(std::span<const std::byte> at, std::uint64_t position, std::uint32_t round,
                             std::uint64_t range);

} // namespace actor_rdma::bench
