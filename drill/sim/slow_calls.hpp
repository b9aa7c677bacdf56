// SPDX-License-Identifier: Apache-2.0
// Verbs calls that may block, watched: on a lane they would stop everything else there, so only the executor
// may make them. In virtual time nothing blocks, which is why it has to be looked for.
#pragma once

#include "verbs/provider.hpp"

namespace actor_rdma::sim {

class cluster;

/// The same table; a slow call that a lane makes is reported to the cluster. One cluster at a time, the last
/// one.
verbs::provider watch_slow_calls(const verbs::provider& table, cluster& in);
/// The cluster is going.
void stop_watching_slow_calls(const cluster& in) noexcept;

} // namespace actor_rdma::sim
