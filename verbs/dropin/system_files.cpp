// SPDX-License-Identifier: Apache-2.0
//
// Exported: what programs read of /sys through libibverbs. Our devices are not there, so what is asked of
// them is answered from here, and everything else from the files.
#include "verbs/dropin/library.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

using namespace actor_rdma::verbs;

namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 4> attributes{{
    {"board_id", "ACTOR_RDMA_SOFT"},
    {"fw_ver", "soft-1"},
    {"hca_type", "soft"},
    {"node_type", "1: CA"},
}};

/// As libibverbs: the number of bytes, without the newline at the end, or -1.
int deliver(std::string_view text, char* out, std::size_t size) {
  const auto n = std::min(text.size(), size);
  std::memcpy(out, text.data(), n);
  if (n > 0 && out[n - 1] == '\n') {
    out[n - 1] = '\0';
    return static_cast<int>(n - 1);
  }
  if (n == size)
    return -1; // no room for the end of the string
  out[n] = '\0';
  return static_cast<int>(n);
}

int read_file(const std::string& path, char* out, std::size_t size) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return -1;
  std::string text(size, '\0');
  const auto n = ::read(fd, text.data(), text.size());
  ::close(fd);
  return n < 0 ? -1 : deliver({text.data(), static_cast<std::size_t>(n)}, out, size);
}

bool is_ours(std::string_view directory) {
  const auto& all = dropin::device_handles();
  return std::any_of(all.begin(), all.end(),
                     [&](const auto* h) { return directory == h->device.ibdev_path; });
}

/// 0 is IB and RoCE v1, 1 is RoCE v2. An empty place counts as the first, because that is what the kernel's
/// file once said. -1 and errno.
int gid_type(ibv_context* context, std::uint8_t port, unsigned index, unsigned* type) {
  ibv_gid_entry entry{};
  const int error = dropin::nic().query_gid_ex(context, port, index, &entry);
  if (error != 0 && error != ENODATA) {
    errno = error;
    return -1;
  }
  *type = error == 0 && entry.gid_type == IBV_GID_TYPE_ROCE_V2 ? 1 : 0;
  return 0;
}

} // namespace

extern "C" {

const char* ibv_get_sysfs_path() {
  const char* const path = ::getuid() == ::geteuid() ? std::getenv("SYSFS_PATH") : nullptr;
  return path != nullptr ? path : "/sys";
}

int ibv_read_sysfs_file(const char* directory, const char* file, char* out, std::size_t size) {
  if (is_ours(directory))
    for (const auto& [name, value] : attributes)
      if (name == file)
        return deliver(value, out, size);
  return read_file(std::string{directory} + '/' + file, out, size);
}

/// The name of one of the functions between the library and its providers under the names that other releases
/// give the node (see exports.sh). Each name needs a symbol of its own.
#define IN_PRIVATE_NODE(symbol, name, number)                                                                \
  __asm__(".symver " #symbol "_" #number ", " #name "@IBVERBS_PRIVATE_" #number)

// Declared in rdma-core's private header; a file of the device's directory, its name being a format. Only
// providers have such a device, and there are none.
#define DEFINE_READ_IBDEV(symbol)                                                                            \
  __attribute__((format(printf, 4, 5))) int symbol(char*, std::size_t, void*, const char*, ...);             \
  int symbol(char*, std::size_t, void*, const char*, ...) {                                                  \
    errno = ENOENT;                                                                                          \
    return -1;                                                                                               \
  }
DEFINE_READ_IBDEV(ibv_read_ibdev_sysfs_file)
DEFINE_READ_IBDEV(soft_read_ibdev_57)
DEFINE_READ_IBDEV(soft_read_ibdev_59)
DEFINE_READ_IBDEV(soft_read_ibdev_64)
DEFINE_READ_IBDEV(soft_read_ibdev_65)
IN_PRIVATE_NODE(soft_read_ibdev, ibv_read_ibdev_sysfs_file, 57);
IN_PRIVATE_NODE(soft_read_ibdev, ibv_read_ibdev_sysfs_file, 59);
IN_PRIVATE_NODE(soft_read_ibdev, ibv_read_ibdev_sysfs_file, 64);
IN_PRIVATE_NODE(soft_read_ibdev, ibv_read_ibdev_sysfs_file, 65);

// Declared in rdma-core's private header.
#define DEFINE_GID_TYPE(symbol)                                                                              \
  int symbol(ibv_context* context, std::uint8_t port, unsigned index, unsigned* type);                       \
  int symbol(ibv_context* context, std::uint8_t port, unsigned index, unsigned* type) {                      \
    return gid_type(context, port, index, type);                                                             \
  }
DEFINE_GID_TYPE(ibv_query_gid_type)
DEFINE_GID_TYPE(soft_gid_type_57)
DEFINE_GID_TYPE(soft_gid_type_59)
DEFINE_GID_TYPE(soft_gid_type_64)
DEFINE_GID_TYPE(soft_gid_type_65)
IN_PRIVATE_NODE(soft_gid_type, ibv_query_gid_type, 57);
IN_PRIVATE_NODE(soft_gid_type, ibv_query_gid_type, 59);
IN_PRIVATE_NODE(soft_gid_type, ibv_query_gid_type, 64);
IN_PRIVATE_NODE(soft_gid_type, ibv_query_gid_type, 65);

} // extern "C"
