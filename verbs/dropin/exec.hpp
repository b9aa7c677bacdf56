// SPDX-License-Identifier: Apache-2.0
//
// soft-nic exec: a program on the drop-in library, with the files that programs look for around it. It
// replaces itself by the program, so that pid, signals and exit status are the program's own.
#pragma once

#include "base/error.hpp"

#include <optional>
#include <string>
#include <vector>

namespace actor_rdma::verbs::dropin {

struct exec_options {
  std::string fabric;
  std::optional<unsigned> devices; ///< otherwise what the environment says
  std::string host;                ///< empty: what the environment says
  std::string link_layer;          ///< the same
  bool with_files = true;          ///< /sys/class/infiniband and /dev/infiniband
  std::vector<std::string> command;
};

/// Returns only if it fails: 1 for what it could not prepare, 2 for a wrong value of an option or a variable,
/// 126 and 127 for a program that cannot be run or is not there, as shells do. The reason is on standard
/// error.
[[nodiscard]] int exec_on_soft_nic(const exec_options& options);

} // namespace actor_rdma::verbs::dropin
