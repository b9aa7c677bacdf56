// SPDX-License-Identifier: Apache-2.0
//
// Requests that take a receive: SEND, and WRITE with immediate data. The requester's thread claims the
// receive, fills it and puts it on the list of the owner's completion queue. A connection receives one
// message at a time; who finds another thread at it does not wait but comes again.
#include "verbs/soft/receive_table.hpp"
#include "verbs/soft/responder.hpp"
#include "verbs/soft/responder_steps.hpp"
#include "verbs/soft/runtime.hpp"
#include "verbs/soft/tables.hpp"

#include <algorithm>
#include <array>

namespace actor_rdma::verbs::soft {

namespace {

constexpr std::size_t most_pieces = 8; // of a sender

/// The connection's message in the making, while this thread is at work on it. An interrupted message keeps
/// its receive: whoever goes on, or begins again, uses the same one.
class receiving {
public:
  receiving(layout::tables& t, const responder& to) noexcept
      : t_{t}, entry_{t.qps[to.qp_index]}, qp_index_{to.qp_index}, life_{to.generation << 32} {
    auto seen = entry_.receiving.load(std::memory_order_seq_cst);
    if ((seen & ~std::uint64_t{UINT32_MAX}) != life_)
      slot_ = 0; // none of this life
    else if ((seen & 1) != 0)
      return;
    else
      slot_ = static_cast<std::uint32_t>(seen) >> 1;
    is_mine_ = entry_.receiving.compare_exchange_strong(seen, word(true), std::memory_order_seq_cst);
  }
  ~receiving() {
    auto mine = marked_;
    if (is_mine_)
      entry_.receiving.compare_exchange_strong(mine, word(false), std::memory_order_seq_cst);
  }
  receiving(const receiving&) = delete;
  receiving& operator=(const receiving&) = delete;

  explicit operator bool() const noexcept { return is_mine_; }
  [[nodiscard]] bool has_slot() const noexcept { return slot_ != 0; }
  [[nodiscard]] std::uint32_t slot() const noexcept { return slot_; }
  /// False when no receive is posted.
  [[nodiscard]] bool claim(std::uint32_t queue) noexcept {
    if (slot_ != 0)
      return true;
    if (queue == 0 || (slot_ = claim_receive(t_, queue, qp_index_)) == 0)
      return false;
    auto mine = marked_;
    entry_.receiving.compare_exchange_strong(mine, word(true), std::memory_order_seq_cst);
    return true;
  }
  void end() noexcept { slot_ = 0; }

private:
  std::uint64_t word(bool is_busy) noexcept {
    const auto made = life_ | std::uint64_t{slot_} << 1 | (is_busy ? 1 : 0);
    if (is_busy)
      marked_ = made;
    return made;
  }

  layout::tables& t_;
  layout::qp_entry& entry_;
  const std::uint32_t qp_index_;
  const std::uint64_t life_;
  std::uint64_t marked_ = 0;
  std::uint32_t slot_ = 0;
  bool is_mine_ = false;
};

/// `length` bytes of the sender's pieces from `begin` on.
std::span<const ibv_sge> slice(std::span<const ibv_sge> whole, std::uint64_t begin, std::uint64_t length,
                               std::array<ibv_sge, most_pieces>& out) noexcept {
  std::size_t n = 0;
  for (const auto& sge : whole) {
    if (begin >= sge.length) {
      begin -= sge.length;
      continue;
    }
    const auto part = std::min<std::uint64_t>(sge.length - begin, length);
    if (part == 0)
      break;
    out[n++] = {sge.addr + begin, static_cast<std::uint32_t>(part), sge.lkey};
    length -= part;
    begin = 0;
  }
  return {out.data(), n};
}

/// What a local key of the receiver's means; false if the piece is not all within it, or may not be written.
bool look_up_piece(region_cache& cache, const layout::mr_entry& mr, std::uint64_t state, std::uint32_t pd,
                   const ibv_sge& piece) noexcept {
  if (state == 0 || mr.lkey.load(std::memory_order_relaxed) != piece.lkey)
    return false;
  if (cache.state != state) {
    cache.state = state;
    cache.addr = mr.addr.load(std::memory_order_relaxed);
    cache.length = mr.length.load(std::memory_order_relaxed);
    cache.access = mr.pd.load(std::memory_order_relaxed) == pd ? mr.access.load(std::memory_order_relaxed)
                                                               : std::uint32_t{0};
    cache.has_way = false;
  }
  return (cache.access & IBV_ACCESS_LOCAL_WRITE) != 0 && piece.addr >= cache.addr &&
         piece.length <= cache.length && piece.addr - cache.addr <= cache.length - piece.length;
}

enum class filled : std::uint8_t { all, some, lost, too_long, no_access, unreachable };

/// Places a SEND's bytes into the pieces of a receive, going on at `done`.
class filling {
public:
  filling(runtime& rt, execution& at_work, const responder& to, const request& what,
          std::span<const ibv_sge> local, std::uint32_t pd, region_cache& cache) noexcept
      : rt_{rt}, at_work_{at_work}, to_{to}, what_{what}, local_{local}, pd_{pd}, cache_{cache} {}

