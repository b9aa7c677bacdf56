// SPDX-License-Identifier: Apache-2.0
// Collects the snapshots of many actors on different lanes into one answer. Whoever passes a request on says
// first whom it expects; the answer is complete when everybody has answered, and who has not is known by
// name, which is itself the most useful finding there can be.
#pragma once

#include "base/time.hpp"
#include "observe/snapshot.hpp"

#include <condition_variable>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace actor_rdma::observe {

class snapshot_gather {
public:
  /// Any thread. Before the request is sent to `name`, and before the one who sends it on has answered for
  /// itself.
  void expect(std::string name);
  /// Any thread. The answer of the actor with that name.
  void add(actor_snapshot answer);
  /// Blocks; not on a lane. True when nobody is missing.
  bool wait_for(base::duration timeout);
  std::vector<actor_snapshot> answers() const;
  std::vector<std::string> silent() const;

private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::multiset<std::string> missing_;
  std::vector<actor_snapshot> answers_;
};

} // namespace actor_rdma::observe
