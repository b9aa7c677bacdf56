// SPDX-License-Identifier: Apache-2.0
// Children that a host's process forks while its transport runs. None of it is theirs: what they write goes
// to copies, and their calls to the transport are refused.
#pragma once

#include "base/time.hpp"

#include <string>
#include <vector>

#include <sys/types.h>

namespace actor_rdma {
class transport;

namespace drill {

class forked_children {
public:
  /// Forks one that lives so long and leaves `socket`, by whose end others know of ours. What is wrong, if
  /// anything. Any thread; the child dies with it.
  std::string fork(transport& parents, int socket, base::duration lives);
  /// Waits for all; what is wrong with each.
  std::vector<std::string> reap();

private:
  std::vector<pid_t> running_;
};

} // namespace drill
} // namespace actor_rdma
