// SPDX-License-Identifier: Apache-2.0
// Where batches lie. Each thread has its share of the range and cuts it into places of one batch each, which
// it uses in turn, so that a run walks through all of the range and open batches never overlap. Each place
// remembers what its destination should hold.
#pragma once

#include "bench/pattern.hpp"
#include "bench/settings.hpp"

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace actor_rdma::bench {

struct place {
  std::uint64_t offset = 0; ///< in the range, on both sides
  std::uint32_t round = initial_round;
  std::uint32_t holds = initial_round; ///< round of the bytes at the destination,
  bool known = true;                   ///< unless a transfer to it failed or was wrong
};

class place_ring {
public:
  place_ring(const settings& what, std::uint32_t thread)
      : begin_(what.range / what.threads * thread), end_(begin_ + what.range / what.threads) {
    // Tiny batches do not get a place each, but still spread over all of the share.
    constexpr std::uint64_t most = 1u << 18;
    const auto fit = (end_ - begin_) / what.batch_bytes();
    const auto stride = what.batch_bytes() * ((fit + most - 1) / most);
    for (auto at = begin_; end_ - at >= what.batch_bytes(); at += std::min(stride, end_ - at)) {
      place p;
      p.offset = at;
      p.holds = what.op == operation::write ? initial_round : poison_round;
      places_.push_back(p);
    }
  }

  /// The next place in turn. There are at least `depth` of them.
  place& take() noexcept {
    auto& p = places_[next_];
    next_ = next_ + 1 == places_.size() ? 0 : next_ + 1;
    return p;
  }
  /// In the order of their offsets.
  std::span<place> all() noexcept { return places_; }
  std::uint64_t begin() const noexcept { return begin_; }
  std::uint64_t end() const noexcept { return end_; }

private:
  std::uint64_t begin_;
  std::uint64_t end_;
  std::vector<place> places_;
  std::size_t next_ = 0;
};

} // namespace actor_rdma::bench
