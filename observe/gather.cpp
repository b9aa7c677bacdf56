// SPDX-License-Identifier: Apache-2.0
// Bookkeeping of expected and received snapshots.
#include "observe/gather.hpp"

#include <algorithm>
#include <tuple>

namespace actor_rdma::observe {

void snapshot_gather::expect(std::string name) {
  std::lock_guard lock(mutex_);
  missing_.insert(std::move(name));
}

void snapshot_gather::add(actor_snapshot answer) {
  std::lock_guard lock(mutex_);
  if (const auto at = missing_.find(answer.name); at != missing_.end())
    missing_.erase(at);
  answers_.push_back(std::move(answer));
  if (missing_.empty())
    changed_.notify_all();
}

bool snapshot_gather::wait_for(base::duration timeout) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, timeout, [&] { return missing_.empty(); });
}

std::vector<actor_snapshot> snapshot_gather::answers() const {
  std::lock_guard lock(mutex_);
  auto sorted = answers_;
  std::sort(sorted.begin(), sorted.end(),
            [](const auto& a, const auto& b) { return std::tie(a.kind, a.name) < std::tie(b.kind, b.name); });
  return sorted;
}

std::vector<std::string> snapshot_gather::silent() const {
  std::lock_guard lock(mutex_);
  return {missing_.begin(), missing_.end()};
}

} // namespace actor_rdma::observe
