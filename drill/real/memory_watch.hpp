// SPDX-License-Identifier: Apache-2.0
// How much memory each process of a long run uses, early and late: what leaks shows as growth. Short lives
// tell nothing, because caches and rings are still being filled.
#pragma once

#include "base/time.hpp"
#include "drill/facts.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

namespace actor_rdma::drill {

class memory_watch {
public:
  static constexpr base::duration period = std::chrono::seconds{1};

  /// Reads what the process uses now; one that is gone is passed over.
  void look(const std::string& host, pid_t process, base::time_point now);
  void add(const std::string& host, pid_t process, base::time_point now, std::uint64_t bytes);
  /// Of each process that was watched for a minute at least: its greatest use in the tenth of its life that
  /// begins after 10 s, and its median use in the last tenth.
  std::vector<growth_fact> result() const;

private:
  using samples = std::vector<std::pair<base::time_point, std::uint64_t>>;
  std::map<std::pair<std::string, pid_t>, samples> lives_;
};

} // namespace actor_rdma::drill
