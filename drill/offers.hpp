// SPDX-License-Identifier: Apache-2.0
// When rails came back after the faults: timed from when there was work for them, because one that nobody
// needed cannot have carried.
#pragma once

#include "base/time.hpp"
#include "drill/facts.hpp"

#include <optional>
#include <string>

namespace actor_rdma::drill {

/// What is to be said of the rail between these devices ("a/soft0") in the end. `carried`: when it first did
/// since the last fault, if it did. From `flows_over` on every rail was offered some.
rail_fact fact_of_rail(const run_facts& facts, const std::string& from, const std::string& to,
                       bool must_carry, std::optional<base::duration> carried, base::duration flows_over);

} // namespace actor_rdma::drill
