// SPDX-License-Identifier: Apache-2.0
// What an endpoint does when its control link comes, breaks, or is known to come no more. The data path goes
// on without a link, but what ends meanwhile is not heard of at the other end: on a new link both ends say
// again what is gone, so that neither goes on with a QP whose partner is.
#include "actors/endpoint.hpp"

#include <utility>

namespace actor_rdma::actors {

void endpoint::handle(peer_link& m) {
  if (stopping_ && !m.dead) {
    if (!where_.initiator) { // a peer that was taken for dead is back, and hears of what ends
      link_ = m.link;
      peer_ = m.owner;
      tell_what_ended(m.link != 0);
    }
    return;
  }
  const bool other_link = std::exchange(link_, m.link) != m.link;
  if (m.memory) {
    const auto before = std::exchange(memory_, m.memory);
    const auto at = where_.peer_device_number;
    if (before && before->owner == memory_->owner && at < memory_->published.devices.size())
      peer_moved(before->published.devices[at], memory_->published.devices[at]);
  }
  if (m.dead) {
    peer_died();
    return;
  }
  if (m.forgotten)
    forgotten_by_peer();
  if (other_link && where_.initiator)
    void_requests();
  if (m.link == 0)
    return raise(endpoint_event::peer_lost, "the control link is down");
  if (m.owner != peer_) {
    peer_ = m.owner;
    established_ = asked_ = false;
  }
  tell_what_ended(other_link);
  raise(endpoint_event::peer_connected, "the control link is up");
}

/// What was asked on a link that broke is never answered: it is asked again on the next one instead of being
/// waited for.
void endpoint::void_requests() {
  for (auto& q : members_)
    if (!q.idle && !q.usable && !q.suspect && !q.ending && !q.gone)
      fence(q, "the control link broke during the handshake");
}

/// The peer gave us up while no link was there on which it could have said so. Its QPs are gone.
void endpoint::forgotten_by_peer() {
  established_ = asked_ = false;
  for (auto& q : members_) {
    settle(q, q.generation, true);
    if (!q.idle && !q.ending && !q.gone)
      fence(q, "the peer gave up the rail while the control link was down");
  }
}

/// What ended here while the peer could not hear of it, or may not have. All of it may be said twice.
void endpoint::tell_what_ended(bool on_new_link) {
  for (auto& q : members_) {
    const bool owed = q.retire_generation != q.settled_generation;
    if (where_.initiator && (owed || (on_new_link && q.idle && q.unconfirmed)))
      send_retire(q);
    if (!where_.initiator && on_new_link && q.idle && q.generation != 0) {
      q.retired_owed = q.generation;
      answer_retired(q);
    }
  }
}

void endpoint::peer_died() {
  peer_ = 0;
  established_ = asked_ = false;
  connect_asked_ = false;
  raise(endpoint_event::peer_dead, "the peer is dead");
  if (!where_.initiator) {
    stopping_ = true;
    stop_asked_ = true;
    raise(endpoint_event::drain, "the peer is dead");
    answer_stop();
    return;
  }
  fence_all("the peer is dead", false);
  // Its memory died with it: there is nothing left that a late packet could hurt.
  for (auto& q : members_)
    settle(q, q.generation, true);
}

} // namespace actor_rdma::actors
