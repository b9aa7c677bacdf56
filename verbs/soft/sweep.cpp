// SPDX-License-Identifier: Apache-2.0
//
// Looking at every fabric's file from outside. Whoever attaches does so under the file's lock, and looks
// under it whether the file still has its name: what is unlinked under the lock can have no new process.
#include "verbs/soft/sweep.hpp"

#include "verbs/soft/layout.hpp"
#include "verbs/soft/liveness.hpp"

#include <cstddef>
#include <filesystem>
#include <system_error>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace actor_rdma::verbs::soft {

namespace {

/// False when there is any doubt.
bool is_abandoned(int fd, const struct stat& is) {
  if (is.st_size == 0)
    return true; // whoever made it has not locked it yet, or was killed: who finds it gone makes another
  if (is.st_size != static_cast<off_t>(sizeof(layout::tables)))
    return false;
  void* const at = ::mmap(nullptr, sizeof(layout::tables), PROT_READ, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED)
    return false;
  const auto& t = *static_cast<const layout::tables*>(at);
  const auto magic = t.head.magic.load(std::memory_order_acquire);
  const bool is_ours = magic == layout::magic && t.head.version == layout::version;
  const bool abandoned = magic == 0 || (is_ours && !has_living_process(t)); // 0: killed while it made it
  ::munmap(at, sizeof(layout::tables));
  return abandoned;
}

bool remove_if_abandoned(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0)
    return false;
  struct stat opened {};
  struct stat named {};
  const bool removed = ::flock(fd, LOCK_EX | LOCK_NB) == 0 && ::fstat(fd, &opened) == 0 &&
                       S_ISREG(opened.st_mode) && opened.st_uid == ::geteuid() &&
                       ::stat(path.c_str(), &named) == 0 && opened.st_ino == named.st_ino &&
                       is_abandoned(fd, opened) && ::unlink(path.c_str()) == 0;
  ::close(fd);
  return removed;
}

} // namespace

std::string fabric_file_prefix() {
  return "/dev/shm/actor-rdma-soft-" + std::to_string(::geteuid()) + '-';
}

std::vector<std::string> sweep_fabric_files() {
  const auto prefix = fabric_file_prefix();
  std::vector<std::string> removed;
  std::error_code failed;
  for (std::filesystem::directory_iterator it(std::filesystem::path(prefix).parent_path(), failed), end;
       !failed && it != end; it.increment(failed))
    if (const auto path = it->path().string(); path.starts_with(prefix) && remove_if_abandoned(path))
      removed.push_back(path);
  return removed;
}

} // namespace actor_rdma::verbs::soft
