// SPDX-License-Identifier: Apache-2.0
//
// Finding the file behind an address of another process, and mapping it.
#include "verbs/soft/mapping_cache.hpp"

#include "verbs/soft/hazard.hpp"
#include "verbs/soft/liveness.hpp"

#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

namespace actor_rdma::verbs::soft {

namespace {

struct shared_pages {
  std::uint64_t start;
  std::uint64_t offset;
  dev_t device;
  ino_t inode;
  std::string path;
};

/// The shared, writable file mapping that covers the whole range, if one does.
std::optional<shared_pages> find_shared_pages(std::int32_t pid, std::uint64_t addr, std::uint64_t length) {
  std::ifstream maps{"/proc/" + std::to_string(pid) + "/maps"};
  for (std::string line; std::getline(maps, line);) {
    std::uint64_t start = 0;
    std::uint64_t end = 0;
    std::uint64_t offset = 0;
    std::uint64_t inode = 0;
    unsigned major = 0;
    unsigned minor = 0;
    char rights[5] = {};
    int path_at = 0;
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %n", &start,
                    &end, rights, &offset, &major, &minor, &inode, &path_at) != 7)
      continue;
    if (addr < start || addr >= end)
      continue;
    if (addr + length > end || rights[0] != 'r' || rights[1] != 'w' || rights[3] != 's' || inode == 0)
      return std::nullopt;
    return shared_pages{start, offset, makedev(major, minor), inode,
                        line.substr(static_cast<std::size_t>(path_at))};
  }
  return std::nullopt;
}

bool is_file(int fd, const shared_pages& pages) {
  struct stat got {};
  return ::fstat(fd, &got) == 0 && got.st_dev == pages.device && got.st_ino == pages.inode;
}

/// By its path, or, for a memfd or an unlinked file, by a descriptor that the peer still holds.
int open_pages(std::int32_t pid, const shared_pages& pages) {
  const auto process = "/proc/" + std::to_string(pid);
  if (!pages.path.empty() && pages.path.front() == '/') {
    const int fd = ::open((process + "/root" + pages.path).c_str(), O_RDWR | O_CLOEXEC);
    if (fd >= 0 && is_file(fd, pages))
      return fd;
    if (fd >= 0)
      ::close(fd);
  }
  std::error_code error;
  for (std::filesystem::directory_iterator entry{process + "/fd", error}, end; !error && entry != end;
       entry.increment(error)) {
    struct stat target {};
    if (::stat(entry->path().c_str(), &target) != 0 || target.st_dev != pages.device ||
        target.st_ino != pages.inode)
      continue;
    const int fd = ::open(entry->path().c_str(), O_RDWR | O_CLOEXEC);
    if (fd >= 0 && is_file(fd, pages))
      return fd;
    if (fd >= 0)
      ::close(fd);
  }
  return -1;
}

} // namespace

mapping_cache::~mapping_cache() {
  for (const auto& [range, file] : files_)
    ::munmap(file.at, file.length);
  for (const auto& file : unused_)
    ::munmap(file.at, file.length);
}

std::byte* mapping_cache::find(const layout::mr_entry& region, std::uint32_t index, std::uint64_t state,
                               std::int32_t pid) {
  std::lock_guard lock{mutex_};
  auto& known = regions_[index];
  if (known.state == state)
    return known.base;
  if (known.base != nullptr)
    replaced_.push_back(
        known.file); // of a predecessor in the same slot; it may be in use until the next sweep
  known = {state, nullptr, {}};
  const auto addr = region.addr.load(std::memory_order_relaxed);
  const auto length = region.length.load(std::memory_order_relaxed);
  const auto pages = find_shared_pages(pid, addr, length);
  if (!pages)
    return nullptr;
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const auto in_file = pages->offset + (addr - pages->start);
  const auto first = in_file / page * page;
  const auto bytes = in_file + length - first;
  const file_range range{pages->device, pages->inode, first, bytes};
  auto found = files_.find(range);
  if (found == files_.end()) {
    const int fd = open_pages(pid, *pages);
    if (fd < 0)
      return nullptr;
    void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(first));
    ::close(fd);
    if (at == MAP_FAILED)
      return nullptr;
    found = files_.emplace(range, mapped_file{static_cast<std::byte*>(at), bytes, 0}).first;
  }
  ++found->second.users;
  known.base = found->second.at + (in_file - first);
  known.file = range;
  count_.store(files_.size(), std::memory_order_relaxed);
  return known.base;
}

void mapping_cache::release(const file_range& range) {
  const auto file = files_.find(range);
  if (--file->second.users == 0) {
    unused_.push_back(file->second);
    files_.erase(file);
  }
}

void mapping_cache::sweep(const layout::tables& tables, const layout::process_entry& own) {
  std::vector<mapped_file> unused;
  {
    std::lock_guard lock{mutex_};
    for (const auto& range : std::exchange(replaced_, {}))
      release(range);
    std::erase_if(regions_, [&](const auto& region) {
      const auto& [index, known] = region;
      const auto& entry = tables.mrs[index];
      const auto owner = entry.owner.load(std::memory_order_acquire);
      if (entry.state.load(std::memory_order_acquire) == known.state && owner != 0 &&
          is_alive(tables.processes[owner - 1]))
        return false;
      if (known.base != nullptr)
        release(known.file);
      return true;
    });
    unused.swap(unused_);
    count_.store(files_.size() + unused.size(), std::memory_order_relaxed);
  }
  if (unused.empty())
    return;
  // From here on nobody takes a remembered address, and those who did are waited for; without the lock,
  // because they may be waiting for it.
  epoch_.fetch_add(1, std::memory_order_seq_cst);
  if (wait_for_own_executions(own)) {
    for (const auto& file : unused)
      ::munmap(file.at, file.length);
    unused.clear();
  }
  std::lock_guard lock{mutex_};
  unused_.insert(unused_.end(), unused.begin(), unused.end());
  count_.store(files_.size() + unused_.size(), std::memory_order_relaxed);
}

} // namespace actor_rdma::verbs::soft
