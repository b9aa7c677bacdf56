// SPDX-License-Identifier: Apache-2.0
// Plays scenarios in real time, one after the other, in processes of their own. One for a program, made on
// its main thread: it takes SIGINT and SIGTERM.
#pragma once

#include "drill/real/stop_signals.hpp"
#include "drill/runner.hpp"

#include <string>
#include <utility>

namespace actor_rdma::drill {

class real_runner final : public runner {
public:
  /// `devices_file`: on devices of the kernel (drill/kernel/devices_file.hpp); empty: on the software NIC.
  explicit real_runner(std::string devices_file = {}) : devices_file_(std::move(devices_file)) {}
  /// `what` as with_real_time_slack() makes it.
  run_facts run(const scenario& what, std::uint64_t seed, const run_wishes& wishes) override;
  /// It was asked to stop: no further run makes sense.
  bool was_stopped() { return signals_.came().has_value(); }

private:
  const std::string devices_file_;
  stop_signals signals_;
};

} // namespace actor_rdma::drill
