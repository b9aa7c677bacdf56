// SPDX-License-Identifier: Apache-2.0
// Looking for open transfers.
#include "drill/offers.hpp"

#include "drill/scenario.hpp"

#include <algorithm>

namespace actor_rdma::drill {

namespace {

/// The first time since the last fault at which a transfer of the file's own traffic between them was open;
/// max() if there was none.
base::duration first_offer(const run_facts& facts, const std::string& from, const std::string& to) {
  auto first = base::duration::max();
  for (const auto& t : facts.transfers)
    if (!t.is_after_traffic && t.from == from && t.to == to && (!t.ended || *t.ended >= facts.last_fault))
      first = std::min(first, std::max(t.submitted, facts.last_fault));
  return first;
}

} // namespace

rail_fact fact_of_rail(const run_facts& facts, const std::string& from, const std::string& to,
                       bool must_carry, std::optional<base::duration> carried, base::duration flows_over) {
  rail_fact f;
  f.name = from + ">" + to;
  f.must_carry = must_carry;
  if (carried)
    f.carried_after = *carried - (*carried <= flows_over
                                      ? std::min(first_offer(facts, host_of(from), host_of(to)), *carried)
                                      : std::max(flows_over, facts.last_fault));
  return f;
}

} // namespace actor_rdma::drill
