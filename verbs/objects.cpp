// SPDX-License-Identifier: Apache-2.0
//
// Owners of verbs objects over any provider table.
#include "verbs/objects.hpp"

#include "base/log.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

namespace actor_rdma::verbs {

namespace {

base::reason reason_of(int error) {
  switch (error) {
  case EBUSY: return base::reason::busy;
  case EINVAL:
  case EFAULT: return base::reason::invalid_argument;
  case ENOMEM:
  case EMFILE:
  case ENOSPC: return base::reason::resource;
  case EPERM:
  case EACCES: return base::reason::permission;
  case EOPNOTSUPP:
  case ENOSYS: return base::reason::unsupported;
  case ETIMEDOUT:
  case ENETUNREACH:
  case EHOSTUNREACH: return base::reason::path;
  default: return base::reason::local_device;
  }
}

/// What regions and queues take is locked memory. Above the limit of the process the kernel says ENOMEM and
/// no more, in containers often at 64 KiB or 8 MiB.
std::string memlock_hint() {
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return {};
  return fmt::format(" (the process may lock {} KiB of memory in all, RLIMIT_MEMLOCK)",
                     limit.rlim_cur / 1024);
}

base::error failed(const char* call, const std::string& device, int error) {
  base::error e;
  e.why = reason_of(error);
  e.layer = "verbs";
  e.device = device;
  e.what = call;
  e.sys_errno = error;
  return e;
}

/// The same of a call that locks memory.
base::error failed_to_lock(const char* call, const std::string& device, int error) {
  auto e = failed(call, device, error);
  if (error == ENOMEM)
    e.what += memlock_hint();
  return e;
}

/// Calls a destroying verb, which takes the handle's content to nothing only when it succeeds. What the end
/// of the context has destroyed is not there to be asked.
template <class Handle>
base::expected<void> release(int (*verb)(Handle*), Handle*& handle, const char* call,
                             const std::string& device, const closed_flag& closed) {
  if (handle == nullptr)
    return {};
  const bool is_there = !closed || !closed->load();
  if (const int error = is_there ? verb(handle) : 0; error != 0)
    return base::fail(failed(call, device, error));
  handle = nullptr;
  return {};
}

/// What destructors do: a verb that refuses leaves the object behind.
template <class Owner>
void release_or_leak(Owner& owner) noexcept {
  if (const auto released = owner.destroy(); !released)
    base::log(base::level::error, "verbs", "an object is leaked: {}", released.error().to_string());
}

bool set_non_blocking(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  return flags >= 0 && ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

} // namespace

// -- context --------------------------------------------------------------------------------------

base::expected<context> context::open(const provider& table, ibv_device* device) {
  context c;
  c.table_ = &table;
  c.name_ = table.get_device_name(device);
  c.handle_ = table.open_device(device);
  if (c.handle_ == nullptr)
    return base::fail(failed("ibv_open_device", c.name_, errno));
  if (!set_non_blocking(c.handle_->async_fd))
    return base::fail(failed("fcntl of the async fd", c.name_, errno));
  return c;
}

context::context(context&& other) noexcept
    : table_{other.table_}, handle_{std::exchange(other.handle_, nullptr)}, name_{std::move(other.name_)},
      gone_{std::move(other.gone_)}, closed_{std::move(other.closed_)} {}

context& context::operator=(context&& other) noexcept {
  if (this != &other) {
    release_or_leak(*this);
    table_ = other.table_;
    handle_ = std::exchange(other.handle_, nullptr);
    name_ = std::move(other.name_);
    gone_ = std::move(other.gone_);
    closed_ = std::move(other.closed_);
  }
  return *this;
}

context::~context() {
  release_or_leak(*this);
}

base::expected<void> context::destroy() {
  if (handle_ == nullptr)
    return {};
  auto released = release(table_->close_device, handle_, "ibv_close_device", name_, closed_);
  if (released)
    closed_->store(true);
  return released;
}

base::expected<ibv_device_attr> context::query_device() const {
  ibv_device_attr attributes{};
  if (const int error = table_->query_device(handle_, &attributes); error != 0)
    return base::fail(failed("ibv_query_device", name_, error));
  return attributes;
}

base::expected<ibv_port_attr> context::query_port(std::uint8_t port) const {
  ibv_port_attr attributes{};
  if (const int error = table_->query_port(handle_, port, &attributes); error != 0)
    return base::fail(failed("ibv_query_port", name_, error));
  return attributes;
}

base::expected<std::vector<gid_entry>> context::query_gids(std::uint8_t port) const {
  const auto attributes = query_port(port);
  if (!attributes)
    return base::fail(attributes.error());
  std::vector<gid_entry> all;
  for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(attributes->gid_tbl_len); ++i) {
    ibv_gid_entry entry{};
    const int error = table_->query_gid_ex(handle_, port, i, &entry);
    if (error == ENODATA)
      continue;
    if (error != 0)
      return base::fail(failed("ibv_query_gid_ex", name_, error));
    all.push_back(
        {entry.gid, i, entry.gid_type, entry.ndev_ifindex, table_->interface_is_up(handle_, entry)});
  }
  return all;
}

base::expected<std::optional<async_event>> context::next_async_event() {
  ibv_async_event event{};
  if (table_->get_async_event(handle_, &event) != 0) {
    if (errno == EAGAIN || errno == EINTR)
      return std::optional<async_event>{};
    return base::fail(failed("ibv_get_async_event", name_, errno));
  }
  async_event copy;
  copy.type = event.event_type;
  switch (event.event_type) {
  case IBV_EVENT_CQ_ERR: copy.cq = event.element.cq; break;
  case IBV_EVENT_QP_FATAL:
  case IBV_EVENT_QP_REQ_ERR:
  case IBV_EVENT_QP_ACCESS_ERR:
  case IBV_EVENT_COMM_EST:
  case IBV_EVENT_SQ_DRAINED:
  case IBV_EVENT_PATH_MIG:
  case IBV_EVENT_PATH_MIG_ERR:
  case IBV_EVENT_QP_LAST_WQE_REACHED: copy.qp_num = event.element.qp->qp_num; break;
  case IBV_EVENT_PORT_ACTIVE:
  case IBV_EVENT_PORT_ERR:
  case IBV_EVENT_LID_CHANGE:
  case IBV_EVENT_PKEY_CHANGE:
  case IBV_EVENT_SM_CHANGE:
  case IBV_EVENT_CLIENT_REREGISTER:
  case IBV_EVENT_GID_CHANGE: copy.port = static_cast<std::uint8_t>(event.element.port_num); break;
  default: break; // of the device, or of objects that are not used here
  }
  table_->ack_async_event(&event);
  return copy;
}

int context::async_fd() const noexcept {
  return handle_->async_fd;
}

// -- protection domain ----------------------------------------------------------------------------

base::expected<protection_domain> protection_domain::alloc(const context& ctx) {
  ibv_pd* const pd = ctx.table().alloc_pd(ctx.get());
  if (pd == nullptr)
    return base::fail(failed("ibv_alloc_pd", ctx.name(), errno));
  return protection_domain{ctx.table(), pd, ctx.name(), ctx.closed()};
}

protection_domain& protection_domain::operator=(protection_domain&& other) noexcept {
  if (this != &other) {
    release_or_leak(*this);
    take(other);
  }
  return *this;
}

protection_domain::~protection_domain() {
  release_or_leak(*this);
}

base::expected<void> protection_domain::destroy() {
  return handle_ == nullptr ? base::expected<void>{}
                            : release(table_->dealloc_pd, handle_, "ibv_dealloc_pd", device_, closed_);
}

// -- memory region --------------------------------------------------------------------------------

base::expected<memory_region> memory_region::reg(const protection_domain& pd, void* addr, std::size_t length,
                                                 int access) {
  ibv_mr* const mr = pd.table().reg_mr(pd.get(), addr, length, access);
  if (mr == nullptr)
    return base::fail(failed_to_lock("ibv_reg_mr", pd.device(), errno));
  return memory_region{pd.table(), mr, pd.device(), pd.closed()};
}

memory_region& memory_region::operator=(memory_region&& other) noexcept {
  if (this != &other) {
    release_or_leak(*this);
    take(other);
  }
  return *this;
}

memory_region::~memory_region() {
  release_or_leak(*this);
}

base::expected<void> memory_region::destroy() {
  return handle_ == nullptr ? base::expected<void>{}
                            : release(table_->dereg_mr, handle_, "ibv_dereg_mr", device_, closed_);
}

// -- completion channel ---------------------------------------------------------------------------

base::expected<completion_channel> completion_channel::create(const context& ctx) {
  ibv_comp_channel* const handle = ctx.table().create_comp_channel(ctx.get());
  if (handle == nullptr)
    return base::fail(failed("ibv_create_comp_channel", ctx.name(), errno));
  completion_channel channel{ctx.table(), handle, ctx.name(), ctx.closed()};
  if (!set_non_blocking(handle->fd))
    return base::fail(failed("fcntl of the completion channel", ctx.name(), errno));
  return channel;
}

completion_channel& completion_channel::operator=(completion_channel&& other) noexcept {
  if (this != &other) {
    release_or_leak(*this);
    take(other);
  }
  return *this;
}

completion_channel::~completion_channel() {
  release_or_leak(*this);
}

base::expected<void> completion_channel::destroy() {
  return handle_ == nullptr
             ? base::expected<void>{}
             : release(table_->destroy_comp_channel, handle_, "ibv_destroy_comp_channel", device_, closed_);
}

void completion_channel::abandon() noexcept {
  if (handle_ != nullptr)
    table_->abandon_comp_channel(std::exchange(handle_, nullptr));
}

unsigned completion_channel::drain() noexcept {
  unsigned events = 0;
  ibv_cq* cq = nullptr;
  void* user = nullptr;
  for (; table_->get_cq_event(handle_, &cq, &user) == 0; ++events)
    table_->ack_cq_events(cq, 1);
  return events;
}

// -- completion queue -----------------------------------------------------------------------------

base::expected<completion_queue> completion_queue::create(const context& ctx, int capacity,
                                                          const completion_channel& channel) {
  ibv_cq* const cq = ctx.table().create_cq(ctx.get(), capacity, nullptr, channel.get(), 0);
  if (cq == nullptr)
    return base::fail(failed_to_lock("ibv_create_cq", ctx.name(), errno));
  return completion_queue{ctx.table(), cq, ctx.name(), ctx.closed()};
}

completion_queue& completion_queue::operator=(completion_queue&& other) noexcept {
  if (this != &other) {
    release_or_leak(*this);
    take(other);
  }
  return *this;
}

completion_queue::~completion_queue() {
  release_or_leak(*this);
}

base::expected<void> completion_queue::destroy() {
  return handle_ == nullptr ? base::expected<void>{}
                            : release(table_->destroy_cq, handle_, "ibv_destroy_cq", device_, closed_);
}

// -- queue pair -----------------------------------------------------------------------------------

base::expected<queue_pair> queue_pair::create(const protection_domain& pd, ibv_qp_init_attr& init) {
  init.qp_type = IBV_QPT_RC;
  ibv_qp* const qp = pd.table().create_qp(pd.get(), &init);
  if (qp == nullptr)
    return base::fail(failed_to_lock("ibv_create_qp", pd.device(), errno));
  return queue_pair{pd.table(), qp, pd.device(), pd.closed()};
}

queue_pair& queue_pair::operator=(queue_pair&& other) noexcept {
  if (this != &other) {
    release_or_leak(*this);
    take(other);
  }
  return *this;
}

queue_pair::~queue_pair() {
  release_or_leak(*this);
}

base::expected<void> queue_pair::modify(ibv_qp_attr& attr, int mask) {
  if (closed_->load())
    return base::fail(failed("ibv_modify_qp", device_, ENODEV));
  if (const int error = table_->modify_qp(handle_, &attr, mask); error != 0)
    return base::fail(failed("ibv_modify_qp", device_, error));
  return {};
}

base::expected<ibv_qp_attr> queue_pair::query(int mask) const {
  if (closed_->load())
    return base::fail(failed("ibv_query_qp", device_, ENODEV));
  ibv_qp_attr attributes{};
  ibv_qp_init_attr init{};
  if (const int error = table_->query_qp(handle_, &attributes, mask, &init); error != 0)
    return base::fail(failed("ibv_query_qp", device_, error));
  return attributes;
}

base::expected<ibv_qp_state> queue_pair::query_state() const {
  const auto attributes = query(IBV_QP_STATE);
  if (!attributes)
    return base::fail(attributes.error());
  return attributes->qp_state;
}

base::expected<std::uint8_t> queue_pair::query_served_reads() const {
  const auto attributes = query(IBV_QP_MAX_DEST_RD_ATOMIC);
  if (!attributes)
    return base::fail(attributes.error());
  return attributes->max_dest_rd_atomic;
}

base::expected<void> queue_pair::destroy() {
  return handle_ == nullptr ? base::expected<void>{}
                            : release(table_->destroy_qp, handle_, "ibv_destroy_qp", device_, closed_);
}

} // namespace actor_rdma::verbs
