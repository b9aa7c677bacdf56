// SPDX-License-Identifier: Apache-2.0
// Move-only owners of verbs objects over libibverbs' own types. Each object has exactly one owner. An owner
// is released by destroy(), whose success is a proof (ibv_destroy_qp returning 0 is the local fence of
// everything that was posted), or by the destructor, which logs and leaks the object when the verb refuses: a
// destructor may never pretend that memory is free. Children must be destroyed before their parents, but for
// those that refuse: the end of their context is the end of them, and destroy() succeeds after it. Errors
// carry the call's name, the device and errno. Every call here is a control-path call: it may take long and
// is never made on a lane, except those marked "lane" which are plain loads or the non-blocking reads of an
// O_NONBLOCK fd.
#pragma once

#include "base/error.hpp"
#include "verbs/provider.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace actor_rdma::verbs {

/// A copy of an async event; the original was acked when it was read (ibv_get_async_event(3): destroying a QP
/// or CQ waits for the acks of events that were handed out).
struct async_event {
  ibv_event_type type = IBV_EVENT_DEVICE_FATAL;
  std::uint32_t qp_num = 0; ///< of QP events, else 0
  ibv_cq* cq = nullptr;     ///< identity of CQ events only, never dereferenced
  std::uint8_t port = 0;    ///< of port events, else 0
};

/// One GID table entry with the index at which it was found: the index moves when addresses come and go.
struct gid_entry {
  union ibv_gid gid {};
  std::uint32_t index = 0;
  std::uint32_t type = IBV_GID_TYPE_IB;
  std::uint32_t interface_index = 0;
  bool interface_up = true;
};

/// Whether a context has been closed, shared by it and everything that was made from it. Closing makes the
/// kernel destroy what the context still owned, its DMA included, before ibv_close_device(3) returns. It is
/// the only proof but a 0: EIO and ENODEV from a destroying call may come from a device that is gone, with
/// all its objects, and from one that fails every command and goes on moving bytes.
using closed_flag = std::shared_ptr<std::atomic<bool>>;

/// An open device. Its async fd is O_NONBLOCK.
class context {
public:
  static base::expected<context> open(const provider& table, ibv_device* device);
  context() = default;
  context(context&& other) noexcept;
  context& operator=(context&& other) noexcept;
  ~context();

  /// Closes it, also with objects that refused to be destroyed: they are gone then, and so is what they
  /// touched; libibverbs keeps some memory of theirs. No call may be made on them meanwhile or after, but
  /// destroy().
  base::expected<void> destroy();
  base::expected<ibv_device_attr> query_device() const;
  base::expected<ibv_port_attr> query_port(std::uint8_t port) const;
  /// All non-empty entries of the port's GID table.
  base::expected<std::vector<gid_entry>> query_gids(std::uint8_t port) const;
  /// The next async event, copied and acked; nullopt when there is none; an error (EIO) means the device is
  /// gone. lane
  base::expected<std::optional<async_event>> next_async_event();
  int async_fd() const noexcept;
  const std::string& name() const noexcept { return name_; }
  ibv_context* get() const noexcept { return handle_; }
  const provider& table() const noexcept { return *table_; }
  explicit operator bool() const noexcept { return handle_ != nullptr; }
  /// After IBV_EVENT_DEVICE_FATAL, or when the event fd is dead. Any thread, lane.
  void mark_gone() const noexcept { gone_->store(true); }
  bool is_gone() const noexcept { return gone_->load(); }
  const closed_flag& closed() const noexcept { return closed_; }

private:
  const provider* table_ = nullptr;
  ibv_context* handle_ = nullptr;
  std::string name_;
  std::shared_ptr<std::atomic<bool>> gone_ = std::make_shared<std::atomic<bool>>(false);
  closed_flag closed_ = std::make_shared<std::atomic<bool>>(false);
};

