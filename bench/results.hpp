// SPDX-License-Identifier: Apache-2.0
// What a run found out, and its two forms: one JSON object for programs, a table for people.
#pragma once

#include "bench/fault_run.hpp"
#include "bench/health.hpp"
#include "bench/notice_book.hpp"
#include "bench/settings.hpp"
#include "bench/tally.hpp"

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace actor_rdma::bench {

struct run_result {
  tally count;
  base::duration measured{}; ///< from the first counted batch to the end of the last one
  base::duration cpu{};      ///< of the whole process meanwhile
  std::optional<base::duration> core_round_trip;
  std::optional<fault_outcome> faults;
  health state;                         ///< of the initiator, and of a target in the same process
  std::optional<notice_counts> notices; ///< as the target saw them, if it is in the same process

  double seconds() const noexcept;
  double throughput() const noexcept; ///< bytes per second
  double ops() const noexcept;        ///< transfers per second
  double cpu_ns_per_op() const noexcept;
  double submit_ns_per_descriptor() const noexcept;
  bool is_good() const noexcept;
};

nlohmann::ordered_json to_json(const settings& what, const run_result& result);
std::string to_table(const settings& what, const run_result& result);

/// The value that a share q of `values` does not exceed; below zero when it is one that did not happen.
double quantile(std::vector<double> values, double q);

} // namespace actor_rdma::bench
