// SPDX-License-Identifier: Apache-2.0
// A whole run in each role, from settings to exit status.
#pragma once

#include "bench/node.hpp"
#include "bench/results.hpp"
#include "bench/settings.hpp"
#include "bench/signals.hpp"
#include "bench/target_link.hpp"

#include <memory>

namespace actor_rdma::bench {

int run_target(const settings& what, signals& watch);
int run_initiator(const settings& what, signals& watch);
int run_loopback(const settings& what, signals& watch);

/// Target and initiator in one process, connected. Also what tests stand on.
class loopback_pair {
public:
  static base::expected<std::unique_ptr<loopback_pair>> open(const settings& what);
  ~loopback_pair();
  /// A run over this pair; `what` may differ from that of open() in the work, but not in the nodes.
  base::expected<run_result> run(const settings& what, signals* watch);
  /// False when something had to be left behind.
  bool close();

  node& initiator() noexcept { return *initiator_; }
  node& target() noexcept { return *target_; }
  verbs::soft::fabric* net() noexcept { return net_.get(); }

private:
  loopback_pair() = default;
  std::shared_ptr<verbs::soft::fabric> net_; ///< null with the system's devices
  std::shared_ptr<event_collector> events_;
  std::shared_ptr<health_watch> state_;
  std::unique_ptr<node> target_;
  std::unique_ptr<node> initiator_;
  std::unique_ptr<target_link> link_;
};

} // namespace actor_rdma::bench
