// SPDX-License-Identifier: Apache-2.0
// Notices of a run (--notices): every batch carries one that says what it wrote, and the target looks whether
// that is there when the notice is, and whether any notice comes twice.
#pragma once

#include "observe/notice.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace actor_rdma::bench {

/// What a notice of ours says.
struct notice_text {
  std::uint32_t source = 0; ///< one submitting thread of one run
  std::uint32_t round = 0;  ///< of the pattern that was written
  std::uint64_t number = 0; ///< of the source's batches: 0, 1, 2...
  std::uint64_t offset = 0; ///< in the target's range
  std::uint64_t length = 0; ///< 0: nothing can be looked at
};
notice to_notice(const notice_text& what);
/// Nothing if it is not one of ours.
std::optional<notice_text> from_notice(const notice& what);

struct notice_counts {
  std::uint64_t received = 0;
  std::uint64_t repeated = 0; ///< of these, such as had come before
  std::uint64_t foreign = 0;  ///< of these, such as no initiator of ours sends
  std::uint64_t checked_bytes = 0;
  std::uint64_t missing_bytes = 0; ///< of these, such as were not there yet

  /// What came after `before`.
  notice_counts since(const notice_counts& before) const noexcept;
  bool is_good() const noexcept { return repeated == 0 && foreign == 0 && missing_bytes == 0; }
};

std::string to_text(const notice_counts& what);

/// The target's. Any thread.
class notice_book {
public:
  /// `memory` is the target's range; it has to outlive the transport that calls.
  void enter(const received_notice& what, std::span<const std::byte> memory);
  notice_counts so_far() const;

private:
  mutable std::mutex mutex_;
  notice_counts counts_;
  std::map<std::pair<std::uint64_t, std::uint32_t>, std::vector<bool>> seen_; ///< by incarnation and source
};

} // namespace actor_rdma::bench
