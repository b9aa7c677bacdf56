// SPDX-License-Identifier: Apache-2.0
//
// Handles with room for libibverbs' extended interfaces. `ibv_qp_ex` and `ibv_cq_ex` begin with the plain
// structs, and an application turns one into the other by a cast, so what follows the plain part has to be
// there in every object. The NIC itself never looks at it; the drop-in library fills it in.
#pragma once

#include <cstddef>
#include <memory>

#include <infiniband/verbs.h>

namespace actor_rdma::verbs::soft {

struct extended_qp : ibv_qp {
  alignas(8) std::byte extension[sizeof(ibv_qp_ex) - sizeof(ibv_qp)];
  std::shared_ptr<void> attachment; ///< what an interface on top of the NIC keeps with the object

  [[nodiscard]] ibv_qp_ex& ex() noexcept { return *reinterpret_cast<ibv_qp_ex*>(static_cast<ibv_qp*>(this)); }
};

struct extended_cq : ibv_cq {
  alignas(8) std::byte extension[sizeof(ibv_cq_ex) - sizeof(ibv_cq)];
  std::shared_ptr<void> attachment;

  [[nodiscard]] ibv_cq_ex& ex() noexcept { return *reinterpret_cast<ibv_cq_ex*>(static_cast<ibv_cq*>(this)); }
};

static_assert(offsetof(ibv_qp_ex, comp_mask) == sizeof(ibv_qp) &&
              offsetof(ibv_cq_ex, comp_mask) == sizeof(ibv_cq));

} // namespace actor_rdma::verbs::soft
