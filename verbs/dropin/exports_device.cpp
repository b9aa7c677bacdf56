// SPDX-License-Identifier: Apache-2.0
//
// Exported: devices, contexts, queries and asynchronous events. The conventions of results are libibverbs',
// and they are not uniform: see each function.
#include "verbs/dropin/extended.hpp"
#include "verbs/dropin/library.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <endian.h>
#include <fcntl.h>
#include <unistd.h>

#undef ibv_query_port

using namespace actor_rdma::verbs;
using dropin::nic;

extern "C" {

// -- devices
// --------------------------------------------------------------------------------------------------------

ibv_device** ibv_get_device_list(int* count) {
  const auto& all = dropin::device_handles();
  auto** const list = static_cast<ibv_device**>(std::calloc(all.size() + 1, sizeof(void*)));
  if (list == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  for (std::size_t i = 0; i < all.size(); ++i)
    list[i] = &all[i]->device;
  if (count != nullptr)
    *count = static_cast<int>(all.size());
  return list;
}

void ibv_free_device_list(ibv_device** list) {
  std::free(list);
}

const char* ibv_get_device_name(ibv_device* device) {
  return device->name;
}

int ibv_get_device_index(ibv_device* device) {
  return dropin::index_of(device);
}

__be64 ibv_get_device_guid(ibv_device* device) {
  // The fabric gives it out, so one has to be attached for a moment longer than this.
  auto* const context = ibv_open_device(device);
  if (context == nullptr)
    return 0;
  ibv_device_attr attributes{};
  ibv_query_device(context, &attributes);
  ibv_close_device(context);
  return attributes.node_guid;
}

ibv_context* ibv_open_device(ibv_device* handle) {
  auto* const device = dropin::attached_device(handle);
  if (device == nullptr)
    return nullptr;
  auto* const context = nic().open_device(device);
  if (context == nullptr)
    return nullptr;
  context->device = handle;
  // Some programs duplicate it, and go on when importing from it is refused.
  context->cmd_fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  dropin::extend(*verbs_get_ctx(context));
  return context;
}

int ibv_close_device(ibv_context* context) {
  const int fd = context->cmd_fd;
  const int error = nic().close_device(context);
  if (error == 0 && fd >= 0)
    ::close(fd);
  return error;
}

// -- queries
// --------------------------------------------------------------------------------------------------------

int ibv_query_device(ibv_context* context, ibv_device_attr* out) {
  return nic().query_device(context, out);
}

/// For programs that were built when the struct was shorter; others take the context's operation.
int ibv_query_port(ibv_context* context, std::uint8_t port, _compat_ibv_port_attr* out) {
  return verbs_get_ctx(context)->query_port(context, port, reinterpret_cast<ibv_port_attr*>(out),
                                            offsetof(ibv_port_attr, port_cap_flags2));
}

int ibv_query_gid(ibv_context* context, std::uint8_t port, int index, ibv_gid* out) {
  return nic().query_gid(context, port, index, out);
}

/// errno as result.
int _ibv_query_gid_ex(ibv_context* context, std::uint32_t port, std::uint32_t index, ibv_gid_entry* out,
                      std::uint32_t flags, std::size_t size) {
  if (flags != 0)
    return EOPNOTSUPP;
  ibv_gid_entry entry{};
  if (const int error = nic().query_gid_ex(context, port, index, &entry); error != 0)
    return error;
  std::memcpy(out, &entry, std::min(size, sizeof entry));
  return 0;
}

/// The number of entries, or a negative errno.
ssize_t _ibv_query_gid_table(ibv_context* context, ibv_gid_entry* out, std::size_t room, std::uint32_t flags,
                             std::size_t size) {
  if (flags != 0)
    return -EOPNOTSUPP;
  ibv_port_attr port{};
  if (const int error = verbs_get_ctx(context)->query_port(context, 1, &port, sizeof port); error != 0)
    return -error;
  std::size_t count = 0;
  for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(port.gid_tbl_len); ++i) {
    ibv_gid_entry entry{};
    if (nic().query_gid_ex(context, 1, i, &entry) != 0)
      continue;
    if (count == room)
      return -EINVAL;
    std::memcpy(reinterpret_cast<std::byte*>(out) + count++ * size, &entry, std::min(size, sizeof entry));
  }
  return static_cast<ssize_t>(count);
}

/// -1 and errno. There is one key, the default one.
int ibv_query_pkey(ibv_context*, std::uint8_t port, int index, __be16* pkey) {
  if (port != 1 || index != 0) {
    errno = EINVAL;
    return -1;
  }
  *pkey = dropin::default_pkey;
  return 0;
}

int ibv_get_pkey_index(ibv_context*, std::uint8_t port, __be16 pkey) {
  if (port == 1 && pkey == dropin::default_pkey)
    return 0;
  errno = EINVAL;
  return -1;
}

// -- events
// ---------------------------------------------------------------------------------------------------------

int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  return nic().get_async_event(context, event);
}

void ibv_ack_async_event(ibv_async_event* event) {
  nic().ack_async_event(event);
}

// -- importing needs a kernel's descriptor
// ---------------------------------------------------------------------------

ibv_context* ibv_import_device(int) {
  errno = EOPNOTSUPP;
  return nullptr;
}

ibv_pd* ibv_import_pd(ibv_context*, std::uint32_t) {
  errno = EOPNOTSUPP;
  return nullptr;
}

void ibv_unimport_pd(ibv_pd*) {}

ibv_mr* ibv_import_mr(ibv_pd*, std::uint32_t) {
  errno = EOPNOTSUPP;
  return nullptr;
}

void ibv_unimport_mr(ibv_mr*) {}

ibv_dm* ibv_import_dm(ibv_context*, std::uint32_t) {
  errno = EOPNOTSUPP;
  return nullptr;
}

void ibv_unimport_dm(ibv_dm*) {}

// -- fork: no memory is pinned, so a child's copy is like any other memory
// --------------------------------------------

int ibv_fork_init() {
  return 0;
}

ibv_fork_status ibv_is_fork_initialized() {
  return IBV_FORK_UNNEEDED;
}

int ibv_dontfork_range(void*, std::size_t) {
  return 0;
}

int ibv_dofork_range(void*, std::size_t) {
  return 0;
}

} // extern "C"
