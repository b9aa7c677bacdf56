// SPDX-License-Identifier: Apache-2.0
// --compare: the same loopback run with both engines, alternately, each in a process of its own, so that
// neither finds the other one's threads, caches or memory; and what the medians of the pairs say.
#pragma once

#include "bench/settings.hpp"

#include <string>
#include <vector>

namespace actor_rdma::bench {

/// `arguments` are those of this process; the children get them with another engine and --json.
int run_comparison(const settings& what, const std::vector<std::string>& arguments);

} // namespace actor_rdma::bench
