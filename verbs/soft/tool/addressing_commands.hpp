// SPDX-License-Identifier: Apache-2.0
//
// soft-nic's commands for addresses: `gid DEVICE list|set|move|del`, `mtu DEVICE BYTES`, `lid DEVICE LID`.
#pragma once

#include "verbs/soft/fabric.hpp"

#include <cstdint>
#include <string>

#include <CLI/CLI.hpp>

namespace actor_rdma::verbs::soft::tool {

class addressing_commands {
public:
  /// Adds the commands. The app must outlive this.
  explicit addressing_commands(CLI::App& app);

  [[nodiscard]] bool parsed() const;
  /// The exit status; what went wrong is printed.
  [[nodiscard]] int run(fabric& net) const;

private:
  [[nodiscard]] int change_gid(fabric& net) const;

  CLI::App* gid_;
  CLI::App* list_;
  CLI::App* set_;
  CLI::App* move_;
  CLI::App* del_;
  CLI::App* mtu_;
  CLI::App* lid_;
  std::string device_;
  std::string value_;
  std::string type_ = "v2";
  std::uint32_t index_ = 0;
  std::uint32_t to_ = 0;
  std::uint32_t interface_ = 1;
  bool interface_down_ = false;
  std::uint32_t bytes_ = 0;
  std::uint16_t lid_value_ = 0;
};

} // namespace actor_rdma::verbs::soft::tool
