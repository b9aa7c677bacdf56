// SPDX-License-Identifier: Apache-2.0
// The course of a run, whichever engine moves the bytes: threads, warm-up, the measured time with a line per
// second, the end.
#pragma once

#include "bench/node.hpp"
#include "bench/raw_link.hpp"
#include "bench/results.hpp"
#include "bench/run_control.hpp"
#include "bench/settings.hpp"
#include "bench/signals.hpp"
#include "bench/target_link.hpp"

#include <memory>

namespace actor_rdma::bench {

/// What a run of the actor engine works on.
struct actor_parts {
  node& initiator;
  target_link& link;
  run_memory memory;
  /// For faults only.
  std::shared_ptr<verbs::soft::fabric> net;
  std::shared_ptr<event_collector> events;
  /// Of the initiator, and of a target in the same process.
  std::shared_ptr<health_watch> state;
  /// In the same process, else null.
  node* target = nullptr;
};

/// `watch` may be null: nobody can stop the run then.
base::expected<run_result> run_actor_engine(const settings& what, const actor_parts& parts, signals* watch);
base::expected<run_result> run_raw_engine(const settings& what, raw_link& link, run_memory memory,
                                          signals* watch);

} // namespace actor_rdma::bench
