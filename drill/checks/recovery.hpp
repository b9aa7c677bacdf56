// SPDX-License-Identifier: Apache-2.0
// How a run got over one of its faults, as four times, all counted from the moment of the fault (the last one
// from its end). The fault's own moment and not that of the first work request that met it: what a request
// waited for is part of what its sender saw.
#pragma once

#include "base/time.hpp"
#include "drill/facts.hpp"

#include <cstddef>
#include <optional>
#include <string>

namespace actor_rdma::drill {

/// Nothing where it did not happen: a dead peer's work is not issued again.
struct recovery {
  std::optional<base::duration>
      detected; ///< the first event by which the initiator's host said that it knows
  std::optional<base::duration> reissued;  ///< the first slices issued once more, or given back to be
  std::optional<base::duration> settled;   ///< the last end of the transfers that were open in that moment
  std::optional<base::duration> full_rate; ///< after the fault's end, until 95 % of the rate before it
};

/// `fault` is its place in the scenario; of a fault that happens again and again, the first. `traffic`: whose
/// transfers and initiator, empty: those of all.
recovery recovery_from(const run_facts& facts, std::size_t fault, const std::string& traffic);

/// Whether the machine kept threads from running between the fault and the last of the first three times:
/// those are the machine's then. Only of runs in real time.
bool is_void(const run_facts& facts, std::size_t fault, const std::string& traffic);

} // namespace actor_rdma::drill
