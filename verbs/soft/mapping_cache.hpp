// SPDX-License-Identifier: Apache-2.0
//
// Mappings of peers' shared memory. A region that a peer registered from a MAP_SHARED mapping of a file (a
// memfd, a file in /dev/shm) is found in its /proc/<pid>/maps, opened and mapped here once, and from then on
// costs no system call. Nothing has to be agreed with the peer, and whoever may not look there may not use
// process_vm either.
#pragma once

#include "verbs/soft/layout.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

namespace actor_rdma::verbs::soft {

class mapping_cache {
public:
  mapping_cache() = default;
  ~mapping_cache();
  mapping_cache(const mapping_cache&) = delete;
  mapping_cache& operator=(const mapping_cache&) = delete;

  /// Where the region begins in this process; nullptr if it cannot be mapped. The answer is valid for an
  /// execution that began before it was asked for, and as long as epoch() stays what it was before asking.
  [[nodiscard]] std::byte* find(const layout::mr_entry& region, std::uint32_t index, std::uint64_t state,
                                std::int32_t pid);
  [[nodiscard]] std::uint64_t epoch() const noexcept { return epoch_.load(std::memory_order_seq_cst); }

  /// True while anything is mapped: then sweep() should be called now and then.
  [[nodiscard]] bool holds_any() const noexcept { return count_.load(std::memory_order_relaxed) != 0; }
  /// Unmaps what belongs to regions that are gone, so that a peer's freed memory is not kept alive from here.
  void sweep(const layout::tables& tables, const layout::process_entry& own);

private:
  /// Device, inode and first page of the file: buffers registered on several devices share one mapping.
  using file_range = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t>;
  struct mapped_file {
    std::byte* at = nullptr;
    std::size_t length = 0;
    std::uint32_t users = 0;
  };
  struct known_region {
    std::uint64_t state = 0;
    std::byte* base = nullptr; // nullptr: known not to be mappable
    file_range file{};
  };

  void release(const file_range& range);

  std::mutex mutex_;
  std::map<std::uint32_t, known_region> regions_; // by MR index
  std::map<file_range, mapped_file> files_;
  std::vector<file_range> replaced_;
  std::vector<mapped_file> unused_;
  std::atomic<std::uint64_t> epoch_{0};
  std::atomic<std::size_t> count_{0};
};

} // namespace actor_rdma::verbs::soft
