// SPDX-License-Identifier: Apache-2.0
// Writing out standard output.
#include "base/output.hpp"

#include <cstdio>
#include <iostream>

namespace actor_rdma::base {

int output_written(const char* program, int status, int status_if_lost) {
  std::cout.flush();
  const bool is_written = std::cout.good() && std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (is_written)
    return status;
  std::cerr << program << ": what it had to say could not be written to standard output\n";
  return status != 0 ? status : status_if_lost;
}

} // namespace actor_rdma::base
