// SPDX-License-Identifier: Apache-2.0
//
// The verbs of the software NIC as a provider table. All hosts share the functions: every handle leads to its
// host.
#pragma once

#include "verbs/provider.hpp"
#include "verbs/soft/resources.hpp"
#include "verbs/soft/transfer.hpp"

namespace actor_rdma::verbs::soft {

/// Everything but the list of devices, which is a host's own.
[[nodiscard]] provider make_provider();

/// Fills in what the inlines of <infiniband/verbs.h> call.
void set_data_path(soft_context& context) noexcept;

/// ibv_resize_cq(3). errno as result: EINVAL when more completions wait than would have room.
[[nodiscard]] int resize_cq(ibv_cq* cq, int entries);

/// How the payload of a queue pair's work requests travelled so far. For tests and tools.
[[nodiscard]] tier_counts tier_use(ibv_qp* qp);

} // namespace actor_rdma::verbs::soft
