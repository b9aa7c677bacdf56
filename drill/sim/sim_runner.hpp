// SPDX-License-Identifier: Apache-2.0
// Plays scenarios in the simulation: all hosts in one process, one thread and virtual time, every order of
// events drawn from the seed.
#pragma once

#include "drill/runner.hpp"

namespace actor_rdma::drill {

class sim_runner final : public runner {
public:
  run_facts run(const scenario& what, std::uint64_t seed, const run_wishes& wishes) override;
};

} // namespace actor_rdma::drill
