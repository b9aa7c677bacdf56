// SPDX-License-Identifier: Apache-2.0
// The control channel as its users see it: links that carry messages in order and say once when they end. TCP
// is one implementation, a simulated channel in virtual time another, a host's own RPC a third. A channel
// does no protocol: it neither sends hello nor reads incarnations. Nothing here blocks: calls hand over and
// return.
#pragma once

#include "base/error.hpp"
#include "bootstrap/messages.hpp"

#include <cstdint>
#include <string>

namespace actor_rdma::bootstrap {

/// Names one link of one channel for the life of the process; never reused, never 0.
using link_id = std::uint64_t;

/// Receives what happens on the links of a channel. Called from the channel's own thread, one call at a time;
/// must not block and must not throw.
class channel_handler {
public:
  virtual ~channel_handler() = default;
  /// A peer dialled in. (A link that dial() made is announced by on_dialled.)
  virtual void on_accepted(link_id link, const std::string& peer_address) = 0;
  /// The link that dial() named is up.
  virtual void on_dialled(link_id link) = 0;
  virtual void on_message(link_id link, message&& what) = 0;
  /// The link is gone or could not be made; the last call for it. `why` tells refused, reset, closed by us,
  /// timed out and protocol faults apart.
  virtual void on_closed(link_id link, const base::error& why) = 0;
};

class channel {
public:
  virtual ~channel() = default;
  /// Must be called once, before anything else.
  virtual void start(channel_handler& handler) = 0;
  /// Starts listening; returns the address that peers can dial ("host:port", with the port the system chose).
  virtual base::expected<std::string> listen(const std::string& address) = 0;
  /// Begins to dial; the outcome comes as on_dialled or on_closed. Any thread.
  virtual link_id dial(const std::string& address) = 0;
  /// Queues a message; false when the link is gone or its send queue is full (the link is then closed). Any
  /// thread.
  virtual bool send(link_id link, const message& what) = 0;
  /// Sends what is queued, then closes; on_closed follows. Any thread; harmless for links that are gone.
  virtual void close(link_id link) = 0;
  /// Ends everything within a second; after it returns the handler is not called again.
  virtual void stop() = 0;
};

} // namespace actor_rdma::bootstrap
