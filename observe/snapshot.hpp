// SPDX-License-Identifier: Apache-2.0
// What an actor answers to a snapshot request: who it is, its state and since when, what it holds and how old
// the oldest of it is, and how it came there. Plain values, taken in one message, safe to read anywhere.
#pragma once

#include "base/time.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace actor_rdma::observe {

struct transition_record {
  base::time_point at;
  std::string from;
  std::string to;
  std::string event;
};

struct actor_snapshot {
  std::string kind; ///< "device", "endpoint", "qp", "peer"
  std::string name; ///< "node-a/soft0", "node-a/soft0>node-b/soft0", "node-a/soft0>node-b/soft0#1"
  std::string state;
  base::duration age{};          ///< time in this state
  std::uint64_t queued = 0;      ///< work that waits here
  std::uint64_t outstanding = 0; ///< WRs (or transfers) that are out
  base::duration oldest{};       ///< age of the oldest outstanding one, zero if none
  std::uint32_t generation = 0;
  std::uint32_t qp_num = 0;
  std::string cause; ///< of the last transition that was not routine
  std::uint64_t ignored_events = 0;
  std::vector<transition_record> last; ///< oldest first
};

/// One line for people: "qp node-a/soft0>node-b/soft0#1: PAUSED for 12.3 ms, 0 queued, 16 outstanding
/// (oldest 42.0 ms)...".
std::string to_line(const actor_snapshot& s);
/// to_line plus the transitions, one per line, indented.
std::string to_text(const actor_snapshot& s, base::time_point now);

} // namespace actor_rdma::observe
