// SPDX-License-Identifier: Apache-2.0
// What a check has to say against a run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace actor_rdma::drill {

enum class check_class : std::uint8_t { expectation, invariant, unfinished };

struct finding {
  check_class what = check_class::invariant;
  std::string check;               ///< "no late byte", "expect[2]: transfers"
  std::string about;               ///< the transfer or WR, rail or counter
  std::string text;                ///< what is wrong with it
  std::vector<std::string> actors; ///< parts of the names of the actors involved: hosts, rails
};

} // namespace actor_rdma::drill
