// SPDX-License-Identifier: Apache-2.0
//
// Robust mutexes for "is it alive", pidfds for "is it really gone".
#include "verbs/soft/liveness.hpp"

#include "base/checks.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

#include <linux/futex.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace actor_rdma::verbs::soft {

namespace {

std::optional<std::uint64_t> start_time_of(std::int32_t pid) {
  std::ifstream stat{"/proc/" + std::to_string(pid) + "/stat"};
  std::string line;
  if (!std::getline(stat, line))
    return std::nullopt;
  // The second field, the command, may hold anything: count from its closing parenthesis.
  const auto command_end = line.rfind(')');
  if (command_end == std::string::npos)
    return std::nullopt;
  std::istringstream rest{line.substr(command_end + 1)};
  std::string skipped;
  for (int field = 3; field < 22; ++field)
    rest >> skipped;
  std::uint64_t ticks = 0;
  rest >> ticks;
  return rest ? std::optional{ticks} : std::nullopt;
}

} // namespace

process_identity own_identity() {
  return {::getpid(), start_time_of(::getpid()).value_or(0)};
}

process_identity identity_of(const layout::process_entry& entry) noexcept {
  return {entry.pid.load(std::memory_order_acquire), entry.start_time.load(std::memory_order_acquire)};
}

void prepare_life(layout::process_entry& entry) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&entry.life, &attributes);
  pthread_mutexattr_destroy(&attributes);
}

void begin_life(layout::process_entry& entry) {
  ACTOR_RDMA_ASSERT(pthread_mutex_lock(&entry.life) == 0, "the life of a process entry is its own");
}

void end_life(layout::process_entry& entry) {
  pthread_mutex_unlock(&entry.life);
}

bool is_alive(const layout::process_entry& entry) noexcept {
  // The word that the kernel itself writes when the owner dies; there is no other way to look without
  // locking.
  const auto word = static_cast<std::uint32_t>(__atomic_load_n(&entry.life.__data.__lock, __ATOMIC_ACQUIRE));
  return (word & FUTEX_TID_MASK) != 0 && (word & FUTEX_OWNER_DIED) == 0;
}

bool has_living_process(const layout::tables& t) noexcept {
  return std::any_of(t.processes.begin(), t.processes.end(), [](const layout::process_entry& p) {
    return p.used.load(std::memory_order_acquire) != 0 && is_alive(p);
  });
}

bool is_gone(const layout::process_entry& entry) noexcept {
  const auto id = identity_of(entry);
  if (id.pid == 0)
    return true;
  const auto fd = static_cast<int>(::syscall(SYS_pidfd_open, id.pid, 0));
  if (fd < 0)
    return errno == ESRCH;
  bool gone = false;
  // Compared while the pidfd pins the pid, so that the two cannot belong to different processes.
  if (start_time_of(id.pid) != std::optional{id.start_time}) {
    gone = true;
  } else {
    pollfd exited{fd, POLLIN, 0};
    gone = ::poll(&exited, 1, 0) == 1;
  }
  ::close(fd);
  return gone;
}

} // namespace actor_rdma::verbs::soft