/// Common part of the owners below: which table releases the handle, and the device's name for messages.
template <class Handle>
class owner {
public:
  owner() = default;
  owner(const provider& table, Handle* handle, std::string device, closed_flag closed)
      : table_(&table), handle_(handle), device_(std::move(device)), closed_(std::move(closed)) {}
  owner(owner&& other) noexcept
      : table_(other.table_), handle_(std::exchange(other.handle_, nullptr)),
        device_(std::move(other.device_)), closed_(std::move(other.closed_)) {}
  Handle* get() const noexcept { return handle_; }
  const provider& table() const noexcept { return *table_; }
  explicit operator bool() const noexcept { return handle_ != nullptr; }
  const std::string& device() const noexcept { return device_; }
  const closed_flag& closed() const noexcept { return closed_; }

protected:
  ~owner() = default;
  void take(owner& other) noexcept {
    table_ = other.table_;
    handle_ = std::exchange(other.handle_, nullptr);
    device_ = std::move(other.device_);
    closed_ = std::move(other.closed_);
  }

  const provider* table_ = nullptr;
  Handle* handle_ = nullptr;
  std::string device_;
  closed_flag closed_;
};

class protection_domain : public owner<ibv_pd> {
public:
  static base::expected<protection_domain> alloc(const context& ctx);
  using owner::owner;
  protection_domain(protection_domain&&) noexcept = default;
  protection_domain& operator=(protection_domain&& other) noexcept;
  ~protection_domain();
  base::expected<void> destroy();
};

class memory_region : public owner<ibv_mr> {
public:
  static base::expected<memory_region> reg(const protection_domain& pd, void* addr, std::size_t length,
                                           int access);
  using owner::owner;
  memory_region(memory_region&&) noexcept = default;
  memory_region& operator=(memory_region&& other) noexcept;
  ~memory_region();
  base::expected<void> destroy();
  std::uint32_t lkey() const noexcept { return handle_->lkey; }
  std::uint32_t rkey() const noexcept { return handle_->rkey; }
};

/// Its fd is O_NONBLOCK; events are copied and acked where they are read.
class completion_channel : public owner<ibv_comp_channel> {
public:
  static base::expected<completion_channel> create(const context& ctx);
  using owner::owner;
  completion_channel(completion_channel&&) noexcept = default;
  completion_channel& operator=(completion_channel&& other) noexcept;
  ~completion_channel();
  base::expected<void> destroy();
  /// Before its context is closed, when it refuses: its descriptor does not end with the context.
  void abandon() noexcept;
  /// Reads and acks every queued event, returns how many there were. lane
  unsigned drain() noexcept;
  int fd() const noexcept { return handle_->fd; }
};

class completion_queue : public owner<ibv_cq> {
public:
  /// `capacity()` is read back: devices round up, some give less. `channel` may be empty.
  static base::expected<completion_queue> create(const context& ctx, int capacity,
                                                 const completion_channel& channel);
  using owner::owner;
  completion_queue(completion_queue&&) noexcept = default;
  completion_queue& operator=(completion_queue&& other) noexcept;
  ~completion_queue();
  base::expected<void> destroy();
  int capacity() const noexcept { return handle_->cqe; }
};

class queue_pair : public owner<ibv_qp> {
public:
  /// RC. `init` is updated with the capacities that the device granted.
  static base::expected<queue_pair> create(const protection_domain& pd, ibv_qp_init_attr& init);
  using owner::owner;
  queue_pair(queue_pair&&) noexcept = default;
  queue_pair& operator=(queue_pair&& other) noexcept;
  ~queue_pair();
  base::expected<void> modify(ibv_qp_attr& attr, int mask);
  base::expected<ibv_qp_state> query_state() const;
  /// max_dest_rd_atomic as the device has it, which may be less than was asked for.
  base::expected<std::uint8_t> query_served_reads() const;
  base::expected<void> destroy();
  std::uint32_t number() const noexcept { return handle_->qp_num; }

private:
  base::expected<ibv_qp_attr> query(int mask) const;
};

} // namespace actor_rdma::verbs
