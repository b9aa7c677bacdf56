// SPDX-License-Identifier: Apache-2.0
// Memory for transfers, of the kind that the software NIC of another process reaches directly.
#pragma once

#include "transport/transport.hpp"

#include <cstddef>
#include <span>
#include <utility>

namespace actor_rdma::bench {

class memory_block {
public:
  memory_block() = default;
  /// Empty when it cannot be had. Its pages are made when they are first touched.
  explicit memory_block(std::size_t length)
      : addr_(static_cast<std::byte*>(allocate_shared_memory(length))),
        length_(addr_ == nullptr ? 0 : length) {}
  memory_block(memory_block&& other) noexcept
      : addr_(std::exchange(other.addr_, nullptr)), length_(std::exchange(other.length_, 0)) {}
  memory_block& operator=(memory_block&& other) noexcept {
    std::swap(addr_, other.addr_);
    std::swap(length_, other.length_);
    return *this;
  }
  ~memory_block() {
    if (addr_ != nullptr)
      free_shared_memory(addr_, length_);
  }
  /// Something may still write into it: it stays for the rest of the process's life.
  void abandon() noexcept { addr_ = nullptr; }

  std::byte* data() const noexcept { return addr_; }
  std::size_t size() const noexcept { return length_; }
  std::span<std::byte> bytes() const noexcept { return {addr_, length_}; }
  explicit operator bool() const noexcept { return addr_ != nullptr; }

private:
  std::byte* addr_ = nullptr;
  std::size_t length_ = 0;
};

} // namespace actor_rdma::bench
