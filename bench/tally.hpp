// SPDX-License-Identifier: Apache-2.0
// What one submitting thread counts, and the sum over all of them.
#pragma once

#include "base/error.hpp"
#include "base/histogram.hpp"
#include "base/time.hpp"

#include <atomic>
#include <cstdint>
#include <map>

namespace actor_rdma::bench {

struct tally {
  // of the measured time
  base::histogram latency; ///< of a batch: from submit() until the submitting thread has seen its end
  std::uint64_t batches = 0;
  std::uint64_t completed = 0; ///< transfers, as all numbers below
  std::uint64_t bytes = 0;
  base::duration submit_cpu{};      ///< of the calling thread in submit(), in sampled calls
  std::uint64_t submit_sampled = 0; ///< transfers handed over in those calls

  // of the whole run
  std::uint64_t failed = 0; ///< with the cancelled ones
  std::uint64_t timed_out = 0;
  std::uint64_t stuck = 0; ///< still open long after their deadline
  std::uint64_t verified_bytes = 0;
  std::uint64_t mismatched_bytes = 0;
  std::map<base::reason, std::uint64_t> causes;
  std::uint64_t notices_delivered = 0;
  std::uint64_t notices_not_delivered = 0; ///< withheld, lost, or their fate is not known

  void begin_measuring() {
    latency.clear();
    batches = completed = bytes = submit_sampled = 0;
    submit_cpu = {};
  }

  void merge(const tally& other) {
    latency.merge(other.latency);
    batches += other.batches;
    completed += other.completed;
    bytes += other.bytes;
    submit_cpu += other.submit_cpu;
    submit_sampled += other.submit_sampled;
    failed += other.failed;
    timed_out += other.timed_out;
    stuck += other.stuck;
    verified_bytes += other.verified_bytes;
    mismatched_bytes += other.mismatched_bytes;
    notices_delivered += other.notices_delivered;
    notices_not_delivered += other.notices_not_delivered;
    for (const auto& [cause, n] : other.causes)
      causes[cause] += n;
  }

  bool is_good() const noexcept {
    return failed == 0 && timed_out == 0 && stuck == 0 && mismatched_bytes == 0 && notices_not_delivered == 0;
  }
};

/// What others may read of a thread while it runs.
struct alignas(64) live_counters {
  std::atomic<std::uint64_t> bytes{0};
  std::atomic<std::uint64_t> completed{0};
  std::atomic<std::uint64_t> not_completed{0};

  /// By its own thread only.
  static void add(std::atomic<std::uint64_t>& to, std::uint64_t n) noexcept {
    to.store(to.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
};

} // namespace actor_rdma::bench
