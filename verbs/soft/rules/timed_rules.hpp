// SPDX-License-Identifier: Apache-2.0
//
// Rules that act when their time comes and not when something happens: events and links by the clock, and
// calls that wait and must be woken to fail. Each process sees to its own devices.
#pragma once

#include "verbs/soft/layout.hpp"
#include "verbs/soft/rules/rule_book.hpp"
#include "verbs/soft/timeline.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

namespace actor_rdma::verbs::soft {

class runtime;

class timed_rules {
public:
  /// After a change: arms the rules that are new. Any thread, without locks of the runtime.
  void look(runtime& rt);

private:
  class alarm;
  static void act(runtime& rt, const live_rule& r, nanos now);

  std::mutex mutex_;
  std::uint32_t seen_epoch_ = 0;
  std::map<std::uint32_t, std::shared_ptr<alarm>> armed_; // by rule
};

} // namespace actor_rdma::verbs::soft
