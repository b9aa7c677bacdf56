// SPDX-License-Identifier: Apache-2.0
// Checks of a scenario as a whole, after every key was read.
#pragma once

#include "drill/format/value.hpp"
#include "drill/scenario.hpp"

namespace actor_rdma::drill::format {

/// Adds "faults[2].host: there is no host ..." for each name that means nothing and for values that do not go
/// together.
void check_together(const scenario& what, complaints& to);

} // namespace actor_rdma::drill::format
