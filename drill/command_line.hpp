// SPDX-License-Identifier: Apache-2.0
// actor-rdma-drill's arguments, and what it does with them.
#pragma once

#include <iosfwd>

namespace actor_rdma::drill {

/// The exit status, see drill/judge.hpp.
int run_command_line(int argc, const char* const* argv, std::ostream& output, std::ostream& errors);

} // namespace actor_rdma::drill
