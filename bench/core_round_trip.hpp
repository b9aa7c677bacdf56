// SPDX-License-Identifier: Apache-2.0
// What the machine itself takes to hand a word from one core to another one and back: the floor under
// everything that crosses threads, measured in the same run as what is compared with it.
#pragma once

#include "base/time.hpp"

namespace actor_rdma::bench {

/// Median over some thousand round trips of two spinning threads; takes a tenth of a second at most.
base::duration measure_core_round_trip();

} // namespace actor_rdma::bench
