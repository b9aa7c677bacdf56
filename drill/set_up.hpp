// SPDX-License-Identifier: Apache-2.0
// What a run waits for before its time begins, and why that may not come.
#pragma once

#include "drill/facts.hpp"
#include "drill/scenario.hpp"

#include <string>
#include <utility>
#include <vector>

namespace actor_rdma::drill {

/// The rails between two hosts, as pairs of "host/soft0": each device of both has one.
std::vector<std::pair<std::string, std::string>> rails_of(const scenario& what, const std::string& from,
                                                          const std::string& to);

/// For the end of a sentence about a set-up that failed: what the hosts said of their attempts, and which
/// limits of the file's devices are below what its traffic needs ("; a/soft0: max_qp is 1, its rails need
/// 4"). May be empty.
std::string why_not_up(const scenario& what, const run_facts& facts);

} // namespace actor_rdma::drill
