// SPDX-License-Identifier: Apache-2.0
//
// The only place that asks the operating system for entropy.
#include "base/random.hpp"

#include <random>

#include <sys/random.h>

namespace actor_rdma::base {

std::uint64_t entropy_seed() {
  std::uint64_t seed = 0;
  if (getrandom(&seed, sizeof seed, 0) == static_cast<ssize_t>(sizeof seed))
    return seed;
  std::random_device device; // a kernel or a sandbox without the system call
  return (std::uint64_t{device()} << 32) | device();
}

} // namespace actor_rdma::base
