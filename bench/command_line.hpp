// SPDX-License-Identifier: Apache-2.0
// From arguments to settings.
#pragma once

#include "bench/settings.hpp"

#include <iosfwd>
#include <variant>

namespace actor_rdma::bench {

/// What a run returns to the shell.
enum exit_status : int {
  exit_good = 0,
  exit_transfers_failed = 1, ///< failed, timed out, mismatched or still open
  exit_usage = 2,
  exit_not_connected = 3,
};

/// The settings, checked; or the exit status of a run that is over, because help was asked for (0) or
/// because the arguments are wrong (2), of which `errors` then says everything.
std::variant<settings, int> parse_command_line(int argc, const char* const* argv, std::ostream& output,
                                               std::ostream& errors);

} // namespace actor_rdma::bench
