// SPDX-License-Identifier: Apache-2.0
//
// Posting by ibv_wr_start ... ibv_wr_complete: the calls collect work requests, and completing posts them as
// one chain or not at all.
#include "verbs/dropin/extended.hpp"
#include "verbs/soft/queue_pair.hpp"

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

namespace actor_rdma::verbs::dropin {

namespace {

/// Between start and complete (or abort) it belongs to one thread.
class wr_builder {
public:
  explicit wr_builder(ibv_qp_ex& qp) : qp_{qp} {}

  void start() {
    mutex_.lock();
    requests_.clear();
    pieces_.clear();
    bytes_.clear();
    error_ = 0;
  }
  void abort() { mutex_.unlock(); }

  ibv_send_wr& add(ibv_wr_opcode opcode) {
    auto& r = requests_.emplace_back();
    r.wr.wr_id = qp_.wr_id;
    r.wr.opcode = opcode;
    r.wr.send_flags = qp_.wr_flags;
    r.first_piece = pieces_.size();
    return r.wr;
  }

  void set_pieces(const ibv_sge* list, std::size_t count) {
    if (!begin_data())
      return;
    pieces_.insert(pieces_.end(), list, list + count);
    requests_.back().wr.num_sge = static_cast<int>(count);
  }

  /// Inline data is taken over now: the application may change it before it completes.
  void set_inline(const ibv_data_buf* list, std::size_t count) {
    if (!begin_data())
      return;
    auto& r = requests_.back();
    r.wr.send_flags |= IBV_SEND_INLINE;
    r.wr.num_sge = 1;
    r.first_byte = bytes_.size();
    for (std::size_t i = 0; i < count; ++i) {
      const auto* const from = static_cast<const std::byte*>(list[i].addr);
      bytes_.insert(bytes_.end(), from, from + list[i].length);
    }
    pieces_.push_back({0, static_cast<std::uint32_t>(bytes_.size() - r.first_byte), 0});
  }

  void set_address(ibv_ah* ah, std::uint32_t qpn, std::uint32_t qkey) {
    if (!requests_.empty())
      requests_.back().wr.wr.ud = {ah, qpn, qkey};
  }

  void fail(int error) noexcept { error_ = error; }

  int complete() {
    const std::lock_guard lock{mutex_, std::adopt_lock};
    if (error_ != 0)
      return error_;
    if (requests_.empty())
      return 0;
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      auto& r = requests_[i];
      r.wr.next = i + 1 < requests_.size() ? &requests_[i + 1].wr : nullptr;
      r.wr.sg_list = pieces_.data() + r.first_piece;
      if ((r.wr.send_flags & IBV_SEND_INLINE) != 0 && r.wr.num_sge == 1)
        r.wr.sg_list->addr = reinterpret_cast<std::uintptr_t>(bytes_.data() + r.first_byte);
    }
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(&qp_.qp_base, &requests_.front().wr, &bad);
  }

private:
  struct request {
    ibv_send_wr wr{};
    std::size_t first_piece = 0;
    std::size_t first_byte = 0;
  };

  /// Data belongs to the request before it, and is given once.
  bool begin_data() {
    if (requests_.empty() || requests_.back().wr.num_sge != 0) {
      error_ = EINVAL;
      return false;
    }
    return true;
  }

