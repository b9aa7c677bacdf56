// SPDX-License-Identifier: Apache-2.0
//
// Executing one work request: the requester's own checks, and the memory that it names.
#include "verbs/soft/queue_pair.hpp"
#include "verbs/soft/tables.hpp"

#include <algorithm>
#include <cstring>

namespace actor_rdma::verbs::soft {

bool soft_qp::find_responder() noexcept {
  const auto& rt = context_.rt();
  if (has_peer_ && is_still_addressed()) {
    const auto word = rt.tables().qps[peer_.qp_index].word.load(std::memory_order_seq_cst);
    if (qp_generation(word) == peer_.generation && qp_responds(word) &&
        rt.tables().devices[peer_.device].generation.load(std::memory_order_relaxed) ==
            peer_.device_generation)
      return true;
  }
  own_address_epoch_ = address_epoch(device(), std::memory_order_seq_cst);
  has_peer_ = has_source(rt.tables(), way_) && resolve(rt, way_, attributes_.dest_qp_num, qp_num, peer_);
  region_ = receive_region_ = {};
  return has_peer_;
}

bool soft_qp::is_still_addressed() const noexcept {
  return address_epoch(device(), std::memory_order_relaxed) == own_address_epoch_ &&
         address_epoch(context_.rt().tables().devices[peer_.device], std::memory_order_relaxed) ==
             peer_.address_epoch;
}

bool soft_qp::is_wire_open() const noexcept {
  return soft::is_wire_open(context_.rt(), port_index(), slot_index(), peer_);
}

std::span<const ibv_sge> soft_qp::local_memory(std::uint64_t wr, ibv_sge& inline_sge) noexcept {
  const auto& slot = ring_[wr];
  if (!slot.is_inline)
    return {slot.sge, slot.num_sge};
  inline_sge = {reinterpret_cast<std::uintptr_t>(ring_.inline_data(wr)), slot.length, 0};
  return {&inline_sge, 1};
}

bool soft_qp::find_local(std::uint32_t lkey) noexcept {
  if (local_.state != nullptr && local_.lkey == lkey &&
      local_.state->load(std::memory_order_seq_cst) == local_.value)
    return true;
  const auto& t = context_.rt().tables();
  const auto& mr = t.mrs[index_of_key(t, lkey)];
  const auto value = mr.state.load(std::memory_order_seq_cst);
  if (value == 0 || mr.lkey.load(std::memory_order_relaxed) != lkey ||
      mr.pd.load(std::memory_order_relaxed) != pd_.handle)
    return false;
  local_ = {&mr.state,
            value,
            lkey,
            mr.access.load(std::memory_order_relaxed),
            mr.addr.load(std::memory_order_relaxed),
            mr.length.load(std::memory_order_relaxed)};
  return true;
}

ibv_wc_status soft_qp::check_local(std::uint64_t wr) noexcept {
  const auto& slot = ring_[wr];
  if (slot.length > max_message_bytes)
    return IBV_WC_LOC_LEN_ERR;
  if (slot.is_inline)
    return IBV_WC_SUCCESS;
  for (std::uint32_t i = 0; i < slot.num_sge; ++i) {
    const auto& sge = slot.sge[i];
    if (sge.length == 0)
      continue;
    if (!find_local(sge.lkey) || sge.addr < local_.addr || sge.length > local_.length ||
        sge.addr - local_.addr > local_.length - sge.length ||
        (slot.is_read && (local_.access & IBV_ACCESS_LOCAL_WRITE) == 0))
      return IBV_WC_LOC_PROT_ERR;
  }
  return IBV_WC_SUCCESS;
}

/// A word still moves in null mode: who probes a peer by reading a word from it must find the peer alive.
constexpr std::uint32_t null_mode_moves = 8;

request soft_qp::request_of(const send_slot& slot) const noexcept {
  request r;
  r.is_read = slot.is_read;
  r.moves_payload = slot.length <= null_mode_moves ||
                    moves_payload(static_cast<nic_mode>(device().mode.load(std::memory_order_relaxed)));
  r.rkey = slot.rkey;
  r.length = slot.length;
  r.remote_addr = slot.remote_addr;
  r.psn = slot.psn;
  r.packets = slot.packets;
  r.path_mtu = 1U << mtu_shift_;
  r.reads_ahead = slot.is_read ? slot.reads_ahead : 0;
  r.port_mtu = device().mtu.load(std::memory_order_relaxed);
  return r;
}

verdict soft_qp::execute(execution& at_work, std::uint64_t wr, copy_budget& budget) {
  if (ring_[wr].takes_receive)
    return execute_message(at_work, wr, budget);
  if (ring_[wr].is_atomic)
    return execute_atomic(at_work, wr);
  ibv_sge inline_sge;
  auto what = request_of(ring_[wr]);
  if (const auto* const fate = rules_.find(wr); fate != nullptr && fate->moves_nothing())
    what.moves_payload = false;
  const auto result =
      serve(context_.rt(), at_work, peer_, what, local_memory(wr, inline_sge), region_, moved_bytes_, budget);
  if (result == verdict::executed && what.moves_payload && what.length != 0)
    ++tier_use_[static_cast<std::size_t>(region_.where.way)];
  if (result != verdict::unfinished)
    moved_bytes_ = 0;
  return result;
}

message soft_qp::message_of(const send_slot& slot) const noexcept {
  message m;
  m.is_write = slot.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  m.has_imm = slot.opcode != IBV_WR_SEND;
  m.is_solicited = slot.is_solicited;
  m.imm_data = slot.imm_data;
  m.src_qpn = qp_num;
  return m;
}

atomic_operation soft_qp::atomic_of(const send_slot& slot) noexcept {
  return {slot.opcode == IBV_WR_ATOMIC_CMP_AND_SWP, slot.sge[1].addr, slot.sge[2].addr};
}

verdict soft_qp::execute_atomic(execution& at_work, std::uint64_t wr) {
  const auto& slot = ring_[wr];
  auto what = request_of(slot);
  if (const auto* const fate = rules_.find(wr); fate != nullptr && fate->moves_nothing())
    what.moves_payload = false;
  const auto result =
      serve_atomic(context_.rt(), at_work, peer_, what, atomic_of(slot), slot.sge[0], region_);
  if (result == verdict::executed && what.moves_payload)
    ++tier_use_[static_cast<std::size_t>(region_.where.way)];
  return result;
}

verdict soft_qp::execute_message(execution& at_work, std::uint64_t wr, copy_budget& budget) {
  ibv_sge inline_sge;
  const auto& slot = ring_[wr];
  auto what = request_of(slot);
  if (const auto* const fate = rules_.find(wr); fate != nullptr && fate->moves_nothing())
    what.moves_payload = false;
  const auto with = message_of(slot);
  const auto result = serve_message(context_.rt(), at_work, peer_, what, with, local_memory(wr, inline_sge),
                                    region_, receive_region_, moved_bytes_, budget);
  if (result == verdict::executed && what.moves_payload && what.length != 0) {
    const auto& used = with.is_write ? region_ : receive_region_;
    ++tier_use_[static_cast<std::size_t>(used.where.way)];
  }
  if (result != verdict::unfinished)
    moved_bytes_ = 0;
  return result;
}

std::shared_ptr<packet> soft_qp::make_packet(std::uint64_t wr, bool is_tracked) {
  const auto& slot = ring_[wr];
  auto& rt = context_.rt();
  const execution at_work{rt.process()};
  if (check_local(wr) != IBV_WC_SUCCESS)
    return nullptr; // it fails here, when its turn comes
  const packet_origin from{is_tracked ? weak_from_this() : std::weak_ptr<soft_qp>{}, wr,
                           qp_generation(entry().word.load(std::memory_order_relaxed)), port_index(), qp_num};
  auto p = std::make_shared<packet>(rt, from, peer_, request_of(slot),
                                    logged_work{slot.wr_id, slot.remote_addr, slot.length});
  if (slot.takes_receive)
    p->takes_receive(message_of(slot));
  if (slot.is_atomic)
    p->is_atomic(atomic_of(slot));
  if (p->what().moves_payload) {
    p->payload().resize(slot.length);
    auto* to = p->payload().data();
    ibv_sge inline_sge;
    if (!slot.is_read)
      for (const auto& sge : local_memory(wr, inline_sge)) {
        std::memcpy(to, reinterpret_cast<const void*>(sge.addr), sge.length);
        to += sge.length;
      }
  }
  return p;
}

void soft_qp::launch_packet(std::uint64_t wr, nanos lands_at) {
  const auto p = make_packet(wr, true);
  if (!p)
    return;
  ring_[wr].is_packet = true;
  packets_[wr] = p;
  if (const auto* const fate = rules_.find(wr); fate != nullptr && fate->pieces)
    p->shuffle(garbage_, *fate->pieces);
  p->launch(lands_at);
  last_land_at_ =
      std::max(last_land_at_, lands_at + p->landing_time()); // the next one is not out of sequence
}

bool soft_qp::scatter(std::uint64_t wr, const packet& from) noexcept {
  const execution at_work{context_.rt().process()};
  if (check_local(wr) != IBV_WC_SUCCESS)
    return false;
  const auto& slot = ring_[wr];
  const auto* next = from.payload().data();
  for (std::uint32_t i = 0; i < slot.num_sge && !from.payload().empty(); ++i) {
    std::memcpy(reinterpret_cast<void*>(slot.sge[i].addr), next, slot.sge[i].length);
    next += slot.sge[i].length;
  }
  return true;
}

} // namespace actor_rdma::verbs::soft
