// SPDX-License-Identifier: Apache-2.0
//
// A bounded queue between exactly one producing and one consuming thread. Its capacity is given at
// construction; when it is full push says so, and the producer decides what that means. Each side keeps a
// copy of the other side's index and re-reads it only when the copy says full or empty, so the usual push or
// pop touches no cache line that the other side is writing.
#pragma once

#include "base/checks.hpp"

#include <atomic>
#include <bit>
#include <cstddef>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

namespace actor_rdma::base {

/// Two lines, because adjacent-line prefetch makes pairs of 64-byte lines travel together.
inline constexpr std::size_t cache_line_pair = 128;

template <class T>
class spsc_ring {
  static_assert(std::is_nothrow_move_constructible_v<T> && std::is_nothrow_move_assignable_v<T>);
  static_assert(std::is_default_constructible_v<T>);

public:
  /// The capacity must be a power of two.
  explicit spsc_ring(std::size_t capacity) : mask_{capacity - 1}, slots_{std::make_unique<T[]>(capacity)} {
    ACTOR_RDMA_ASSERT(std::has_single_bit(capacity), "the capacity of a ring must be a power of two");
  }
  spsc_ring(const spsc_ring&) = delete;
  spsc_ring& operator=(const spsc_ring&) = delete;

  [[nodiscard]] std::size_t capacity() const noexcept { return mask_ + 1; }

  /// Producer only. False, and the value untouched, when the ring is full.
  template <class U>
  [[nodiscard]] bool push(U&& value) noexcept {
    const auto tail = producer_.index.load(std::memory_order_relaxed);
    if (tail - producer_.other == capacity()) {
      producer_.other = consumer_.index.load(std::memory_order_acquire);
      if (tail - producer_.other == capacity())
        return false;
    }
    slots_[tail & mask_] = std::forward<U>(value);
    producer_.index.store(tail + 1, std::memory_order_release);
    return true;
  }

  /// Consumer only.
  [[nodiscard]] std::optional<T> pop() noexcept {
    std::optional<T> value;
    pop_batch(1, [&](T&& v) { value.emplace(std::move(v)); });
    return value;
  }

  /// Consumer only: hands up to `limit` values to `take`, oldest first, and gives all their slots back at
  /// once.
  template <class Take>
  std::size_t pop_batch(std::size_t limit, Take&& take) {
    const auto head = consumer_.index.load(std::memory_order_relaxed);
    if (consumer_.other - head < limit)
      consumer_.other = producer_.index.load(std::memory_order_acquire);
    const auto available = consumer_.other - head;
    const auto n = available < limit ? available : limit;
    for (std::size_t i = 0; i < n; ++i)
      take(std::move(slots_[(head + i) & mask_]));
    if (n > 0)
      consumer_.index.store(head + n, std::memory_order_release);
    return n;
  }

  /// Exact for the consumer when it says false; a producer may be about to make it wrong otherwise.
  [[nodiscard]] bool empty() const noexcept {
    return consumer_.index.load(std::memory_order_acquire) == producer_.index.load(std::memory_order_acquire);
  }
  /// A snapshot, exact only while neither side moves.
  [[nodiscard]] std::size_t size() const noexcept {
    const auto head = consumer_.index.load(std::memory_order_acquire);
    return producer_.index.load(std::memory_order_acquire) - head;
  }

private:
  struct alignas(cache_line_pair) side {
    std::atomic<std::size_t> index{0}; // only ever grows; the slot is index & mask
    std::size_t other = 0;             // what this side last saw of the other index
  };

  const std::size_t mask_;
  const std::unique_ptr<T[]> slots_;
  side producer_;
  side consumer_;
};

} // namespace actor_rdma::base
