// SPDX-License-Identifier: Apache-2.0
// Whoever can play a scenario. Playing and judging are apart: a runner only records facts.
#pragma once

#include "drill/facts.hpp"
#include "drill/scenario.hpp"

#include <cstdint>
#include <functional>

namespace actor_rdma::drill {

struct run_wishes {
  bool trace = false; ///< keep every line
  /// In real time only: called often, with the scenario's time and how many of its transfers have ended.
  std::function<void(base::duration at, std::uint64_t ended)> look{};
};

class runner {
public:
  virtual ~runner() = default;
  virtual run_facts run(const scenario& what, std::uint64_t seed, const run_wishes& wishes) = 0;
};

} // namespace actor_rdma::drill
