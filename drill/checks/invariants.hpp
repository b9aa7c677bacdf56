// SPDX-License-Identifier: Apache-2.0
// What must hold in every run, whatever a scenario is about. Pure functions of what was recorded, one entry
// each in a table.
#pragma once

#include "drill/checks/finding.hpp"
#include "drill/facts.hpp"
#include "drill/scenario.hpp"

#include <functional>

namespace actor_rdma::drill {

struct invariant {
  std::string name;
  std::string meaning; ///< for people, one sentence
  std::function<void(const scenario&, const run_facts&, std::vector<finding>&)> check;
};

const std::vector<invariant>& invariants();
/// All of them.
std::vector<finding> check_invariants(const scenario& what, const run_facts& facts);

} // namespace actor_rdma::drill
