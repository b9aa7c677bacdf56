// SPDX-License-Identifier: Apache-2.0
// The verdict on one run, and how it is told.
#pragma once

#include "drill/checks/finding.hpp"
#include "drill/facts.hpp"
#include "drill/scenario.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace actor_rdma::drill {

/// Exit status of the program: what class of check failed. Of several, the greatest.
enum exit_status : int {
  exit_good = 0,
  exit_expectation = 1, ///< the file's own expectations
  exit_usage = 2,       ///< arguments or file
  exit_invariant = 3,
  exit_unfinished = 4, ///< crashed, or did not come to its end
};

struct verdict {
  std::uint64_t seed = 0;
  int status = exit_good;
  std::vector<finding> findings;
  std::string report;                             ///< for people; empty if all is well
  std::map<std::string, std::uint64_t> transfers; ///< by status
  /// How often a fault, by its place in the file, found nothing it could befall.
  std::map<std::size_t, std::uint64_t> void_faults;
  std::uint64_t fingerprint = 0;
  std::uint64_t steps = 0;
  double virtual_ms = 0; ///< of real time, if it is in_real_time
  bool in_real_time = false;
  std::string devices_file; ///< of the kernel's devices, if they were used
  std::vector<std::string> not_checked;
  std::vector<std::optional<double>> figures; ///< of the file's expectations, in their order
  bool is_void = false; ///< in real time: the machine kept threads waiting while a recovery was measured
};

verdict judge(const scenario& what, const run_facts& facts);
int status_of(const std::vector<finding>& findings);
/// The one command that repeats the run; in real time, that tries it again.
std::string repeat_command(const scenario& what, std::uint64_t seed, bool in_real_time = false,
                           const std::string& devices_file = {});

} // namespace actor_rdma::drill
