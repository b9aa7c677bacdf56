// SPDX-License-Identifier: Apache-2.0
// Parts of the table of faults (drill/fault_kinds.hpp): each adds the kinds of one group, in the order in
// which they are listed to people.
#pragma once

#include "drill/fault_kinds.hpp"

#include <chrono>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace actor_rdma::drill {

/// What is behind a port and what it says of itself.
void add_port_kinds(std::vector<fault_kind>& all);
/// The control network between hosts.
void add_control_kinds(std::vector<fault_kind>& all);
/// Hosts and their processes.
void add_process_kinds(std::vector<fault_kind>& all);

/// "2.5 ms".
inline std::string ms(base::duration d) {
  return fmt::format("{:g} ms", std::chrono::duration<double, std::milli>(d).count());
}

} // namespace actor_rdma::drill
