// SPDX-License-Identifier: Apache-2.0
// Patterns and canaries, eight bytes at a time.
#include "drill/sim/memory_pool.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

namespace actor_rdma::drill {

namespace {

constexpr std::uint64_t canary = 0xca4a51eafcca4a51;
/// One canary word in each. No packet but a WR's last is smaller, and reading more of them would be most of a
/// run's work.
constexpr std::uint64_t line = 256;

constexpr std::uint64_t of_transfer = 0x9e3779b97f4a7c15;
constexpr std::uint64_t of_place = 0xbf58476d1ce4e5b9;

std::uint64_t word(std::uint64_t transfer, std::uint64_t i) noexcept {
  return (transfer + 1) * of_transfer ^ i * of_place;
}

/// Modulo 2^64, of an odd number: each step doubles the bits that are right.
constexpr std::uint64_t inverse(std::uint64_t n) noexcept {
  std::uint64_t x = n;
  for (int step = 0; step < 6; ++step)
    x *= 2 - n * x;
  return x;
}
static_assert(inverse(of_transfer) * of_transfer == 1);

/// What stands where word `i` of another transfer should.
std::string origin(std::uint64_t is, std::uint64_t i) {
  constexpr std::uint64_t believable = 1u << 30;
  if (is == canary)
    return "a canary, as nothing came";
  if (is == 0)
    return "zero";
  const auto transfer = (is ^ i * of_place) * inverse(of_transfer) - 1;
  return transfer < believable ? fmt::format("of transfer {}", transfer) : fmt::format("{:#x}", is);
}

std::byte* memory(std::uint64_t addr) noexcept {
  return reinterpret_cast<std::byte*>(addr);
}

} // namespace

memory_pool::memory_pool(std::uint64_t addr, std::uint64_t slot_bytes, std::size_t slots, bool with_canaries)
    : addr_(addr), slot_bytes_(slot_bytes), with_canaries_(with_canaries), state_(slots) {
  for (std::size_t i = 0; i < slots; ++i) {
    put_canaries(i);
    free_.push_back(i);
  }
}

std::size_t memory_pool::take() {
  const auto slot = free_.front();
  free_.pop_front();
  state_[slot].free = false;
  return slot;
}

void memory_pool::give_back(std::size_t slot, std::uint64_t last_transfer) {
  put_canaries(slot);
  state_[slot] = {last_transfer, true};
  free_.push_back(slot);
}

void memory_pool::put_canaries(std::size_t slot) {
  if (!with_canaries_)
    return;
  for (std::uint64_t at = 0; at < slot_bytes_; at += line)
    std::memcpy(memory(address(slot) + at), &canary, sizeof(canary));
}

std::optional<std::string> memory_pool::changed(std::size_t slot) const {
  if (!with_canaries_)
    return std::nullopt;
  for (std::uint64_t at = 0; at < slot_bytes_; at += line)
    if (std::uint64_t is = 0; std::memcpy(&is, memory(address(slot) + at), sizeof(is)), is != canary)
      return fmt::format("bytes {} to {} of its memory changed after its end was told", at, at + line - 1);
  return std::nullopt;
}

std::optional<std::size_t> memory_pool::free_slot_at(std::uint64_t addr) const {
  if (addr < addr_ || addr >= addr_ + slot_bytes_ * state_.size())
    return std::nullopt;
  const auto slot = static_cast<std::size_t>((addr - addr_) / slot_bytes_);
  return state_[slot].free ? std::optional{slot} : std::nullopt;
}

void memory_pool::fill(std::size_t slot, std::uint64_t transfer, std::uint64_t bytes) {
  auto* to = memory(address(slot));
  for (std::uint64_t i = 0; i < bytes / 8; ++i) {
    const auto w = word(transfer, i);
    std::memcpy(to + i * 8, &w, 8);
  }
  const auto w = word(transfer, bytes / 8);
  std::memcpy(to + bytes / 8 * 8, &w, bytes % 8);
}

std::optional<std::string> memory_pool::wrong(std::size_t slot, std::uint64_t transfer,
                                              std::uint64_t bytes) const {
  const auto* from = memory(address(slot));
  const auto where = [&](std::uint64_t i, const std::string& what) {
    return fmt::format("the first wrong byte is one of {} to {} of {}{}", i * 8,
                       std::min(bytes, i * 8 + 8) - 1, bytes, what);
  };
  for (std::uint64_t i = 0; i < bytes / 8; ++i) {
    std::uint64_t is = 0;
    std::memcpy(&is, from + i * 8, 8);
    if (is == word(transfer, i))
      continue;
    std::uint64_t wrong_words = 0;
    for (auto j = i; j < bytes / 8; ++j) {
      const auto should = word(transfer, j);
      wrong_words += std::memcmp(from + j * 8, &should, 8) != 0 ? 1 : 0;
    }
    auto what = fmt::format(", it is {}", origin(is, i));
    if (const auto next = i + 1; next < bytes / 8) { // a canary hides what was there
      std::memcpy(&is, from + next * 8, 8);
      what += fmt::format(", then {}", is == word(transfer, next) ? "right" : origin(is, next));
    }
    return where(i, fmt::format("{}; {} of {} words are wrong; transfer {} was here before", what,
                                wrong_words, bytes / 8, state_[slot].last));
  }
  const auto w = word(transfer, bytes / 8);
  if (std::memcmp(from + bytes / 8 * 8, &w, bytes % 8) != 0)
    return where(bytes / 8, {});
  return std::nullopt;
}

} // namespace actor_rdma::drill
