// SPDX-License-Identifier: Apache-2.0
//
// Files of fabrics that nobody uses any more: the last process of each was killed, and its name was never
// opened again.
#pragma once

#include <string>
#include <vector>

namespace actor_rdma::verbs::soft {

/// "/dev/shm/actor-rdma-soft-UID-", of the user who runs this.
[[nodiscard]] std::string fabric_file_prefix();

/// Removes them, and returns their paths. A file stays if a process lives that is attached to it, also one
/// that is stopped; if somebody is attaching, leaving or making it just now; and if it was made by another
/// version, whose tables cannot be read. Waits for nobody.
std::vector<std::string> sweep_fabric_files();

} // namespace actor_rdma::verbs::soft
