// SPDX-License-Identifier: Apache-2.0
//
// The end of the process after a broken invariant: out of line, so that an assertion costs its caller one
// branch.
#include "base/checks.hpp"

#include <cstdio>
#include <cstdlib>

namespace actor_rdma::base {

void assertion_failed(const char* condition, const char* message, const char* file, int line) noexcept {
  std::fprintf(stderr, "%s:%d: assertion failed: %s (%s)\n", file, line, message, condition);
  std::fflush(stderr);
  std::abort();
}

} // namespace actor_rdma::base
