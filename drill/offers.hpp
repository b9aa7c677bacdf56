// SPDX-License-Identifier: Apache-2.0
// When a pair of hosts had work for its rails: one that nobody needed cannot have carried.
#pragma once

#include "base/time.hpp"
#include "drill/facts.hpp"

#include <string>

namespace actor_rdma::drill {

/// The first time from `after` on at which a transfer of the file's own traffic between them was open; max()
/// if there was none.
base::duration first_offer(const run_facts& facts, const std::string& from, const std::string& to,
                           base::duration after);

} // namespace actor_rdma::drill
