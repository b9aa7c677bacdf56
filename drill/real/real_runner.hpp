// SPDX-License-Identifier: Apache-2.0
// Plays scenarios in real time, one after the other, in processes of their own. One for a program, made on
// its main thread: it takes SIGINT and SIGTERM.
#pragma once

#include "drill/real/stop_signals.hpp"
#include "drill/runner.hpp"

namespace actor_rdma::drill {

class real_runner final : public runner {
public:
  /// `what` as with_real_time_slack() makes it.
  run_facts run(const scenario& what, std::uint64_t seed, const run_wishes& wishes) override;
  /// It was asked to stop: no further run makes sense.
  bool was_stopped() { return signals_.came().has_value(); }

private:
  stop_signals signals_;
};

} // namespace actor_rdma::drill
