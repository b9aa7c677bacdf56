// SPDX-License-Identifier: Apache-2.0
// Many runs in several processes. Each run is a pure function of a scenario and a seed, so processes need
// nothing of each other, and one that crashes costs its own run only and is named with its seed.
#pragma once

#include "drill/judge.hpp"
#include "drill/runner.hpp"

#include <functional>
#include <vector>

namespace actor_rdma::drill {

struct task {
  const scenario* what = nullptr;
  std::uint64_t seed = 0;
};

/// Calls `done` for each task, as they finish, and `look`, if there is one, every second or more often.
/// `jobs` processes; the calling process runs nothing itself.
void run_in_processes(const std::vector<task>& tasks, unsigned jobs, runner& with,
                      const std::function<void(const task&, const verdict&)>& done,
                      const std::function<void()>& look = {});

} // namespace actor_rdma::drill
