// SPDX-License-Identifier: Apache-2.0
// The verbs calls in the life of one ibv_qp, as plain functions that block: they run on the verbs executor.
// The attributes follow ibv_modify_qp(3); IB spec 11.2.5.2 (Modify Queue Pair).
#pragma once

#include "actors/messages.hpp"
#include "actors/settings.hpp"
#include "actors/slice.hpp"
#include "verbs/objects.hpp"

#include <atomic>
#include <cstdint>
#include <optional>

namespace actor_rdma::actors {

class device;
struct open_device;

/// The ibv_qp of one generation. The QP's actor and its slow calls share it; the slow calls of one device run
/// one at a time, and the actor reads it only when none is under way.
struct qp_incarnation {
  verbs::queue_pair pair;
  std::uint32_t psn = 0; ///< first PSN that we send
  std::uint8_t reads =
      0; ///< on the lane: what it serves at once, taken from its device until it is destroyed
  std::uint32_t send_wrs = 0;    ///< room in its send queue
  std::uint8_t served_reads = 0; ///< what the device says that it serves at once; 0: it does not say
  base::error failure{base::reason::none};
  bool destroyed = false;       ///< ibv_destroy_qp returned 0, or there never was one
  bool buried = false;          ///< on the lane: the device has taken over its end
  bool being_destroyed = false; ///< on the lane: a buried one's slow call is under way
  bool refused = false;         ///< on the lane: the last call that was to destroy it failed
};

/// What RTR and RTS need besides the two QP numbers; everything is decided on the lane.
struct link_parameters {
  bootstrap::qp_address peer;
  bootstrap::port_address local;
  bootstrap::port_address peer_port;
  std::uint8_t port = 1;                  ///< of our device
  std::optional<std::uint32_t> gid_index; ///< nothing: our port has lost the address
  std::uint32_t mtu = 1024;
  std::uint8_t max_dest_reads = 1;
  std::uint8_t max_reads = 1;
  std::uint8_t timeout = 12;
  std::uint8_t retry_count = 7;
};
link_parameters parameters_of(const device& dev, const qp_connect& peer, std::uint8_t served_reads,
                              const settings& config);

/// RESET -> INIT. A device may make a shorter send queue than was asked for; one that has not even room for a
/// probe and a WR is a failure.
void make_qp(const open_device& on, std::uint32_t depth, qp_incarnation& out);
/// INIT -> RTR -> RTS.
void connect_qp(qp_incarnation& qp, const link_parameters& link);
/// -> ERR, so that every WR flushes.
void move_to_error(qp_incarnation& qp);
void destroy_qp(qp_incarnation& qp);

/// What a completion status says of the WR that it ends.
wr_end classify(ibv_wc_status status) noexcept;

} // namespace actor_rdma::actors
