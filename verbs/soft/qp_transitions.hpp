// SPDX-License-Identifier: Apache-2.0
//
// Which transitions a reliable connected queue pair has, and which attributes each needs and allows: the
// kernel's table (ib_modify_qp_is_ok) for RC, without the SQD states, which the NIC does not have.
#pragma once

#include <infiniband/verbs.h>

namespace actor_rdma::verbs::soft {

/// 0 or EINVAL. `mask` as given to ibv_modify_qp; `to` is `from` when it has no IBV_QP_STATE.
[[nodiscard]] int check_transition(ibv_qp_state from, ibv_qp_state to, int mask) noexcept;

} // namespace actor_rdma::verbs::soft
