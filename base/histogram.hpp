// SPDX-License-Identifier: Apache-2.0
//
// A log-linear histogram: values up to 127 exactly, above that 64 buckets per power of two, so every answer
// is within 1/64 of the truth at a cost of an addition and a few shifts per value. It is plain memory without
// pointers, so it may lie in a mapping that another process reads. Values of 2^Bits and more count in the
// last bucket; sum, minimum and maximum stay exact.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace actor_rdma::base {

template <unsigned Bits = 40, class Count = std::uint64_t>
class basic_histogram {
  static_assert(Bits >= 8 && Bits <= 64);

public:
  using count_type = Count;

  constexpr void record(std::uint64_t value, Count times = 1) noexcept {
    counts_[bucket_of(value)] += times;
    count_ += times;
    sum_ += value * times;
    min_ = std::min(min_, value);
    max_ = std::max(max_, value);
  }

  constexpr void merge(const basic_histogram& other) noexcept {
    for (std::size_t i = 0; i < counts_.size(); ++i)
      counts_[i] += other.counts_[i];
    count_ += other.count_;
    sum_ += other.sum_;
    min_ = std::min(min_, other.min_);
    max_ = std::max(max_, other.max_);
  }

  constexpr void clear() noexcept { *this = basic_histogram{}; }

  [[nodiscard]] constexpr std::uint64_t count() const noexcept { return count_; }
  [[nodiscard]] constexpr std::uint64_t sum() const noexcept { return sum_; }
  [[nodiscard]] constexpr std::uint64_t min() const noexcept { return count_ == 0 ? 0 : min_; }
  [[nodiscard]] constexpr std::uint64_t max() const noexcept { return max_; }
  [[nodiscard]] constexpr double mean() const noexcept {
    return count_ == 0 ? 0.0 : static_cast<double>(sum_) / static_cast<double>(count_);
  }

  /// The value that a share q (0 to 1) of all values does not exceed, rounded up to the end of its bucket,
  /// but never above the largest value. 0 when there is none.
  [[nodiscard]] constexpr std::uint64_t quantile(double q) const noexcept {
    if (count_ == 0)
      return 0;
    const auto exact = std::clamp(q, 0.0, 1.0) * static_cast<double>(count_);
    auto rank = static_cast<std::uint64_t>(exact);
    if (static_cast<double>(rank) < exact)
      ++rank;
    rank = std::clamp<std::uint64_t>(rank, 1, count_);
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      seen += counts_[i];
      if (seen >= rank)
        return i + 1 == counts_.size() ? max_ : std::clamp(bucket_end(i), min_, max_);
    }
    return max_;
  }

  /// The buckets, for whoever exports all of them: how many values did not exceed bucket_end(i) and exceeded
  /// the one before.
  static constexpr std::size_t bucket_count = 64 * (Bits - 7) + 128;
  [[nodiscard]] constexpr Count bucket(std::size_t i) const noexcept { return counts_[i]; }
  [[nodiscard]] static constexpr std::uint64_t bucket_end(std::size_t i) noexcept {
    if (i < 128)
      return i;
    const auto shift = i / 64 - 1;
    return ((i - 64 * shift + 1) << shift) - 1;
  }
  [[nodiscard]] static constexpr std::size_t bucket_of(std::uint64_t value) noexcept {
    const auto shift = std::max(static_cast<unsigned>(std::bit_width(value)), 7U) - 7U;
    const auto index = 64 * std::size_t{shift} + static_cast<std::size_t>(value >> shift);
    return std::min(index, bucket_count - 1);
  }

private:
  std::uint64_t count_ = 0;
  std::uint64_t sum_ = 0;
  std::uint64_t min_ = UINT64_MAX;
  std::uint64_t max_ = 0;
  std::array<Count, bucket_count> counts_{};
};

/// Nanoseconds up to 18 minutes.
using histogram = basic_histogram<>;

} // namespace actor_rdma::base
