// SPDX-License-Identifier: Apache-2.0
// The kinds of expectations that a file can have, one entry each: which keys it takes, how it computes its
// figure from the recorded facts, and how it is said in words. Every figure is compared with at_least,
// at_most and equals. A new kind is a new entry.
#pragma once

#include "drill/checks/finding.hpp"
#include "drill/facts.hpp"
#include "drill/scenario.hpp"

#include <functional>
#include <optional>

namespace actor_rdma::drill {

struct expect_kind {
  std::string name;
  std::string meaning; ///< what the figure is, with its unit
  std::vector<std::string> must_have;
  std::vector<std::string> may_have; ///< beside at_least, at_most and equals
  std::vector<std::string> statuses; ///< those that `status` can be
  /// Nothing: there is nothing to compute it from, which is a failure of its own.
  std::function<std::optional<double>(const expect_spec&, const run_facts&)> figure;
  /// A time of the machine as well as of the transport: in real time it is measured, not judged.
  bool is_time_of_recovery = false;
};

const std::vector<expect_kind>& expect_kinds();
const expect_kind* find_expect_kind(const std::string& name);
std::string describe(const expect_spec& what);
/// What each expectation of the file computes from a run, in their order.
std::vector<std::optional<double>> figures_of(const scenario& what, const run_facts& facts);
std::vector<finding> check_expectations(const scenario& what, const run_facts& facts,
                                        const std::vector<std::optional<double>>& figures);
/// The times at which the devices' byte counters have to be read for these expectations.
std::vector<base::duration> sample_times(const scenario& what);

} // namespace actor_rdma::drill
