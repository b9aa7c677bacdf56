// SPDX-License-Identifier: Apache-2.0
// fork, and what the child does before it ends.
#include "drill/real/forked_children.hpp"

#include "base/error.hpp"
#include "transport/transport.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <utility>

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace actor_rdma::drill {

namespace {
constexpr std::size_t touched_bytes = 65536;
constexpr std::int64_t second = 1'000'000'000;
} // namespace

/// The child is a copy of one thread of us. It writes to its copy of our memory, and asks the transport,
/// which does not exist for it, for something. Its status says whether that was refused.
std::string forked_children::fork(transport& parents, int socket, base::duration lives) {
  std::vector<char> ours(touched_bytes, 1);
  const auto child = ::fork();
  if (child < 0)
    return "fork: " + base::errno_text(errno);
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::close(socket);
    std::fill(ours.begin(), ours.end(), char{2});
    const bool is_refused = !parents.register_memory(ours.data(), ours.size());
    const timespec rest{static_cast<time_t>(lives.count() / second),
                        static_cast<long>(lives.count() % second)};
    ::nanosleep(&rest, nullptr);
    ::_exit(is_refused ? 0 : 1);
  }
  running_.push_back(child);
  const bool is_untouched = std::all_of(ours.begin(), ours.end(), [](char c) { return c == 1; });
  return is_untouched ? "" : "a child wrote into its parent's memory";
}

std::vector<std::string> forked_children::reap() {
  std::vector<std::string> wrong;
  for (const auto child : std::exchange(running_, {})) {
    int status = 0;
    const bool has_ended = ::waitpid(child, &status, 0) == child;
    const bool is_well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    const bool was_ours_to_end =
        WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL; // it died with its thread
    if (has_ended && !is_well && !was_ours_to_end)
      wrong.push_back(fmt::format("a forked child that crashed, or was not refused its parent's transport "
                                  "(status {:#x})",
                                  status));
  }
  return wrong;
}

} // namespace actor_rdma::drill
