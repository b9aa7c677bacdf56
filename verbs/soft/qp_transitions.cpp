// SPDX-License-Identifier: Apache-2.0
//
// The table of transitions.
#include "verbs/soft/qp_transitions.hpp"

#include <algorithm>
#include <array>
#include <cerrno>

namespace actor_rdma::verbs::soft {

namespace {

struct transition {
  ibv_qp_state from;
  ibv_qp_state to;
  int required;
  int optional;
};

constexpr int address = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
constexpr int running =
    IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE;

constexpr std::array<transition, 5> table{{
    {IBV_QPS_RESET, IBV_QPS_INIT, address, 0},
    {IBV_QPS_INIT, IBV_QPS_INIT, 0, address},
    {IBV_QPS_INIT, IBV_QPS_RTR,
     IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
         IBV_QP_MIN_RNR_TIMER,
     IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
    {IBV_QPS_RTR, IBV_QPS_RTS,
     IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC, running},
    {IBV_QPS_RTS, IBV_QPS_RTS, 0, running},
}};

bool is_permitted(int mask, int required, int optional) noexcept {
  const int given = mask & ~IBV_QP_STATE;
  return (given & required) == required && (given & ~(required | optional)) == 0;
}

} // namespace

int check_transition(ibv_qp_state from, ibv_qp_state to, int mask) noexcept {
  // Every state may go to RESET, and every one but RESET to ERR.
  if (to == IBV_QPS_RESET || (to == IBV_QPS_ERR && from != IBV_QPS_RESET))
    return is_permitted(mask, 0, 0) ? 0 : EINVAL;
  const auto* const found = std::find_if(table.begin(), table.end(),
                                         [&](const transition& t) { return t.from == from && t.to == to; });
  return found != table.end() && is_permitted(mask, found->required, found->optional) ? 0 : EINVAL;
}

} // namespace actor_rdma::verbs::soft
