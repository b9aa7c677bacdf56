// SPDX-License-Identifier: Apache-2.0
//
// The plain objects of the NIC: device, open context, protection domain, memory region, completion channel.
// Each derives from libibverbs' own struct, so that the handle that an application holds is the object. A
// context owns what was made through it; objects that outlive a forced close are kept, dead, until their host
// goes.
#pragma once

#include "base/error.hpp"
#include "verbs/soft/event_queue.hpp"
#include "verbs/soft/fabric.hpp"
#include "verbs/soft/layout.hpp"
#include "verbs/soft/limits.hpp"
#include "verbs/soft/runtime.hpp"

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <infiniband/verbs.h>

namespace actor_rdma::verbs::soft {

class soft_cq;
class soft_context;

/// What a context owns: a verb destroys it, or closing the context does.
class owned_object {
public:
  owned_object() = default;
  owned_object(const owned_object&) = delete;
  owned_object& operator=(const owned_object&) = delete;
  virtual ~owned_object() = default;
  /// How many others need it: then its verb refuses.
  [[nodiscard]] virtual std::uint32_t dependents() const noexcept { return 0; }
  /// Takes it out of the fabric, after which no byte moves on its behalf. 0, or EBUSY, and then it may be
  /// tried again. Waits for unacknowledged events as libibverbs does, unless it is forced.
  [[nodiscard]] virtual int retire([[maybe_unused]] bool forced) { return 0; }

private:
  friend class soft_context;
  std::uint64_t number_ = 0;
};

class soft_device : public ibv_device {
public:
  /// Claims the device's slot; the caller holds the segment's lock.
  [[nodiscard]] static base::expected<std::unique_ptr<soft_device>>
  create(runtime& rt, const std::string& host, const device_options& options);
  ~soft_device();
  soft_device(const soft_device&) = delete;
  soft_device& operator=(const soft_device&) = delete;

  [[nodiscard]] runtime& rt() const noexcept { return rt_; }
  [[nodiscard]] std::uint32_t index() const noexcept { return index_; }
  [[nodiscard]] layout::device_entry& entry() const noexcept { return rt_.tables().devices[index_]; }
  [[nodiscard]] std::uint32_t ports() const noexcept { return static_cast<std::uint32_t>(ports_.size()); }
  /// Where a port is in the tables, by its number. Nothing: there is no such port.
  [[nodiscard]] std::optional<std::uint32_t> port_index(std::uint32_t port) const noexcept {
    return port >= 1 && port <= ports_.size() ? std::optional{ports_[port - 1]} : std::nullopt;
  }
  [[nodiscard]] layout::device_entry* port_entry(std::uint32_t port) const noexcept {
    const auto index = port_index(port);
    return index ? &rt_.tables().devices[*index] : nullptr;
  }
  [[nodiscard]] const device_limits& limits() const noexcept { return limits_; }
  [[nodiscard]] device_allowances& allowances() noexcept { return allowances_; }

  [[nodiscard]] soft_context* open();
  /// It is not there now: not listed, and not to be opened.
  [[nodiscard]] bool is_lost() const noexcept {
    return entry().loss_seq.load(std::memory_order_acquire) % 2 != 0;
  }
  /// Virtual time: a completion or an event has come, see host::arrivals().
  void note_arrival() noexcept {
    if (rt_.is_virtual())
      ++arrivals_;
  }
  [[nodiscard]] std::uint64_t arrivals() const noexcept { return arrivals_; }
  /// Retires what is still open in it. 0, or EBUSY when another process is stopped inside our memory.
  [[nodiscard]] int close(soft_context& context);

private:
  soft_device(runtime& rt, std::vector<std::uint32_t> ports, const device_limits& limits)
      : ibv_device{}, rt_{rt}, ports_{std::move(ports)}, index_{ports_.front()}, limits_{limits} {}

