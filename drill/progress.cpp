// SPDX-License-Identifier: Apache-2.0
// The line.
#include "drill/progress.hpp"

#include <ostream>

#include <fmt/format.h>

namespace actor_rdma::drill {

void progress::say(base::time_point now, const std::string& words) {
  *to_ << fmt::format("progress: {:.0f} s, {}\n", std::chrono::duration<double>(now - begin_).count(), words)
       << std::flush;
}

} // namespace actor_rdma::drill