  [[nodiscard]] filled run(layout::receive_slot& slot, std::uint64_t& done, copy_budget& budget) {
    const std::span pieces{pieces_of(slot), slot.num_sge};
    std::uint64_t room = 0;
    for (const auto& piece : pieces)
      room += piece.length;
    if (what_.length > room)
      return filled::too_long;
    std::uint64_t begin = 0;
    for (const auto& piece : pieces) {
      const auto n = std::min<std::uint64_t>(piece.length, what_.length - begin);
      if (done < begin + n)
        if (const auto f = fill_piece(piece, begin, n, done, budget); f != filled::all)
          return f;
      begin += n;
    }
    return filled::all;
  }

private:
  filled fill_piece(const ibv_sge& piece, std::uint64_t begin, std::uint64_t length, std::uint64_t& done,
                    copy_budget& budget) {
    auto& t = rt_.tables();
    cache_.choose(t, piece.lkey);
    auto& mr = t.mrs[cache_.index];
    at_work_.target(to_.qp_index, cache_.index); // first say it, then look
    const auto& qp = t.qps[to_.qp_index];
    const auto state = mr.state.load(std::memory_order_seq_cst);
    const permission may{&qp.word, to_.generation, &mr.state, state};
    if (!may.holds())
      return filled::lost;
    if (!look_up_piece(cache_, mr, state, pd_, piece))
      return filled::no_access;
    if (!what_.moves_payload) {
      done = begin + length;
      return filled::all;
    }
    const auto epoch = rt_.mappings().epoch();
    if (!cache_.has_way || cache_.epoch != epoch) {
      cache_.where = find_way(rt_, mr, cache_.index, state);
      cache_.epoch = epoch;
      cache_.has_way = true;
    }
    const auto skip = done - begin;
    std::array<ibv_sge, most_pieces> parts;
    const move_order bytes{cache_.where,      piece.addr - cache_.addr + skip,
                           piece.addr + skip, slice(local_, done, length - skip, parts),
                           length - skip,     false};
    std::uint64_t moved_bytes = 0;
    auto m = moved::all;
    if (move_at_once(bytes, 0, budget))
      moved_bytes = bytes.length;
    else
      m = move_bytes(bytes, may, moved_bytes, budget);
    done += moved_bytes;
    switch (m) {
    case moved::all: return filled::all;
    case moved::some: return filled::some;
    case moved::no_process: return filled::lost;
    case moved::revoked:
      return mr.state.load(std::memory_order_seq_cst) == state ? filled::lost : filled::no_access;
    case moved::no_permission: log_no_permission(rt_, to_); break;
    case moved::fault: break;
    }
    return filled::unreachable;
  }

