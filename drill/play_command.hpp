// SPDX-License-Identifier: Apache-2.0
// `actor-rdma-drill run`: plays scenarios with their seeds and reports what came of it.
#pragma once

#include "drill/progress.hpp"
#include "drill/scenario.hpp"

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

namespace actor_rdma::drill {

struct seed_range {
  std::uint64_t first = 1;
  std::uint64_t last = 0;
};

struct play_wishes {
  std::optional<std::uint64_t> seed;
  std::optional<seed_range> seeds; ///< neither: what the file says, in real time 1
  std::uint64_t seeds_at_most = 0; ///< 0: no limit
  unsigned jobs = 0;               ///< 0: the number of cores
  bool trace = false;              ///< one file and `seed`
  bool json = false;
  bool real = false;        ///< every file suits it
  std::string devices_file; ///< in real time, on devices of the kernel; every file suits them
};

/// The exit status of the program: the greatest of all runs'.
int play_files(const std::vector<scenario>& all, const play_wishes& wishes, progress& how_far,
               std::ostream& output);

} // namespace actor_rdma::drill
