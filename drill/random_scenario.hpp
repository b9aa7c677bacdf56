// SPDX-License-Identifier: Apache-2.0
// Makes scenarios up: hosts, traffic and a long list of faults, all drawn from a seed. They expect nothing
// but what is checked in every run, and that there is traffic. For what nobody thought of.
#pragma once

#include "base/time.hpp"

#include <cstdint>
#include <string>

namespace actor_rdma::drill {

struct random_wishes {
  std::uint64_t seed = 1;
  base::duration lasts = std::chrono::seconds{10}; ///< faults and traffic
  bool for_real_time = false;                      ///< only what can be played with --real
};

/// The text of a scenario file, the same for the same wishes.
std::string random_scenario(const random_wishes& wishes);

} // namespace actor_rdma::drill
