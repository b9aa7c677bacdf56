// SPDX-License-Identifier: Apache-2.0
// Looking for open transfers.
#include "drill/offers.hpp"

#include <algorithm>

namespace actor_rdma::drill {

base::duration first_offer(const run_facts& facts, const std::string& from, const std::string& to,
                           base::duration after) {
  auto first = base::duration::max();
  for (const auto& t : facts.transfers)
    if (!t.is_after_traffic && t.from == from && t.to == to && (!t.ended || *t.ended >= after))
      first = std::min(first, std::max(t.submitted, after));
  return first;
}

} // namespace actor_rdma::drill