  runtime& rt_;
  execution& at_work_;
  const responder& to_;
  const request& what_;
  const std::span<const ibv_sge> local_;
  const std::uint32_t pd_;
  region_cache& cache_;
};

/// Gives a receive its result and its place on the owner's list. False if it is not ours any more.
bool deliver(runtime& rt, const responder& to, receiving& in_hand, ibv_wc_status status, const request& what,
             const message& with) noexcept {
  auto& t = rt.tables();
  auto& slot = slot_at(t, in_hand.slot());
  const auto word = slot.word.load(std::memory_order_seq_cst);
  const bool is_ours = state_of(word) == receive_state::claimed && claimer_of(word) == to.qp_index;
  if (is_ours) {
    slot.byte_len = what.length;
    slot.imm_data = with.imm_data;
    slot.src_qpn = with.src_qpn;
    slot.status = static_cast<std::uint8_t>(status);
    slot.opcode = static_cast<std::uint8_t>(with.is_write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV);
    slot.flags = static_cast<std::uint8_t>((with.has_imm ? layout::with_imm : 0) |
                                           (with.is_solicited ? layout::solicited : 0));
  }
  if (!is_ours || !finish_receive(slot, word)) {
    in_hand.end();
    return false;
  }
  auto& cq = t.cqs[t.qps[to.qp_index].receive_cq.load(std::memory_order_relaxed) - 1];
  add_arrival(t, cq, in_hand.slot());
  rt.note_arrival_anywhere();
  in_hand.end();
  if (cq.armed.load(std::memory_order_seq_cst) != 0) {
    t.processes[to.process].arrivals.store(1, std::memory_order_seq_cst);
    rt.ring(to.process);
  }
  return true;
}

/// A receive that failed: its completion says so, and both queue pairs end.
verdict fail_receive(runtime& rt, const responder& to, receiving& in_hand, ibv_wc_status status, verdict why,
                     const request& what, const message& with) noexcept {
  return deliver(rt, to, in_hand, status, what, with) ? refuse(rt, to, why, layout::told_by_receive)
                                                      : verdict::lost;
}

bool still_responds(const layout::qp_entry& qp, const responder& to) noexcept {
  const auto word = qp.word.load(std::memory_order_seq_cst);
  return qp_generation(word) == to.generation && qp_responds(word);
}

/// The message is here, and so is a receive for it.
verdict receive(runtime& rt, execution& at_work, const responder& to, const request& what,
                const message& with, std::span<const ibv_sge> local, std::uint32_t queue, receiving& in_hand,
                region_cache& cache, std::uint64_t& done, copy_budget& budget) {
  auto& t = rt.tables();
  auto& qp = t.qps[to.qp_index];
  if (!with.is_write) {
    const auto pd = ring_at(t, queue).pd.load(std::memory_order_relaxed);
    filling bytes{rt, at_work, to, what, local, pd, cache};
    switch (bytes.run(slot_at(t, in_hand.slot()), done, budget)) {
    case filled::all: break;
    case filled::some: return verdict::unfinished;
    case filled::lost: return verdict::lost;
    case filled::too_long:
      return fail_receive(rt, to, in_hand, IBV_WC_LOC_LEN_ERR, verdict::invalid_request, what, with);
    case filled::no_access:
      return fail_receive(rt, to, in_hand, IBV_WC_LOC_PROT_ERR, verdict::operation_error, what, with);
    case filled::unreachable:
      return fail_receive(rt, to, in_hand, IBV_WC_LOC_QP_OP_ERR, verdict::operation_error, what, with);
    }
  }
  qp.expected_psn.store((what.psn + what.packets) & psn_mask, std::memory_order_seq_cst);
  return deliver(rt, to, in_hand, IBV_WC_SUCCESS, what, with) ? verdict::executed : verdict::lost;
}

} // namespace

verdict serve_message(runtime& rt, execution& at_work, const responder& to, const request& what,
                      const message& with, std::span<const ibv_sge> local, region_cache& cache,
                      region_cache& receives, std::uint64_t& done, copy_budget& budget) {
  auto& t = rt.tables();
  auto& qp = t.qps[to.qp_index];
  at_work.target_queue_pair(to.qp_index); // first say it, then look
  const auto word = qp.word.load(std::memory_order_seq_cst);
  if (qp_generation(word) != to.generation || !qp_responds(word))
    return verdict::lost;
  if (!fits_ports(t, to, what))
    return verdict::lost;
  receiving in_hand{t, to};
  if (!in_hand)
    return verdict::unfinished;
  const auto order = classify(what.psn, qp.expected_psn.load(std::memory_order_seq_cst));
  if (order != arrival::next) // what is repeated is acknowledged, not executed again
    return order == arrival::early ? verdict::lost : verdict::executed;
  if (qp_is(word, IBV_QPS_RTR))
    note_first_message(rt, to);
  const bool may_write = (qp.access.load(std::memory_order_relaxed) & IBV_ACCESS_REMOTE_WRITE) != 0;
  if (has_long_packets(qp, what) || (with.is_write && !may_write))
    return refuse(rt, to, verdict::invalid_request);

  const auto queue = qp.receive_queue.load(std::memory_order_seq_cst);
  if (with.is_write && what.length != 0) {
    if (!in_hand.has_slot() && (queue == 0 || posted_receives(t, queue) == 0))
      return verdict::not_ready;
    cache.choose(t, what.rkey);
    if (const auto v = move_payload(rt, at_work, to, what, local, cache, done, budget);
        v != verdict::executed)
      return v;
  }
  const bool had_slot = in_hand.has_slot();
  if (!in_hand.claim(queue))
    return verdict::not_ready;
  // Whoever took the queue pair away looks for claimed receives after it marked it: one of us sees the other.
  if (!still_responds(qp, to))
    return verdict::lost;
  if (!had_slot && reached_limit(t, queue)) {
    t.processes[to.process].arrivals.store(1, std::memory_order_seq_cst);
    rt.ring(to.process);
  }
  return receive(rt, at_work, to, what, with, local, queue, in_hand, receives, done, budget);
}

} // namespace actor_rdma::verbs::soft
