// SPDX-License-Identifier: Apache-2.0
//
// The bounds and time-outs of a TCP channel.
#pragma once

#include "base/time.hpp"
#include "bootstrap/limits.hpp"
#include "bootstrap/socket_address.hpp"

#include <chrono>
#include <cstddef>
#include <string>

namespace actor_rdma::bootstrap {

struct tcp_options {
  base::duration dial_timeout = std::chrono::seconds{3}; ///< from dial() to on_dialled, name lookup included
  /// An accepted link that has not sent a valid message by then is closed.
  base::duration first_message_timeout = std::chrono::seconds{5};
  /// A peer whose kernel acknowledges nothing for so long has timed out.
  base::duration silence_timeout = std::chrono::seconds{5};
  /// How long a closed link may take to send what is queued and to see the peer close too.
  base::duration linger = std::chrono::milliseconds{500};
  base::duration accept_backoff = std::chrono::milliseconds{100}; ///< when descriptors have run out
  std::size_t max_links = 16384;                                  ///< accepted and dialled together
  std::size_t send_queue_bytes = std::size_t{8} << 20;            ///< of each link
  std::size_t max_message_bytes = bootstrap::max_message_bytes;
  /// The host that listen() returns when it was told to listen on all interfaces; empty: reachable_address().
  std::string advertised_host{};
  name_lookup lookup = system_lookup; ///< called on threads of its own
};

} // namespace actor_rdma::bootstrap
