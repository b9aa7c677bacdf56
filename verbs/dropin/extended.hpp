// SPDX-License-Identifier: Apache-2.0
//
// The extended interfaces: the operations around a context, and the function pointers inside `ibv_cq_ex` and
// `ibv_qp_ex`, on top of the NIC's plain verbs.
#pragma once

#include <cstdint>

#include <infiniband/verbs.h>

namespace actor_rdma::verbs::dropin {

/// Full membership; big-endian like everything in a packet.
inline constexpr __be16 default_pkey = 0xffff;

/// Fills in what the inlines of <infiniband/verbs.h> look for in front of a context.
void extend(verbs_context& context) noexcept;

// -- domains
// ------------------------------------------------------------------------------------------------------

[[nodiscard]] ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* wanted);
[[nodiscard]] int dealloc_td(ibv_td* handle);
[[nodiscard]] ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* wanted);

// -- work requests by ibv_wr_*
// ------------------------------------------------------------------------------------

/// The IBV_QP_EX_WITH_... that there are.
[[nodiscard]] std::uint64_t send_operations() noexcept;
/// Makes the calls of ibv_wr_* work on a queue pair that was just created.
void add_extended_interface(ibv_qp& qp);
/// What ibv_qp_to_qp_ex answers: NULL unless the queue pair was created for it.
[[nodiscard]] ibv_qp_ex* extended_interface(ibv_qp& qp) noexcept;

// -- completions by ibv_start_poll
// --------------------------------------------------------------------------------

/// The IBV_WC_EX_WITH_... that there are.
[[nodiscard]] std::uint64_t completion_fields() noexcept;
void add_extended_interface(ibv_cq& cq, bool single_threaded);

} // namespace actor_rdma::verbs::dropin
