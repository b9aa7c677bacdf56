// SPDX-License-Identifier: Apache-2.0
// What a transfer is and how it can end, as plain types that every layer above base/ shares: the actors which
// carry it, the public API which reports it, and the tools which show it.
#pragma once

#include "base/error.hpp"
#include "base/time.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace actor_rdma {

enum class operation : std::uint8_t { read, write };

/// `pending` until nothing of the transfer can touch memory any more, on either side; then one of the others,
/// for good.
enum class transfer_status : std::uint8_t { pending, completed, failed, timed_out, cancelled };

/// One transfer: `length` bytes between our memory at `local` and the peer's memory at `remote`, an address
/// inside one of the buffers that the peer publishes. Both ranges must stay as they are until the transfer
/// has ended: slices may be issued a second time on another rail.
struct transfer_request {
  operation op = operation::write;
  void* local = nullptr;
  std::uint64_t remote = 0;
  std::uint64_t length = 0;
};

/// How one transfer ended, or how far it is.
struct transfer_result {
  transfer_status status = transfer_status::pending;
  base::reason cause = base::reason::none; ///< why it failed
  bool late = false;                       ///< completed, but only after its deadline had passed
  /// Some of it was handed to a device. A transfer that was cancelled or timed out has not begun without
  /// this; with it, it was stopped under way, and the memory that it was to fill may hold a part.
  bool started = false;
  /// The peer did not confirm within remote_fence_timeout that late packets of a retired QP cannot reach its
  /// memory.
  bool remote_fence_unconfirmed = false;
  std::uint64_t bytes = 0; ///< bytes that have a success completion
};

/// What one rail had to do with a transfer.
struct rail_share {
  std::string rail;        ///< "a/soft0>b/soft1": our device and the peer's
  std::uint64_t bytes = 0; ///< of success completions; each byte counts once, on the rail that was first
  std::uint32_t wrs = 0;   ///< WRs that carried a part of it, also those that failed or were superseded
};

/// How a transfer went. Kept on request only: see submit_options::receipts.
struct transfer_receipt {
  std::vector<rail_share> rails; ///< in the order in which they were first used
  std::uint32_t issued_again =
      0;                    ///< WRs that carried a part which another one had failed to deliver, or hung with
  base::duration queued{};  ///< from submit() until the first WR went to a queue pair; 0 if none did
  base::duration carried{}; ///< from then until the last completion that counted; 0 if there was none
};

const char* to_string(operation op) noexcept;
const char* to_string(transfer_status status) noexcept;

} // namespace actor_rdma
