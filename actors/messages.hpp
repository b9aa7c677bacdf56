// SPDX-License-Identifier: Apache-2.0
// Every message between actors, with its sender, receiver and bound. Messages stay inside one process and are
// never serialized. Completions, expired deadlines, readiness of descriptors and results of slow verbs calls
// reach an actor's object through its lane (lane_env.hpp), not through these.
#pragma once

#include "actors/device_messages.hpp"
#include "actors/notice_window.hpp"
#include "actors/slice.hpp"
#include "base/error.hpp"
#include "bootstrap/channel.hpp"
#include "observe/gather.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <caf/actor.hpp>

namespace actor_rdma::actors {

class peer_view;

// -- work: transport, peer, QP --------------------------------------------------------------------

/// transport -> peer; bound: open batches of the transport.
struct submit {
  std::shared_ptr<batch_state> batch;
};
/// transport -> peer; one per call of the user's.
struct cancel {
  std::shared_ptr<batch_state> batch;
};
/// node -> peers: a buffer is being deregistered, its batches must end; one per deregistration.
struct cancel_buffer {
  std::shared_ptr<local_buffer> buffer;
};
/// node -> peers: a buffer is registered on a device that has served without it; one per such registration.
struct keys_made {};
/// peer -> QP: slices to post; bound: the QP's credit (its send queue).
struct post {
  chunk_ptr slices;
};
/// QP -> peer: WRs that ended, and with them the credit for as many; bound: WRs posted.
struct ended {
  chunk_ptr slices;
};
/// QP -> peer: outstanding slices that somebody else should carry too; bound: two send queues per suspicion.
struct suspected {
  chunk_ptr slices;
  offer_to to = offer_to::anyone;
};
/// QP -> peer: whether the QP takes work; one per change of its state.
struct slot_state_changed {
  slot_id slot = 0;
  bool usable = false;
  std::uint16_t generation = 0;
  std::uint32_t depth = 0; ///< usable: WRs of work that may be out on it
  caf::actor qp;
};
/// endpoint -> peer: the remote fence of all generations up to this one is settled; one per generation.
struct remote_fence_settled {
  slot_id slot = 0;
  std::uint16_t generation = 0;
  bool confirmed = false;
};
/// peer -> QP: whatever is still out of this batch must be fenced; one per stopped batch and QP.
struct fence_batch {
  std::shared_ptr<batch_state> batch;
  std::string cause;
};

// -- life of a QP: endpoint <-> QP, one of each per step ------------------------------------------

/// endpoint -> QP: make a new ibv_qp of this generation (RESET, INIT).
struct qp_begin {
  std::uint16_t generation = 0;
};
/// endpoint -> QP: the peer's numbers for this generation; go to RTR and RTS, then probe (initiator).
struct qp_connect {
  bootstrap::port_address local; ///< as the peer was told
  bootstrap::port_address peer_port;
  bootstrap::qp_address peer;
  bootstrap::incarnation peer_incarnation = 0;
  std::uint64_t probe_addr = 0;
  std::uint32_t probe_rkey = 0;
};
/// endpoint -> QP: stop (or go on) giving work to it: its device or endpoint rests.
struct qp_hold {
  bool hold = false;
};
/// endpoint -> QP: fence it. `for_good`: it is not needed any more.
struct qp_fence {
  std::string cause;
  bool for_good = false;
};
/// endpoint -> QP: read the peer's probe word, to tell a hung QP from a dead path.
struct qp_probe {
  std::uint16_t for_index = 0; ///< the suspect sibling
};
/// endpoint -> QP: another QP of the rail was answered while this one was suspect.
struct qp_rail_answers {};
enum class qp_step : std::uint8_t {
  created,        ///< INIT: `address` has our number and PSN
  ready,          ///< ACTIVE
  held,           ///< PAUSED
  suspect,        ///< PAUSED because of a stall
  fencing,        ///< DRAINING: the peer should retire this generation
  fenced,         ///< local fence proven; the object is destroyed
  failed,         ///< the attempt to connect failed (and the QP is destroyed)
  gone,           ///< RETIRED
  probe_answered, ///< answer to qp_probe
};
/// QP -> endpoint.
struct qp_report {
  qp_step step = qp_step::created;
  std::uint16_t index = 0; ///< in the endpoint; for probe_answered, of the suspect sibling
  std::uint16_t generation = 0;
  bootstrap::qp_address address;
  bool wrote = false;       ///< fencing: WRITEs were out
  std::uint8_t reads = 0;   ///< ready: how many READs the QP serves at once
  std::uint32_t served = 0; ///< successful completions of work of this generation
  std::string cause;
};

// -- devices, links, control ----------------------------------------------------------------------

/// peer -> node: dial; the link's events go to `who`. Answered by dial_started before any of them. One per
/// attempt.
struct dial_request {
  std::string address;
  caf::actor who;
};
struct dial_started {
  bootstrap::link_id link = 0;
};
/// channel (control thread) -> node; bound: the channel's links and its receive buffers.
struct link_opened {
  bootstrap::link_id link = 0;
  bool accepted = false;
  std::string peer_address;
};
struct link_closed {
  bootstrap::link_id link = 0;
  base::error why;
};
/// channel -> node -> peer or guest -> endpoint; same bound.
struct control {
  bootstrap::link_id link = 0;
  bootstrap::message what;
};
/// node -> guest: this link carries the guest from now on; and what we publish now.
struct adopt_link {
  bootstrap::link_id link = 0;
  bootstrap::segment published;
};
/// guest -> node: this caller is gone, forget it.
struct guest_left {
  bootstrap::caller who;
  receive_window notices; ///< what it got of them, in case that process lives
};
/// guest -> itself: acknowledge all notices that came up to now; at most one under way.
struct notice_ack {};
/// inbox (any thread) -> guest: there is room for notices again; one per time that room was short.
struct notice_room {};
/// peer or guest -> endpoint: the control channel carries messages to the same incarnation (again), or not.
/// One per change.
struct peer_link {
  bootstrap::link_id link = 0; ///< 0: down, but the peer may live
  bool dead = false;           ///< that incarnation is gone for good
  bool forgotten = false;      ///< initiators: it lives, and has let go of this endpoint with all QPs
  bootstrap::incarnation owner = 0;
  std::shared_ptr<const remote_memory> memory; ///< initiators
};
/// endpoint -> peer: the acceptor said no, in its own words; one per attempt.
struct rail_refused {
  base::error why;
};
/// node -> guests: our published memory changed.
struct published {
  bootstrap::segment what;
};
/// endpoint -> its guest -> node: a QP could not be made here; node -> guests: who waits for a lost link in
/// vain perhaps leaves now. One per attempt that failed.
struct room_wanted {
  bool passed_on = false; ///< by the node
};
/// A peer as the transport uses it from any thread.
struct peer_ref {
  caf::actor handle;
  std::shared_ptr<peer_view> view;
};
/// transport -> node -> peer: be connected to this address; `done` is called once, on a lane.
struct import_peer {
  std::string address;
  std::function<void(base::expected<peer_ref>)> done;
};
/// transport -> node.
struct register_buffer {
  std::uint64_t addr = 0;
  std::uint64_t length = 0;
  bool published = true;
  std::function<void(base::expected<std::shared_ptr<local_buffer>>)> done;
};
struct deregister_buffer {
  std::shared_ptr<local_buffer> buffer;
  bool refuse_if_used = false;
  base::duration patience{};
  std::function<void(base::expected<void>)> done;
};
/// anyone -> any actor, which answers and passes it on to those that it made.
struct snapshot_request {
  std::shared_ptr<observe::snapshot_gather> into;
  void pass_on(const caf::actor& to, const std::string& name) const;
};
/// transport -> node -> everyone: end all work, fence, release. Each answers with `stopped`.
struct stop {
  std::string cause;
  caf::actor answer_to;
};
/// everyone -> answer_to of `stop`, when nothing of theirs is left.
struct stopped {
  std::string who;
  std::vector<std::string> quarantined;
};

} // namespace actor_rdma::actors

#include "actors/message_types.hpp"
