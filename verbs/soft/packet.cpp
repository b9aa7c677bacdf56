// SPDX-License-Identifier: Apache-2.0
//
// The journey of a late packet.
#include "verbs/soft/packet.hpp"

#include "verbs/soft/queue_pair.hpp"
#include "verbs/soft/runtime.hpp"
#include "verbs/soft/tables.hpp"

#include <algorithm>
#include <numeric>

namespace actor_rdma::verbs::soft {

namespace {

/// A packet that waits for the responder's process looks so often, and is lost when it waited so long.
constexpr nanos ask_period = 100'000;
constexpr nanos ask_patience = 1'000'000'000;

} // namespace

packet::packet(runtime& rt, packet_origin from, const responder& to, const request& what,
               const logged_work& work)
    : rt_{rt}, from_{std::move(from)}, to_{to}, what_{what}, work_{work} {}

void packet::launch(nanos lands_at) {
  rt_.wire()->schedule(shared_from_this(), {lands_at, from_.device, from_.qp_num, from_.wr});
}

bool packet::is_link_down() const noexcept {
  const auto& devices = rt_.tables().devices;
  const auto is_down = [&](std::uint32_t d) {
    return devices[d].link_seq.load(std::memory_order_seq_cst) % 2 != 0;
  };
  return is_down(from_.device) || is_down(to_.device);
}

void packet::shuffle(base::rng& random, nanos over) {
  if (what_.is_read || message_ || what_.packets < 2 || !what_.moves_payload)
    return;
  pieces_.resize(what_.packets);
  std::iota(pieces_.begin(), pieces_.end(), 0U);
  std::shuffle(pieces_.begin(), pieces_.end(), random);
  gap_ = over / static_cast<nanos>(pieces_.size() - 1);
}

verdict packet::land_piece(execution& at_work, copy_budget& budget) {
  // The responder sees requests of one packet each, of which only the last moves its sequence number on.
  const auto offset = std::uint64_t{pieces_[next_piece_]} * what_.path_mtu;
  auto piece = what_;
  piece.remote_addr += offset;
  piece.length = static_cast<std::uint32_t>(std::min<std::uint64_t>(what_.length - offset, what_.path_mtu));
  piece.packets = next_piece_ + 1 == pieces_.size() ? what_.packets : 0;
  const ibv_sge bytes{reinterpret_cast<std::uintptr_t>(payload_.data()) + offset, piece.length, 0};
  region_cache cache;
  std::uint64_t done = 0;
  copy_budget whole = std::max<copy_budget>(budget, piece.length);
  const auto result = serve(rt_, at_work, to_, piece, {&bytes, 1}, cache, done, whole);
  return result == verdict::executed && ++next_piece_ != pieces_.size() ? verdict::unfinished : result;
}

verdict packet::land(copy_budget& budget) {
  if (!soft::is_wire_open(rt_, from_.device, index_of_qp_number(rt_.tables(), from_.qp_num), to_))
    return verdict::lost;
  execution at_work{rt_.process()};
  if (!pieces_.empty())
    return land_piece(at_work, budget);
  const ibv_sge bytes{reinterpret_cast<std::uintptr_t>(payload_.data()), what_.length, 0};
  region_cache cache;
  if (atomic_)
    return serve_atomic(rt_, at_work, to_, what_, *atomic_, bytes, cache);
  region_cache receives;
  return message_
             ? serve_message(rt_, at_work, to_, what_, *message_, {&bytes, 1}, cache, receives, done_, budget)
             : serve(rt_, at_work, to_, what_, {&bytes, 1}, cache, done_, budget);
}

void packet::run(nanos now, nanos, copy_budget& budget) {
  if (is_link_down()) {
    rt_.stall(shared_from_this());
    return;
  }
  const auto& qp = rt_.tables().qps[to_.qp_index];
  const bool is_known = is_duplicate_ && qp.expected_psn.load(std::memory_order_relaxed) != what_.psn;
  auto result = land(budget);
  if (result == verdict::unfinished) {
    launch(now + (pieces_.empty() ? 0 : gap_));
    return;
  }
  if (result == verdict::asked) {
    asked_at_ = std::min(asked_at_, now);
    if (now - asked_at_ < ask_patience) {
      launch(now + ask_period);
      return;
    }
    result = verdict::lost;
  }
  const bool has_landed = result == verdict::executed && !what_.is_read && !is_known;
  if (has_landed || result != verdict::executed || is_known)
    log(now, has_landed ? log_kind::landed_late : log_kind::dropped_late,
        result == verdict::executed || result == verdict::lost || result == verdict::not_ready
            ? 0U
            : static_cast<std::uint32_t>(status_of(result)));
  if (const auto sender = from_.sender.lock(); sender)
    sender->packet_arrived(from_.wr, *this, result, now);
}

void packet::log(nanos now, log_kind kind, std::uint32_t detail) {
  auto& t = rt_.tables();
  write_log(t, now, kind, t.devices[from_.device], from_.qp_num, detail, work_);
}

} // namespace actor_rdma::verbs::soft
