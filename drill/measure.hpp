// SPDX-License-Identifier: Apache-2.0
// How long it takes to get over each of a list of faults: plays each file many times, in virtual time or in
// real time, and makes one row of a table of it. What is measured are the file's expectations of the kinds
// detect_ms, reissue_ms, settle_ms and full_rate_ms.
#pragma once

#include "drill/progress.hpp"
#include "drill/scenario.hpp"

#include <cstdint>
#include <iosfwd>
#include <vector>

namespace actor_rdma::drill {

struct measure_wishes {
  std::uint64_t runs = 200; ///< of each file, seeds 1 to `runs`; void ones are repeated and do not count
  unsigned jobs = 1;        ///< processes, in virtual time
  bool real = false;
  bool json = false; ///< one object for each file, on a line, instead of the table
};

/// The exit status of the program: the worst of all runs'. In real time at most as many runs may be void as
/// count, else there is no result and the status is that of a run which did not finish.
int measure(const std::vector<scenario>& all, const measure_wishes& wishes, progress& how_far,
            std::ostream& output);

} // namespace actor_rdma::drill
