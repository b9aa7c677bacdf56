// SPDX-License-Identifier: Apache-2.0
// The pattern is made of 8-byte words, each an invertible mixture of its index and the round.
#include "bench/pattern.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

namespace actor_rdma::bench {

namespace {

constexpr std::uint64_t index_factor = 0x9e3779b97f4a7c15;
constexpr std::uint64_t round_factor = 0xc2b2ae3d27d4eb4f;
constexpr std::uint64_t last_factor = 0xff51afd7ed558ccd;
constexpr unsigned fold = 32;

constexpr std::uint64_t word_of(std::uint64_t index, std::uint32_t round) noexcept {
  auto x = (index + 1) * index_factor + round * round_factor;
  x ^= x >> fold;
  x *= last_factor;
  return x ^ (x >> fold);
}

/// Newton's iteration: each step doubles the number of right bits.
constexpr std::uint64_t inverse(std::uint64_t odd) noexcept {
  auto x = odd;
  for (int i = 0; i < 6; ++i)
    x *= 2 - odd * x;
  return x;
}

constexpr std::uint64_t index_of(std::uint64_t word, std::uint32_t round) noexcept {
  auto x = word ^ (word >> fold);
  x *= inverse(last_factor);
  x ^= x >> fold;
  return (x - round * round_factor) * inverse(index_factor) - 1;
}
static_assert(index_of(word_of(12345, 7), 7) == 12345);

constexpr std::size_t word_bytes = sizeof(std::uint64_t);

std::byte byte_of(std::uint64_t position, std::uint32_t round) noexcept {
  return static_cast<std::byte>(word_of(position / word_bytes, round) >> (8 * (position % word_bytes)));
}

/// Bytes before the first whole word.
std::size_t head_of(std::size_t length, std::uint64_t position) noexcept {
  return std::min<std::size_t>(length, (word_bytes - position % word_bytes) % word_bytes);
}

bool matches(std::span<const std::byte> at, std::uint64_t position, std::uint32_t round) noexcept {
  const auto n = std::min<std::size_t>(at.size(), 2 * word_bytes);
  return compare_pattern(at.first(n), position, round).wrong_bytes == 0;
}

} // namespace

void fill_pattern(std::span<std::byte> at, std::uint64_t position, std::uint32_t round) noexcept {
  const auto head = head_of(at.size(), position);
  for (std::size_t i = 0; i < head; ++i)
    at[i] = byte_of(position + i, round);
  const auto words = (at.size() - head) / word_bytes;
  const auto first = (position + head) / word_bytes;
  auto* to = at.data() + head;
  for (std::size_t i = 0; i < words; ++i) {
    const auto word = word_of(first + i, round);
    std::memcpy(to + i * word_bytes, &word, word_bytes);
  }
  for (auto i = head + words * word_bytes; i < at.size(); ++i)
    at[i] = byte_of(position + i, round);
}

comparison compare_pattern(std::span<const std::byte> at, std::uint64_t position,
                           std::uint32_t round) noexcept {
  comparison c;
  const auto compare_bytes = [&](std::size_t from, std::size_t to) {
    for (auto i = from; i < to; ++i)
      if (at[i] != byte_of(position + i, round) && c.wrong_bytes++ == 0)
        c.first_wrong = position + i;
  };
  const auto head = head_of(at.size(), position);
  compare_bytes(0, head);
  const auto words = (at.size() - head) / word_bytes;
  const auto first = (position + head) / word_bytes;
  constexpr std::size_t stride = 64; // words that are compared as one: the common case has no branch per word
  for (std::size_t w = 0; w < words; w += stride) {
    const auto n = std::min(stride, words - w);
    std::uint64_t difference = 0;
    for (std::size_t i = 0; i < n; ++i) {
      std::uint64_t found = 0;
      std::memcpy(&found, at.data() + head + (w + i) * word_bytes, word_bytes);
      difference |= found ^ word_of(first + w + i, round);
    }
    if (difference != 0)
      compare_bytes(head + w * word_bytes, head + (w + n) * word_bytes);
  }
  compare_bytes(head + words * word_bytes, at.size());
  return c;
}

comparison compare_pattern_since(std::span<const std::byte> at, std::uint64_t position,
                                 std::uint32_t round) noexcept {
  if (compare_pattern(at, position, round).wrong_bytes == 0)
    return {};
  constexpr std::uint32_t looked_ahead = 64;
  comparison c;
  const auto fits = [&](std::size_t from, std::size_t n) {
    for (auto r = round; r != round + looked_ahead + 1; ++r)
      if (compare_pattern(at.subspan(from, n), position + from, r).wrong_bytes == 0)
        return true;
    return false;
  };
  for (std::size_t i = 0; i < at.size();) {
    const auto head = head_of(at.size() - i, position + i);
    const auto n = head > 0 ? head : std::min(word_bytes, at.size() - i);
    if (!fits(i, n)) {
      if (c.wrong_bytes == 0)
        c.first_wrong = position + i;
      c.wrong_bytes += n;
    }
    i += n;
  }
  return c;
}

std::string explain_mismatch(std::span<const std::byte> at, std::uint64_t position, std::uint32_t round,
                             std::uint64_t range) {
  if (matches(at, position, poison_round))
    return "nothing arrived there";
  constexpr std::uint32_t looked_back = 64;
  const auto oldest = round > looked_back ? round - looked_back : initial_round;
  for (auto r = round; r-- > oldest;)
    if (matches(at, position, r))
      return r == initial_round ? "it was never written"
                                : fmt::format("it holds the bytes of round {}: stale", r);
  const auto head = head_of(at.size(), position);
  if (at.size() - head >= 2 * word_bytes) {
    std::uint64_t word = 0;
    std::memcpy(&word, at.data() + head, word_bytes);
    for (auto r = round + 1; r-- > oldest;) {
      const auto index = index_of(word, r);
      if (index < range / word_bytes && matches(at.subspan(head), index * word_bytes, r))
        return fmt::format("it holds bytes that belong to position {:#x} (round {}): misplaced",
                           index * word_bytes - std::min<std::uint64_t>(head, index * word_bytes), r);
    }
  }
  return "these bytes belong nowhere";
}

} // namespace actor_rdma::bench
