// SPDX-License-Identifier: Apache-2.0
// What --verify does around each batch of one thread. Before it, the source gets the bytes of a new round;
// after it, the destination must hold exactly them; at the end of the run every place must still hold the
// last round, so that a late or stray write is found too. In one process both sides' memory is at hand.
// Between two processes the destination of a write is read back with a transfer of its own, and a read
// expects the bytes with which the target began, into memory that was filled with others.
#pragma once

#include "bench/places.hpp"
#include "bench/settings.hpp"
#include "bench/tally.hpp"

#include <cstddef>
#include <functional>
#include <span>

namespace actor_rdma::bench {

/// Memory of a run as the initiator sees it.
struct run_memory {
  std::span<std::byte> local;
  std::span<std::byte> peer; ///< the target's, in the same process; else empty
};

/// Gives both sides' memory its pages and the bytes that checks expect. Without payload it stays untouched.
void prepare_local(const settings& what, std::span<std::byte> local);
void prepare_target(const settings& what, std::span<std::byte> target);

class content {
public:
  /// Reads `length` bytes at `offset` of the target's range back, at most read_back_bytes(); empty when that
  /// failed. What it returns is good until the next call.
  using read_back = std::function<std::span<const std::byte>(std::uint64_t offset, std::uint64_t length)>;
  static std::uint64_t read_back_bytes(const settings& what) noexcept;

  content(const settings& what, std::uint32_t thread, run_memory memory, read_back remote)
      : what_(what), thread_(thread), memory_(memory), remote_(std::move(remote)), places_(what, thread) {}

  place& take() noexcept { return places_.take(); }
  /// Before the batch at `p` is submitted.
  void before(place& p);
  /// After all of its transfers were completed.
  void after(place& p, tally& count);
  /// After some were not: what its destination holds is not known.
  void lost(place& p) noexcept { p.known = false; }
  /// The target is a new one, whose memory is as it was made.
  void target_restarted() noexcept;
  /// When nothing is open any more.
  void sweep(tally& count);

private:
  bool writes() const noexcept { return what_.op == operation::write; }
  std::uint32_t untouched() const noexcept { return writes() ? initial_round : poison_round; }
  std::span<const std::byte> destination(std::uint64_t offset, std::uint64_t length);
  /// Fetches more than it is asked for, because the next bytes are asked for next.
  std::span<const std::byte> destination_ahead(std::uint64_t offset, std::uint64_t length);
  bool compare(std::span<const std::byte> found, std::uint64_t offset, std::uint32_t round, const char* when,
               tally& count);

  const settings& what_;
  std::uint32_t thread_;
  run_memory memory_;
  read_back remote_;
  place_ring places_;
  std::span<const std::byte> ahead_;
  std::uint64_t ahead_from_ = 0;
  std::uint32_t reported_ = 0;
};

} // namespace actor_rdma::bench
