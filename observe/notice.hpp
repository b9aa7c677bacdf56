// SPDX-License-Identifier: Apache-2.0
// Notices, small messages from one program to another, as plain types that every layer above base/ shares. A
// notice says that something has been transferred; the transport delivers it once, and only when that is
// true.
#pragma once

#include "base/error.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace actor_rdma {

/// What is sent. The bounds are those of the protocol: a longer one is refused when it is submitted.
struct notice {
  static constexpr std::size_t max_name_bytes = 256;
  static constexpr std::size_t max_payload_bytes = 4096;

  std::string name;
  std::vector<std::uint8_t> payload;
};

/// What arrives.
struct received_notice {
  std::string from;              ///< name of the node that sent it, in its own words
  std::uint64_t incarnation = 0; ///< of that node; 0 is no node
  std::uint64_t sequence = 0;    ///< 1, 2, 3... in one session of the sender with us
  notice what;
};

enum class notice_status : std::uint8_t {
  none,      ///< the batch has no notice
  pending,   ///< it waits for the batch's transfers, for a place in the peer's inbox, or for the answer
  delivered, ///< it is in the peer's inbox, from which the peer's program will take it once
  withheld,  ///< a transfer of the batch did not complete, or late packets may still reach the peer's memory:
             ///< it was not sent and never will be
  lost,      ///< it was not sent for another reason (see the cause) and never will be
  unknown,   ///< it was sent, but no answer came until the cause did: it may arrive, have arrived, or not
};

struct notice_result {
  notice_status status = notice_status::none;
  /// Why it is withheld, lost or unknown: the cause of the transfer that failed, peer_dead, timeout (the
  /// batch's deadline), cancelled, shutting_down; path for packets that may be late (the remote fence is
  /// unconfirmed); peer_rejected when a peer that lost touch for long does not remember what it has got.
  base::reason cause = base::reason::none;
};

const char* to_string(notice_status status) noexcept;

} // namespace actor_rdma
