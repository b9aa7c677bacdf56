// SPDX-License-Identifier: Apache-2.0
// What an endpoint does about addresses: which of ours it tells the peer, and what it rebuilds when one of
// ours or of the peer's goes or moves. A QP keeps the place in the GID table and the path MTU that it was
// connected with, and hangs without a word when they are no longer true. One without a GRH names no GID.
#include "actors/endpoint.hpp"
#include "actors/port_path.hpp"
#include "actors/qp.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace actor_rdma::actors {

const bootstrap::port_address& endpoint::local_toward(const bootstrap::port_address& peer) {
  auto ours = device_->address_toward(peer);
  if (ours.gid != local_.gid && ours.gid != device_->address().gid)
    note(observe::event_kind::address_chosen,
         fmt::format("GID {} instead of the published {}, because the peer has {}", gid_text(ours.gid),
                     gid_text(device_->address().gid), gid_text(peer.gid)),
         device_->gid_index_of(ours).value_or(0), base::level::info);
  local_ = std::move(ours);
  return local_;
}

void endpoint::fill_addresses(member& q, const bootstrap::port_address& peer_port, qp_connect& c) {
  q.peer_port = peer_port;
  q.gid_index = device_->gid_index_of(q.local);
  c.local = q.local;
  c.peer_port = peer_port;
}

/// After our port was read: QPs that name a place of the GID table which no longer holds their address, or a
/// path MTU that is too large by now, are fenced and made again.
void endpoint::fence_what_lost_its_address() {
  for (auto& q : members_) {
    if (q.idle || q.gone || q.ending || !q.gid_index)
      continue;
    const bool names_gid = needs_grh(q.local, q.peer_port);
    const auto now_at = names_gid ? device_->gid_index_of(q.local) : q.gid_index;
    const auto path_mtu = std::min(q.local.mtu, q.peer_port.mtu);
    if (now_at != q.gid_index)
      fence(q, now_at ? fmt::format("our GID {} moved from index {} to {}", gid_text(q.local.gid),
                                    *q.gid_index, *now_at)
                      : fmt::format("our GID {} is gone", gid_text(q.local.gid)));
    else if (path_mtu > device_->address().mtu)
      fence(q, fmt::format("our port's MTU is {} now, and the path MTU was {}", device_->address().mtu,
                           path_mtu));
    else if (q.local.lid != device_->address().lid)
      fence(q, fmt::format("our LID became {}", device_->address().lid));
  }
}

/// The peer published another address of its port: what was connected to the old one hangs or soon will.
void endpoint::peer_moved(const bootstrap::port_address& was, const bootstrap::port_address& is) {
  if (peer_port_.gid == was.gid)
    peer_port_ = is;
  for (auto& q : members_) {
    if (q.idle || q.gone || q.ending || !q.gid_index)
      continue;
    const auto path_mtu = std::min(q.local.mtu, q.peer_port.mtu);
    const bool names_gid = needs_grh(q.local, q.peer_port);
    if (names_gid && q.peer_port.gid == was.gid && q.peer_port.gid != is.gid)
      fence(q, fmt::format("the peer's GID became {}", gid_text(is.gid)));
    else if (path_mtu > is.mtu)
      fence(q, fmt::format("the peer's MTU is {} now, and the path MTU was {}", is.mtu, path_mtu));
    else if (q.peer_port.lid == was.lid && is.lid != was.lid)
      fence(q, fmt::format("the peer's LID became {}", is.lid));
  }
}

} // namespace actor_rdma::actors
