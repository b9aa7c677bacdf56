// SPDX-License-Identifier: Apache-2.0
// How a scenario's host is set up, as options of the transport that its process makes.
#pragma once

#include "drill/real/host_outbox.hpp"
#include "drill/real/host_role.hpp"
#include "drill/scenario.hpp"
#include "transport/options.hpp"

#include <memory>

namespace actor_rdma::drill {

/// Events of the transport go to `out`. Refused: a devices file that cannot be read, or does not name all of
/// the host's devices.
base::expected<options> options_of(const host_wishes& w, const host_spec& h,
                                   const std::shared_ptr<host_outbox>& out);

} // namespace actor_rdma::drill
