// SPDX-License-Identifier: Apache-2.0
// How often requests of one source may be refused by a device. Each refusal costs a queue pair, with all that
// was posted on it, and no rebuild makes such a request any better: a program that sends them without end
// would keep the rails in a circle of rebuilds. A source is the pair of buffers that a request names; what it
// asks for while it is barred is refused before it is posted. Pure: time is an argument.
#pragma once

#include "base/time.hpp"

#include <compare>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>

namespace actor_rdma::actors {

class refusal_budget {
public:
  struct source {
    std::uint64_t local = 0;                         ///< id of our buffer
    std::uint64_t remote = 0;                        ///< id of the peer's
    auto operator<=>(const source&) const = default; // NOLINT(modernize-use-nullptr): version 14 errs here
  };
  static constexpr std::size_t allowed = 3; ///< refusals in `window`
  static constexpr base::duration window = std::chrono::seconds{10};
  static constexpr std::size_t most_sources = 1024; ///< what is known of the one refused longest ago goes

  /// One of its requests was refused. True when that used up its budget: it is barred from now on.
  bool refused(const source& who, base::time_point now);
  /// Until the refusal that is `allowed` back is older than `window`.
  bool is_barred(const source& who, base::time_point now) const;

private:
  std::map<source, std::deque<base::time_point>> refusals_; ///< of each: the last `allowed`, oldest first
};

} // namespace actor_rdma::actors
