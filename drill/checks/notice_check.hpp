// SPDX-License-Identifier: Apache-2.0
// The invariant "notice after data, once": what the programs at both ends were told and saw, and what the
// transport's own events say of it, joined by the name of each notice.
#pragma once

#include "drill/checks/finding.hpp"
#include "drill/facts.hpp"
#include "drill/scenario.hpp"

#include <vector>

namespace actor_rdma::drill {

void check_notices(const scenario& what, const run_facts& facts, std::vector<finding>& all);

} // namespace actor_rdma::drill
