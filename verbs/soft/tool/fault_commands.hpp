// SPDX-License-Identifier: Apache-2.0
//
// soft-nic's commands for faults: `link`, `hang`, `lost`, `delay`, `rule add|list|remove|clear`, `event`,
// `reset`.
#pragma once

#include "verbs/soft/fabric.hpp"

#include <cstdint>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace actor_rdma::verbs::soft::tool {

class fault_commands {
public:
  /// Adds the commands. The app must outlive this.
  explicit fault_commands(CLI::App& app);

  [[nodiscard]] bool parsed() const;
  /// The exit status; what went wrong is printed.
  [[nodiscard]] int run(fabric& net) const;

private:
  [[nodiscard]] int run_rule(fabric& net) const;

  CLI::App* link_;
  CLI::App* hang_;
  CLI::App* lost_;
  CLI::App* delay_;
  CLI::App* rule_;
  CLI::App* rule_add_;
  CLI::App* rule_list_;
  CLI::App* rule_remove_;
  CLI::App* rule_clear_;
  CLI::App* event_;
  CLI::App* reset_;
  std::string device_;
  std::string value_;
  std::vector<std::string> words_;
  std::uint32_t id_ = 0;
  std::uint32_t count_ = 1;
  std::uint32_t qp_ = 0;
  bool is_quiet_ = false;
};

} // namespace actor_rdma::verbs::soft::tool
