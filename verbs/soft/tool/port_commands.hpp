// SPDX-License-Identifier: Apache-2.0
//
// soft-nic's commands for what is behind a port and what it says of itself: `rate`, `member`, `width`,
// `memory`.
#pragma once

#include "verbs/soft/fabric.hpp"

#include <cstdint>
#include <string>

#include <CLI/CLI.hpp>

namespace actor_rdma::verbs::soft::tool {

class port_commands {
public:
  /// Adds the commands. The app must outlive this.
  explicit port_commands(CLI::App& app);

  [[nodiscard]] bool parsed() const;
  /// The exit status; what went wrong is printed.
  [[nodiscard]] int run(fabric& net) const;

private:
  [[nodiscard]] int run_member(fabric& net) const;

  CLI::App* rate_;
  CLI::App* member_;
  CLI::App* width_;
  CLI::App* memory_;
  CLI::Option* of_member_;
  std::string device_;
  std::string value_;
  std::string rehash_;
  std::uint32_t index_ = 0;
  std::uint32_t lanes_ = usual_lanes;
  double gbit_s_ = 0;
  double lane_gbit_s_ = usual_lane_gbit_s;
};

} // namespace actor_rdma::verbs::soft::tool
