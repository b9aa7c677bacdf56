// SPDX-License-Identifier: Apache-2.0
// Memory that the conductor and one host's process map both: the process registers it, the conductor fills
// it, compares it and looks at its canaries, also while the process is stopped. It is the conductor's, and so
// outlives processes.
#pragma once

#include "base/error.hpp"

#include <cstddef>
#include <utility>

#include <sys/mman.h>
#include <unistd.h>

namespace actor_rdma::drill {

class mapped_memory {
public:
  static base::expected<mapped_memory> make(std::size_t bytes) {
    mapped_memory m;
    m.bytes_ = bytes;
    m.fd_ = ::memfd_create("scenario", MFD_CLOEXEC);
    if (m.fd_ < 0 || ::ftruncate(m.fd_, static_cast<off_t>(bytes)) != 0)
      return base::fail(base::reason::resource, "drill", "cannot make a memory file", errno);
    m.addr_ = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, m.fd_, 0);
    if (m.addr_ == MAP_FAILED)
      return base::fail(base::reason::resource, "drill", "cannot map memory", errno);
    return m;
  }
  mapped_memory() = default;
  ~mapped_memory() {
    if (addr_ != MAP_FAILED)
      ::munmap(addr_, bytes_);
    if (fd_ >= 0)
      ::close(fd_);
  }
  mapped_memory(mapped_memory&& other) noexcept { *this = std::move(other); }
  mapped_memory& operator=(mapped_memory&& other) noexcept {
    std::swap(addr_, other.addr_);
    std::swap(bytes_, other.bytes_);
    std::swap(fd_, other.fd_);
    return *this;
  }
  mapped_memory(const mapped_memory&) = delete;
  mapped_memory& operator=(const mapped_memory&) = delete;

  std::uint64_t addr() const noexcept { return reinterpret_cast<std::uint64_t>(addr_); }
  std::size_t bytes() const noexcept { return bytes_; }
  int fd() const noexcept { return fd_; }

private:
  void* addr_ = MAP_FAILED;
  std::size_t bytes_ = 0;
  int fd_ = -1;
};

} // namespace actor_rdma::drill
