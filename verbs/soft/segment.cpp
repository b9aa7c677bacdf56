// SPDX-License-Identifier: Apache-2.0
//
// Creating, opening and replacing segment files.
#include "verbs/soft/segment.hpp"

#include "verbs/soft/liveness.hpp"
#include "verbs/soft/sweep.hpp"
#include "verbs/soft/tables.hpp"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace actor_rdma::verbs::soft {

namespace {

constexpr std::size_t bytes = sizeof(layout::tables);
constexpr const char* layer = "soft NIC";

layout::tables* map(int fd) noexcept {
  void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED, fd, 0);
  return at == MAP_FAILED ? nullptr : static_cast<layout::tables*>(at);
}

/// Allocated now: a full file system would otherwise be a SIGBUS in the middle of some later verb. All but
/// what begins with the receive units, which is much and rarely used: that is allocated when it is taken.
/// `errno` values.
int allocate(int fd) noexcept {
  if (::ftruncate(fd, static_cast<off_t>(bytes)) != 0)
    return errno;
  return ::posix_fallocate(fd, 0, static_cast<off_t>(offsetof(layout::tables, receive_units)));
}

bool valid_name(const std::string& name) {
  return !name.empty() && name.size() <= layout::max_name && name.front() != '.' &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '-';
         });
}

} // namespace

base::expected<segment> segment::make_private(std::uint64_t seed) {
  segment s;
  s.tables_ = map(-1);
  if (s.tables_ == nullptr)
    return base::fail(base::reason::resource, layer, "no memory for a fabric's tables", errno);
  initialise(*s.tables_, seed);
  return s;
}

base::expected<segment> segment::open_named(const std::string& name, std::uint64_t seed, bool create) {
  if (!valid_name(name))
    return base::fail(base::reason::invalid_argument, layer,
                      "a fabric's name is 1 to 63 letters, digits, '.', '_' or '-', not \"" + name + '"');
  const auto path = fabric_file_prefix() + name;
  // Each round may lose against somebody who removes or replaces the file.
  for (int round = 0; round < 100; ++round) {
    segment s;
    s.path_ = path;
    s.fd_ = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | (create ? O_CREAT : 0), 0600);
    if (s.fd_ < 0) {
      const auto why = errno == ENOENT ? base::reason::not_found : base::reason::permission;
      return base::fail(why, layer, fmt::format("cannot open the fabric \"{}\" ({})", name, path), errno);
    }
    if (!s.lock())
      return base::fail(base::reason::busy, layer,
                        "another process holds the lock of " + path + " and does not run");
    struct stat opened {};
    struct stat named {};
    if (::fstat(s.fd_, &opened) != 0 || ::stat(path.c_str(), &named) != 0 || opened.st_ino != named.st_ino)
      continue;
    if (opened.st_uid != ::geteuid())
      return base::fail(base::reason::permission, layer, path + " belongs to another user");
    if (opened.st_size == 0) {
      if (const int rc = allocate(s.fd_); rc != 0) {
        s.remove();
        return base::fail(base::reason::resource, layer, "no room for a fabric's tables in " + path, rc);
      }
      if ((s.tables_ = map(s.fd_)) == nullptr)
        return base::fail(base::reason::resource, layer, "cannot map " + path, errno);
      initialise(*s.tables_, seed);
      sweep_fabric_files(); // a machine that makes fabrics is one where some were killed
      return s;
    }
    if (opened.st_size == static_cast<off_t>(bytes))
      s.tables_ = map(s.fd_);
    if (s.tables_ != nullptr && s.tables_->head.magic.load(std::memory_order_acquire) == 0 &&
        allocate(s.fd_) == 0) {
      initialise(*s.tables_, seed); // whoever began it was killed
      return s;
    }
    if (s.tables_ == nullptr || s.tables_->head.magic.load(std::memory_order_acquire) != layout::magic ||
        s.tables_->head.version != layout::version)
      return base::fail(base::reason::unsupported, layer,
                        path + " was made by another version; remove it when nothing uses it");
    if (has_living_process(*s.tables_))
      return s;
    if (!create)
      return base::fail(base::reason::not_found, layer,
                        "no process is attached to the fabric \"" + name + '"');
    s.remove(); // left by processes that were killed: its faults and log are nobody's
  }
  return base::fail(base::reason::busy, layer, path + " keeps changing");
}

segment& segment::operator=(segment&& other) noexcept {
  if (this != &other) {
    close();
    tables_ = std::exchange(other.tables_, nullptr);
    fd_ = std::exchange(other.fd_, -1);
    path_ = std::move(other.path_);
  }
  return *this;
}

bool segment::lock() noexcept {
  if (fd_ < 0)
    return true;
  constexpr auto step = std::chrono::milliseconds{2};
  for (int tries = 0; tries < 1000; ++tries) {
    if (try_lock())
      return true;
    std::this_thread::sleep_for(step);
  }
  return false;
}

bool segment::try_lock() noexcept {
  return fd_ < 0 || ::flock(fd_, LOCK_EX | LOCK_NB) == 0;
}

void segment::unlock() noexcept {
  if (fd_ >= 0)
    ::flock(fd_, LOCK_UN);
}

bool segment::reserve(const void* at, std::size_t length) const noexcept {
  if (fd_ < 0)
    return true; // anonymous memory
  const auto offset = static_cast<const std::byte*>(at) - reinterpret_cast<const std::byte*>(tables_);
  return ::posix_fallocate(fd_, offset, static_cast<off_t>(length)) == 0;
}

void segment::remove() noexcept {
  struct stat opened {};
  struct stat named {};
  if (fd_ >= 0 && ::fstat(fd_, &opened) == 0 && ::stat(path_.c_str(), &named) == 0 &&
      opened.st_ino == named.st_ino)
    ::unlink(path_.c_str());
}

void segment::close() noexcept {
  if (tables_ != nullptr)
    ::munmap(tables_, bytes);
  tables_ = nullptr;
  if (fd_ >= 0)
    ::close(fd_);
  fd_ = -1;
}

} // namespace actor_rdma::verbs::soft