  runtime& rt_;
  const std::vector<std::uint32_t> ports_; // their entries, the device's own first
  const std::uint32_t index_;
  const device_limits limits_;
  device_allowances allowances_;
  std::uint64_t arrivals_ = 0;
  std::mutex mutex_;
  // Nobody else owns a context, the engine neither: it points into the device.
  std::vector<std::unique_ptr<soft_context>> open_;
  std::vector<std::unique_ptr<soft_context>> closed_; // over objects that the application may still hold
};

/// An async event and where its acknowledgement is counted.
using async_queue = event_queue<ibv_async_event>;

class soft_pd : public ibv_pd, public owned_object {
public:
  soft_pd(ibv_context* owner, std::uint32_t number) : ibv_pd{owner, number} {}
  [[nodiscard]] std::uint32_t dependents() const noexcept override { return children.load(); }
  std::atomic<std::uint32_t> children{0};
};

class soft_mr : public ibv_mr, public owned_object {
public:
  /// Publishes the region in the table's slot.
  soft_mr(runtime& rt, soft_pd& owner, std::uint32_t index, void* at, std::size_t bytes, int access,
          std::uint32_t device);
  [[nodiscard]] int retire(bool forced) override;

private:
  runtime& rt_;
  const std::uint32_t index_;
  const std::uint32_t device_;
  std::mutex mutex_; // a verb and the loss of the device may meet
  bool released_ = false;
};

class soft_channel : public ibv_comp_channel, public owned_object {
public:
  explicit soft_channel(ibv_context* owner);
  [[nodiscard]] std::uint32_t dependents() const noexcept override { return users.load(); }
  event_queue<soft_cq*> events;
  std::atomic<std::uint32_t> users{0};
};

/// `verbs_context` is what the inlines of <infiniband/verbs.h> expect around an extended ibv_context.
class soft_context : public verbs_context {
public:
  explicit soft_context(soft_device& device);
  ~soft_context();
  soft_context(const soft_context&) = delete;
  soft_context& operator=(const soft_context&) = delete;
  [[nodiscard]] static soft_context& of(ibv_context* context) noexcept {
    return *static_cast<soft_context*>(verbs_get_ctx(context));
  }

  [[nodiscard]] soft_device& device() const noexcept { return device_; }
  [[nodiscard]] runtime& rt() const noexcept { return device_.rt(); }

  template <class Object>
  Object* own(std::shared_ptr<Object> object) {
    std::lock_guard lock{mutex_};
    auto* const handle = object.get();
    handle->number_ = next_number_++;
    objects_.emplace(handle->number_, std::move(object));
    return handle;
  }
  void disown(const owned_object& object) noexcept;

  /// Rules may swallow it, multiply it or make it late.
  void raise(const ibv_async_event& event, event_ledger* ledger, std::uint32_t times = 1);
  void deliver(const ibv_async_event& event, event_ledger* ledger, std::uint32_t times);
  /// Calls that wait for async events or events of completion channels return, to look at the rules again.
  void wake_waiting_calls();
  [[nodiscard]] async_queue& async_events() noexcept { return async_events_; }
  /// Turns changes of the ports' states and addresses since the last call into events.
  void check_ports();
  void raise_of_port(std::uint32_t port, ibv_event_type type, std::uint32_t times = 1);
  /// One at a time: when it returns nobody else is at it either.
  [[nodiscard]] int retire_objects();
  [[nodiscard]] bool owns_any();
  /// Whether the device was lost since it was opened: what was made of it is dead, and stays so when the
  /// device is back.
  [[nodiscard]] bool is_dead() const noexcept { return dead_.load(std::memory_order_acquire); }
  /// And DEVICE_FATAL has been raised, which is a moment later: what it had is taken apart first.
  [[nodiscard]] bool has_told_loss() const noexcept { return loss_told_.load(std::memory_order_acquire); }
  /// Whether it should be, by the tables.
  [[nodiscard]] bool outlived_its_device() const noexcept {
    return device_.entry().loss_seq.load(std::memory_order_acquire) != born_at_loss_seq_;
  }
  /// As a kernel does it: takes all its objects out of the fabric and says DEVICE_FATAL, once. What is called
  /// then is EIO, but closing. 0, or EBUSY when another process is stopped inside our memory.
  int die();

private:
  /// How often each had changed when this was last looked at.
  struct seen_port {
    std::uint32_t link_seq;
    std::uint32_t gid_epoch;
    std::uint32_t lid_epoch;
  };

  soft_device& device_;
  async_queue async_events_;
  std::mutex mutex_;
  std::map<std::uint64_t, std::shared_ptr<owned_object>> objects_; // in the order of their creation
  std::uint64_t next_number_ = 0;
  std::vector<seen_port> seen_; // by port
  const std::uint32_t born_at_loss_seq_;
  std::atomic<bool> dead_{false};
  std::atomic<bool> loss_told_{false};
  std::mutex retiring_;
};

} // namespace actor_rdma::verbs::soft
