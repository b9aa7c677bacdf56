// SPDX-License-Identifier: Apache-2.0
// What of a scenario cannot be played in real time, and what of a run is not checked then.
#pragma once

#include "drill/scenario.hpp"

#include <string>
#include <vector>

namespace actor_rdma::drill {

/// Complaints with their places, "faults[2].kind: ..."; empty: it can be played.
std::vector<std::string> refuse_in_real_time(const scenario& what);
/// The other way round: what needs processes of its own.
std::vector<std::string> refuse_in_virtual_time(const scenario& what);
/// Names of invariants that only virtual time can tell.
const std::vector<std::string>& not_checked_in_real_time();
/// The scenario with the slack that its invariants have in real time: see docs/scenarios.md.
scenario with_real_time_slack(scenario what);

} // namespace actor_rdma::drill
