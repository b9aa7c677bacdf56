// SPDX-License-Identifier: Apache-2.0
//
// Reading files and showing words.
#include "base/input.hpp"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace actor_rdma::base {

namespace {

class descriptor {
public:
  explicit descriptor(int fd) noexcept : fd_(fd) {}
  ~descriptor() {
    if (fd_ >= 0)
      ::close(fd_);
  }
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;
  int get() const noexcept { return fd_; }

private:
  const int fd_;
};

const char* kind_of(mode_t mode) noexcept {
  if (S_ISDIR(mode))
    return "a directory";
  if (S_ISFIFO(mode))
    return "a FIFO";
  if (S_ISSOCK(mode))
    return "a socket";
  return S_ISCHR(mode) || S_ISBLK(mode) ? "a device" : "something else";
}

} // namespace

std::string in_quotes(std::string_view text, std::size_t most) {
  std::string shown = "\"";
  for (const char c : text.substr(0, most)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7f)
      shown += fmt::format("\\x{:02x}", byte);
    else
      shown += c;
  }
  return shown + (text.size() > most ? "...\"" : "\"");
}

expected<std::string> read_regular_file(const std::string& path, std::size_t most) {
  const auto cannot = [&] { return fail(reason::not_found, {}, path + ": cannot be read", errno); };
  // Without O_NONBLOCK the open itself would wait for whoever writes into a FIFO.
  const descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat is {};
  if (file.get() < 0 || ::fstat(file.get(), &is) != 0)
    return cannot();
  if (!S_ISREG(is.st_mode))
    return fail(reason::invalid_argument, {}, path + ": is " + kind_of(is.st_mode) + ", not a regular file");
  std::string text;
  for (char chunk[16384];;) { // what fstat says of /proc and of files that grow is not their length
    const auto n = ::read(file.get(), chunk, std::min(sizeof chunk, most + 1 - text.size()));
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return cannot();
    if (n == 0)
      return text;
    text.append(chunk, static_cast<std::size_t>(n));
    if (text.size() > most)
      return fail(reason::invalid_argument, {}, fmt::format("{}: is longer than {} bytes", path, most));
  }
}

} // namespace actor_rdma::base
