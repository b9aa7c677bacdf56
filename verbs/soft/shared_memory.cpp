// SPDX-License-Identifier: Apache-2.0
//
// Memory for applications that peers in other processes can map: a memfd whose descriptor stays open, because
// that is where they find it.
#include "verbs/soft/fabric.hpp"

#include <map>
#include <mutex>

#include <sys/mman.h>
#include <unistd.h>

namespace actor_rdma::verbs::soft {

namespace {

struct registry {
  std::mutex mutex;
  std::map<void*, int> descriptors;
};

/// Never destroyed: memory may be freed by static objects of the application.
registry& allocations() {
  static auto* const all = new registry;
  return *all;
}

} // namespace

void* allocate_shared(std::size_t length) noexcept {
  const int fd = ::memfd_create("actor-rdma", MFD_CLOEXEC);
  if (fd < 0)
    return nullptr;
  void* at = MAP_FAILED;
  if (::ftruncate(fd, static_cast<off_t>(length)) == 0)
    at = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) {
    ::close(fd);
    return nullptr;
  }
  auto& all = allocations();
  std::lock_guard lock{all.mutex};
  all.descriptors[at] = fd;
  return at;
}

void free_shared(void* addr, std::size_t length) noexcept {
  if (addr == nullptr)
    return;
  ::munmap(addr, length);
  auto& all = allocations();
  std::lock_guard lock{all.mutex};
  if (const auto found = all.descriptors.find(addr); found != all.descriptors.end()) {
    ::close(found->second);
    all.descriptors.erase(found);
  }
}

} // namespace actor_rdma::verbs::soft
