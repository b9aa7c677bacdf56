// SPDX-License-Identifier: Apache-2.0
//
// Why a link ended, as every channel says it to on_closed. An actor decides by the pair (why, sys_errno).
//
//   refused         peer_dead, ECONNREFUSED       nobody listens there: the peer's process is gone
//   reset           peer_dead, ECONNRESET         the peer's process or its link went away in mid-flight
//   closed by peer  peer_dead, 0                  the peer ended the link; after a goodbye, in good order
//   closed by us    cancelled, 0                  close() was called; shutting_down, 0 when it was stop()
//   timed out       peer_silent, ETIMEDOUT        the peer did not answer: it may be alive
//   unreachable     path, EHOSTUNREACH and such   there is no way to the peer's host
//   protocol        protocol, 0                   the peer sent what it must not send, or another version
//   no address      not_found, 0                  the name does not resolve, or is no address at all
//   overflow        resource, ENOBUFS             the peer does not read: the link's send queue is full
//   not sendable    invalid_argument, 0           we were told to send a message that exceeds a bound
//   resources       resource, EMFILE and such     this process ran out of descriptors, or of links: 0
#pragma once

#include "base/error.hpp"

#include <string>

namespace actor_rdma::bootstrap::link_end {

[[nodiscard]] base::error refused(const std::string& peer);
[[nodiscard]] base::error reset(const std::string& peer);
[[nodiscard]] base::error closed_by_peer(const std::string& peer);
[[nodiscard]] base::error closed_by_us(const std::string& peer);
[[nodiscard]] base::error stopped(const std::string& peer);
[[nodiscard]] base::error timed_out(const std::string& peer, std::string what);
[[nodiscard]] base::error protocol(const std::string& peer, std::string what);
[[nodiscard]] base::error no_address(const std::string& peer, std::string what);
[[nodiscard]] base::error overflow(const std::string& peer);
[[nodiscard]] base::error not_sendable(const std::string& peer, std::string what);
[[nodiscard]] base::error resources(const std::string& peer, std::string what, int sys_errno);

/// What a failed call on a stream socket means, by its errno.
[[nodiscard]] base::error from_errno(const std::string& peer, const std::string& doing, int sys_errno);

} // namespace actor_rdma::bootstrap::link_end
