// SPDX-License-Identifier: Apache-2.0
//
// The system's libibverbs as a provider table, loaded at run time: a machine without it gets a sentence, not
// a loader error, and our own NIC's names never meet its names.
#include "verbs/provider.hpp"

#include <cerrno>
#include <cstring>
#include <mutex>
#include <set>
#include <string>

#include <dlfcn.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace actor_rdma::verbs {

namespace {

constexpr const char* layer = "verbs";

// ibv_query_port() is an inline that prefers the context's own query_port and falls back to the exported
// function, which fills only the oldest 48 bytes. Using the inline would make the fallback a link-time
// reference, so it is spelt out here. The same goes for ibv_query_gid_ex().
int (*old_query_port)(ibv_context*, std::uint8_t, _compat_ibv_port_attr*) = nullptr;
int (*sized_query_gid_ex)(ibv_context*, std::uint32_t, std::uint32_t, ibv_gid_entry*, std::uint32_t,
                          std::size_t) = nullptr;
ibv_device** (*get_device_list)(int*) = nullptr;
void (*free_device_list)(ibv_device**) = nullptr;

int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* out) {
  if (auto* const extended = verbs_get_ctx_op(context, query_port))
    return extended->query_port(context, port, out, sizeof *out);
  std::memset(out, 0, sizeof *out);
  return old_query_port(context, port, reinterpret_cast<_compat_ibv_port_attr*>(out));
}

int query_gid_ex(ibv_context* context, std::uint32_t port, std::uint32_t index, ibv_gid_entry* out) {
  return sized_query_gid_ex(context, port, index, out, 0, sizeof *out);
}

/// As the kernel says. A GID whose interface cannot be asked (another network namespace) is given the benefit
/// of the doubt: the port's state decides then.
bool interface_is_up(ibv_context*, const ibv_gid_entry& gid) {
  ifreq request{};
  if (gid.ndev_ifindex == 0 || ::if_indextoname(gid.ndev_ifindex, request.ifr_name) == nullptr)
    return true;
  const int s = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (s < 0)
    return true;
  const bool known = ::ioctl(s, SIOCGIFFLAGS, &request) == 0;
  ::close(s);
  return !known || (request.ifr_flags & IFF_UP) != 0;
}

base::expected<std::vector<ibv_device*>> list_devices() {
  int count = 0;
  ibv_device** const list = get_device_list(&count);
  if (list == nullptr) {
    if (errno == ENOSYS)
      return base::fail(base::reason::unsupported, layer, "no RDMA in this kernel; use --fabric soft");
    return base::fail(base::reason::local_device, layer, "ibv_get_device_list", errno);
  }
  if (count == 0)
    return base::fail(base::reason::not_found, layer, "this machine has no RDMA device; use --fabric soft");
  // Devices must stay valid as long as the table, which is for ever: the first list that has one is never
  // freed. Later ones are, or a look every second would cost memory for ever.
  static std::mutex mutex;
  static std::set<ibv_device*> kept;
  std::vector<ibv_device*> all(list, list + count);
  std::lock_guard lock{mutex};
  const auto known = kept.size();
  kept.insert(all.begin(), all.end());
  if (kept.size() == known)
    free_device_list(list);
  return all;
}

class library {
public:
  library() : handle_{::dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL)} {
    if (handle_ == nullptr)
      error_ = std::string{"libibverbs.so.1 cannot be loaded ("} + ::dlerror() + "); use --fabric soft";
  }
  template <class Function>
  void load(const char* symbol, Function& slot) {
    void* const found = handle_ != nullptr ? ::dlsym(handle_, symbol) : nullptr;
    if (found != nullptr)
      std::memcpy(&slot, &found, sizeof slot);
    else if (error_.empty())
      error_ = std::string{"libibverbs.so.1 has no "} + symbol;
  }
  const std::string& error() const noexcept { return error_; }

private:
  void* handle_;
  std::string error_;
};

struct loaded {
  provider table;
  std::string error;
};

loaded load_table() {
  loaded l;
  auto& t = l.table;
  library lib;
  t.name = "verbs";
  t.list_devices = list_devices;
  t.query_port = query_port;
  t.query_gid_ex = query_gid_ex;
  t.interface_is_up = interface_is_up;
  lib.load("ibv_get_device_list", get_device_list);
  lib.load("ibv_free_device_list", free_device_list);
  lib.load("ibv_query_port", old_query_port);
  lib.load("_ibv_query_gid_ex", sized_query_gid_ex);
  lib.load("ibv_get_device_name", t.get_device_name);
  lib.load("ibv_open_device", t.open_device);
  lib.load("ibv_close_device", t.close_device);
  lib.load("ibv_get_async_event", t.get_async_event);
  lib.load("ibv_ack_async_event", t.ack_async_event);
  lib.load("ibv_query_device", t.query_device);
  lib.load("ibv_query_gid", t.query_gid);
  lib.load("ibv_query_pkey", t.query_pkey);
  lib.load("ibv_alloc_pd", t.alloc_pd);
  lib.load("ibv_dealloc_pd", t.dealloc_pd);
  lib.load("ibv_reg_mr", t.reg_mr);
  lib.load("ibv_dereg_mr", t.dereg_mr);
  lib.load("ibv_create_comp_channel", t.create_comp_channel);
  lib.load("ibv_destroy_comp_channel", t.destroy_comp_channel);
  t.abandon_comp_channel = [](ibv_comp_channel* channel) { ::close(channel->fd); };
  lib.load("ibv_create_cq", t.create_cq);
  lib.load("ibv_resize_cq", t.resize_cq);
  lib.load("ibv_destroy_cq", t.destroy_cq);
  lib.load("ibv_get_cq_event", t.get_cq_event);
  lib.load("ibv_ack_cq_events", t.ack_cq_events);
  lib.load("ibv_create_srq", t.create_srq);
  lib.load("ibv_modify_srq", t.modify_srq);
  lib.load("ibv_query_srq", t.query_srq);
  lib.load("ibv_destroy_srq", t.destroy_srq);
  lib.load("ibv_create_qp", t.create_qp);
  lib.load("ibv_modify_qp", t.modify_qp);
  lib.load("ibv_query_qp", t.query_qp);
  lib.load("ibv_destroy_qp", t.destroy_qp);
  lib.load("ibv_wc_status_str", t.wc_status_str);
  lib.load("ibv_event_type_str", t.event_type_str);
  l.error = lib.error();
  return l;
}

} // namespace

base::expected<const provider*> system_provider() {
  static const auto* const result = new loaded{load_table()};
  if (!result->error.empty())
    return base::fail(base::reason::unsupported, layer, result->error);
  return &result->table;
}

} // namespace actor_rdma::verbs