  ibv_qp_ex& qp_;
  std::mutex mutex_;
  std::vector<request> requests_;
  std::vector<ibv_sge> pieces_;
  std::vector<std::byte> bytes_;
  int error_ = 0;
};

soft::soft_qp& qp_of(ibv_qp_ex* qp) noexcept {
  return soft::soft_qp::of(&qp->qp_base);
}
wr_builder& builder_of(ibv_qp_ex* qp) noexcept {
  return *static_cast<wr_builder*>(qp_of(qp).attachment.get());
}

void set_remote(ibv_send_wr& wr, std::uint32_t rkey, std::uint64_t addr) noexcept {
  wr.wr.rdma = {addr, rkey};
}

void add_operations(ibv_qp_ex& x) {
  x.wr_rdma_write = [](ibv_qp_ex* q, std::uint32_t rkey, std::uint64_t addr) {
    set_remote(builder_of(q).add(IBV_WR_RDMA_WRITE), rkey, addr);
  };
  x.wr_rdma_write_imm = [](ibv_qp_ex* q, std::uint32_t rkey, std::uint64_t addr, __be32 imm) {
    auto& wr = builder_of(q).add(IBV_WR_RDMA_WRITE_WITH_IMM);
    set_remote(wr, rkey, addr);
    wr.imm_data = imm;
  };
  x.wr_rdma_read = [](ibv_qp_ex* q, std::uint32_t rkey, std::uint64_t addr) {
    set_remote(builder_of(q).add(IBV_WR_RDMA_READ), rkey, addr);
  };
  x.wr_send = [](ibv_qp_ex* q) { builder_of(q).add(IBV_WR_SEND); };
  x.wr_send_imm = [](ibv_qp_ex* q, __be32 imm) { builder_of(q).add(IBV_WR_SEND_WITH_IMM).imm_data = imm; };
  x.wr_atomic_cmp_swp = [](ibv_qp_ex* q, std::uint32_t rkey, std::uint64_t addr, std::uint64_t compare,
                           std::uint64_t swap) {
    builder_of(q).add(IBV_WR_ATOMIC_CMP_AND_SWP).wr.atomic = {addr, compare, swap, rkey};
  };
  x.wr_atomic_fetch_add = [](ibv_qp_ex* q, std::uint32_t rkey, std::uint64_t addr, std::uint64_t add) {
    builder_of(q).add(IBV_WR_ATOMIC_FETCH_AND_ADD).wr.atomic = {addr, add, 0, rkey};
  };
  // Not offered (send_operations), so whoever calls these did not ask: completing will say so.
  x.wr_bind_mw = [](ibv_qp_ex* q, ibv_mw*, std::uint32_t, const ibv_mw_bind_info*) {
    builder_of(q).fail(EOPNOTSUPP);
  };
  x.wr_local_inv = [](ibv_qp_ex* q, std::uint32_t) { builder_of(q).fail(EOPNOTSUPP); };
  x.wr_send_inv = [](ibv_qp_ex* q, std::uint32_t) { builder_of(q).fail(EOPNOTSUPP); };
  x.wr_send_tso = [](ibv_qp_ex* q, void*, std::uint16_t, std::uint16_t) { builder_of(q).fail(EOPNOTSUPP); };
  x.wr_set_xrc_srqn = [](ibv_qp_ex* q, std::uint32_t) { builder_of(q).fail(EOPNOTSUPP); };
}

} // namespace

std::uint64_t send_operations() noexcept {
  return IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |
         IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
         IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
}

void add_extended_interface(ibv_qp& handle) {
  auto& qp = soft::soft_qp::of(&handle);
  auto& x = qp.ex();
  qp.attachment = std::make_shared<wr_builder>(x);
  add_operations(x);
  x.wr_set_ud_addr = [](ibv_qp_ex* q, ibv_ah* ah, std::uint32_t qpn, std::uint32_t qkey) {
    builder_of(q).set_address(ah, qpn, qkey);
  };
  x.wr_set_inline_data = [](ibv_qp_ex* q, void* addr, std::size_t length) {
    const ibv_data_buf one{addr, length};
    builder_of(q).set_inline(&one, 1);
  };
  x.wr_set_inline_data_list = [](ibv_qp_ex* q, std::size_t count, const ibv_data_buf* list) {
    builder_of(q).set_inline(list, count);
  };
  x.wr_set_sge = [](ibv_qp_ex* q, std::uint32_t lkey, std::uint64_t addr, std::uint32_t length) {
    const ibv_sge one{addr, length, lkey};
    builder_of(q).set_pieces(&one, 1);
  };
  x.wr_set_sge_list = [](ibv_qp_ex* q, std::size_t count, const ibv_sge* list) {
    builder_of(q).set_pieces(list, count);
  };
  x.wr_start = [](ibv_qp_ex* q) { builder_of(q).start(); };
  x.wr_complete = [](ibv_qp_ex* q) { return builder_of(q).complete(); };
  x.wr_abort = [](ibv_qp_ex* q) { builder_of(q).abort(); };
}

ibv_qp_ex* extended_interface(ibv_qp& handle) noexcept {
  auto& qp = soft::soft_qp::of(&handle);
  if (qp.attachment == nullptr) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  return &qp.ex();
}

} // namespace actor_rdma::verbs::dropin
