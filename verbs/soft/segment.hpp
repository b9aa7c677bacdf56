// SPDX-License-Identifier: Apache-2.0
//
// The memory behind a fabric's tables: anonymous for a private fabric, a file in /dev/shm (mode 0600, one per
// user and name) for a named one. Attaching and detaching happen under the file's lock, which the kernel
// releases when its holder dies and whose wait is bounded; nothing else ever takes it.
#pragma once

#include "base/error.hpp"
#include "verbs/soft/layout.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace actor_rdma::verbs::soft {

class segment {
public:
  [[nodiscard]] static base::expected<segment> make_private(std::uint64_t seed);
  /// Opens the file and keeps it locked until unlock(). With `create`, a missing file, or one that no living
  /// process uses any more, is replaced by a fresh one.
  [[nodiscard]] static base::expected<segment> open_named(const std::string& name, std::uint64_t seed,
                                                          bool create);

  segment() = default;
  segment(segment&& other) noexcept { *this = std::move(other); }
  segment& operator=(segment&& other) noexcept;
  ~segment() { close(); }

  [[nodiscard]] layout::tables& get() const noexcept { return *tables_; }
  [[nodiscard]] bool is_named() const noexcept { return fd_ >= 0; }

  /// False when somebody held the lock for too long: a stopped process.
  [[nodiscard]] bool lock() noexcept;
  [[nodiscard]] bool try_lock() noexcept;
  void unlock() noexcept;
  /// Gives pages to a part of the tables that has none at first. False when there is no room: touching it
  /// would be a SIGBUS.
  [[nodiscard]] bool reserve(const void* at, std::size_t length) const noexcept;
  /// Unlinks the file, if it is still the one that this segment maps.
  void remove() noexcept;

private:
  void close() noexcept;

  layout::tables* tables_ = nullptr;
  int fd_ = -1;
  std::string path_;
};

} // namespace actor_rdma::verbs::soft
