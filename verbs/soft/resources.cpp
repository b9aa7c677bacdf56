// SPDX-License-Identifier: Apache-2.0
//
// Making and ending the plain objects.
#include "verbs/soft/resources.hpp"

#include "base/log.hpp"
#include "verbs/soft/addressing.hpp"
#include "verbs/soft/event_log.hpp"
#include "verbs/soft/hazard.hpp"
#include "verbs/soft/port_control.hpp"
#include "verbs/soft/rules/raised.hpp"
#include "verbs/soft/shaper.hpp"
#include "verbs/soft/tables.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <iterator>
#include <utility>

namespace actor_rdma::verbs::soft {

// -- device
// ---------------------------------------------------------------------------------------------------------

namespace {

/// Behind its port, likewise. Devices of one host share the memory of the first of them.
base::expected<void> set_up_wires(layout::tables& t, std::uint32_t index, const std::string& host,
                                  const device_options& options) {
  auto& entry = t.devices[index];
  entry.bond_members.store(options.bond_members, std::memory_order_relaxed);
  entry.lanes.store(usual_lanes, std::memory_order_relaxed);
  entry.lane_speed.store(*speed_code(usual_lane_gbit_s), std::memory_order_relaxed);
  for (auto& wire : entry.wires)
    wire.fs_per_byte.store(fs_per_byte(options.rate_gbit_s), std::memory_order_relaxed);
  const auto per_byte = options.host_memory_gbit_s == 0 ? 0 : fs_per_byte(options.host_memory_gbit_s);
  entry.memory_of.store(index, std::memory_order_relaxed);
  for (std::uint32_t i = 0; i < device_slots(t); ++i) {
    const auto& other = t.devices[i];
    const auto name = device_name(other);
    if (i == index || other.used.load(std::memory_order_acquire) == 0 ||
        name.substr(0, name.find('/')) != host)
      continue;
    const auto first = other.memory_of.load(std::memory_order_relaxed);
    if (t.devices[first].memory.fs_per_byte.load(std::memory_order_relaxed) != per_byte)
      return base::fail(base::reason::invalid_argument, "soft NIC",
                        "host_memory_gbit_s of " + device_name(entry) + " is not that of " + name);
    entry.memory_of.store(first, std::memory_order_relaxed);
    return {};
  }
  entry.memory.fs_per_byte.store(per_byte, std::memory_order_relaxed);
  return {};
}

/// Its addresses, when the entry is not yet marked as used.
base::expected<void> set_up_port(layout::tables& t, std::uint32_t index, const device_options& options) {
  auto& entry = t.devices[index];
  const bool is_ib = options.link_layer == IBV_LINK_LAYER_INFINIBAND;
  entry.link_layer.store(options.link_layer, std::memory_order_relaxed);
  entry.subnet_prefix.store(is_ib ? options.subnet_prefix : 0, std::memory_order_relaxed);
  for (std::uint32_t i = 0; i < layout::gids_per_port; ++i)
    write_gid(entry, i, std::nullopt);
  const auto usual = is_ib ? default_infiniband_gids(index, options.subnet_prefix) : default_gid_table(index);
  const bool has_usual = options.gids.empty() || entry.port.load(std::memory_order_relaxed) != 1;
  for (const auto& row : has_usual ? usual : options.gids)
    write_gid(entry, row.index, row);
  if (!is_ib)
    return {};
  const auto wanted = entry.port.load(std::memory_order_relaxed) == 1 ? options.lid : std::uint16_t{0};
  const auto lid = wanted != 0 ? std::optional{wanted} : choose_lid(t, index);
  if (!lid || !is_free_lid(t, index, *lid))
    return base::fail(base::reason::busy, "soft NIC",
                      device_name(entry) + ": another port of its subnet has LID " +
                          std::to_string(options.lid));
  entry.lid.store(*lid, std::memory_order_relaxed);
  return {};
}

/// Its entry, in use. The caller holds the segment's lock.
base::expected<std::uint32_t> add_port(runtime& rt, const std::string& host, const std::string& device,
                                       std::uint32_t number, std::optional<std::uint32_t> first,
                                       const device_options& options) {
  auto& t = rt.tables();
  const auto index = claim_device(t, rt.process_index(), port_name(device, number));
  if (!index)
    return base::fail(base::reason::resource, "soft NIC", "the fabric has no room for another device");
  auto& entry = t.devices[*index];
  entry.port.store(number, std::memory_order_relaxed);
  entry.first_port.store(first.value_or(*index), std::memory_order_relaxed);
  entry.mode.store(static_cast<std::uint32_t>(options.mode), std::memory_order_relaxed);
  entry.latency.store(options.latency.count(), std::memory_order_relaxed);
  entry.mtu.store(options.mtu, std::memory_order_relaxed);
  if (auto done = set_up_wires(t, *index, host, options); !done)
    return base::fail(done.error());
  if (auto done = set_up_port(t, *index, options); !done)
    return base::fail(done.error());
  if (options.lost && !first)
    entry.loss_seq.store(1, std::memory_order_relaxed);
  entry.used.store(1, std::memory_order_release);
  return *index;
}

} // namespace

base::expected<std::unique_ptr<soft_device>> soft_device::create(runtime& rt, const std::string& host,
                                                                 const device_options& options) {
  const auto name = host + '/' + options.name;
  if (options.name.empty() || options.name.find_first_of("/:") != std::string::npos ||
      name.size() + 2 > layout::max_name) // and the number of a port
    return base::fail(base::reason::invalid_argument, "soft NIC", "a device cannot be named \"" + name + '"');
  if (!(options.rate_gbit_s >= min_rate_gbit_s && options.rate_gbit_s <= max_rate_gbit_s) ||
      options.latency.count() < 0)
    return base::fail(base::reason::invalid_argument, "soft NIC",
                      "rate or latency of " + name + " is out of range");
  if (const auto wrong = check_options(options); !wrong.empty())
    return base::fail(base::reason::invalid_argument, "soft NIC", name + ": " + wrong);
  auto& t = rt.tables();
  for (const auto& other : t.devices)
    if (other.used.load(std::memory_order_acquire) != 0 && name == device_name(other))
      return base::fail(base::reason::busy, "soft NIC", "the fabric has a device " + name + " already");
  std::vector<std::uint32_t> ports;
  for (std::uint32_t port = 1; port <= options.ports; ++port) {
    const auto index =
        add_port(rt, host, name, port, ports.empty() ? std::nullopt : std::optional{ports.front()}, options);
    if (!index) {
      for (const auto made : ports)
        release_device(t, made);
      return base::fail(index.error());
    }
    ports.push_back(*index);
  }
  const auto index = ports.front();
  auto& entry = t.devices[index];

  std::unique_ptr<soft_device> device{new soft_device{rt, std::move(ports), options.limits}};
  device->node_type = IBV_NODE_CA;
  device->transport_type = IBV_TRANSPORT_IB;
  std::snprintf(device->name, sizeof device->name, "%s", options.name.c_str());
  std::snprintf(device->dev_name, sizeof device->dev_name, "uverbs%u", index);
  std::snprintf(device->dev_path, sizeof device->dev_path, "/sys/class/infiniband_verbs/uverbs%u", index);
  std::snprintf(device->ibdev_path, sizeof device->ibdev_path, "/sys/class/infiniband/%s",
                options.name.c_str());
  write_log(t, rt.now(), log_kind::attach, entry);
  return device;
}

namespace {

/// Reachable, so that who looks for leaks does not find it.
void keep_for_ever(std::unique_ptr<soft_context> context) {
  static std::mutex mutex;
  static auto& kept = *new std::vector<std::unique_ptr<soft_context>>;
  std::lock_guard lock{mutex};
  kept.push_back(std::move(context));
}

} // namespace

soft_device::~soft_device() {
  for (auto& context : open_) {
    if (context->retire_objects() == 0)
      continue;
    base::log(base::level::error, "soft NIC",
              "a stopped process is inside the memory of {}: its objects are leaked", device_name(entry()));
    rt_.remove(*context);
    keep_for_ever(std::move(context));
  }
  auto& t = rt_.tables();
  write_log(t, rt_.now(), log_kind::detach, entry());
  for (const auto port : ports_)
    release_device(t, port);
  note_fault_change(t, rt_.now()); // its faults go with it
}

soft_context* soft_device::open() {
  if (is_lost()) {
    errno = ENODEV;
    return nullptr;
  }
  auto context = std::make_unique<soft_context>(*this);
  if (context->context.async_fd < 0) {
    errno = EMFILE;
    return nullptr;
  }
  std::lock_guard lock{mutex_};
  return open_.emplace_back(std::move(context)).get();
}

int soft_device::close(soft_context& context) {
  if (const int error = context.retire_objects(); error != 0)
    return error;
  std::unique_ptr<soft_context> last; // ends after the lock
  std::lock_guard lock{mutex_};
  const auto found =
      std::find_if(open_.begin(), open_.end(), [&](const auto& other) { return other.get() == &context; });
  if (found == open_.end())
    return EINVAL;
  last = std::move(*found);
  open_.erase(found);
  if (last->owns_any() && !last->is_dead()) // what is dead cannot be destroyed otherwise
    closed_.push_back(std::move(last));
  return 0;
}

// -- memory region
// --------------------------------------------------------------------------------------------------

soft_mr::soft_mr(runtime& rt, soft_pd& owner, std::uint32_t index, void* at, std::size_t bytes, int access,
                 std::uint32_t device)
    : ibv_mr{}, rt_{rt}, index_{index}, device_{device} {
  context = owner.context;
  pd = &owner;
  addr = at;
  length = bytes;
  handle = index;
  auto& t = rt.tables();
  lkey = new_lkey(t, index);
  rkey = new_rkey(t, index);
  auto& entry = t.mrs[index];
  entry.lkey.store(lkey, std::memory_order_relaxed);
  entry.access.store(static_cast<std::uint32_t>(access), std::memory_order_relaxed);
  entry.pd.store(owner.handle, std::memory_order_relaxed);
  entry.device.store(device, std::memory_order_relaxed);
  entry.addr.store(reinterpret_cast<std::uintptr_t>(at), std::memory_order_relaxed);
  entry.length.store(bytes, std::memory_order_relaxed);
  const auto generation = std::uint64_t{entry.generation.load(std::memory_order_relaxed)};
  entry.state.store(generation << 32 | rkey, std::memory_order_seq_cst);
  t.devices[device].open_mrs.fetch_add(1, std::memory_order_relaxed);
  owner.children.fetch_add(1);
}

int soft_mr::retire([[maybe_unused]] bool forced) {
  std::lock_guard lock{mutex_};
  if (released_)
    return 0;
  auto& t = rt_.tables();
  t.mrs[index_].state.store(0, std::memory_order_seq_cst);
  if (!wait_for_memory_region(t, rt_.process(), index_))
    return EBUSY;
  released_ = true;
  release_memory_region(t, index_);
  t.devices[device_].open_mrs.fetch_sub(1, std::memory_order_relaxed);
  soft_context::of(context).device().allowances().mrs.give(1);
  static_cast<soft_pd*>(pd)->children.fetch_sub(1);
  return 0;
}

// -- channel and context
// --------------------------------------------------------------------------------------------

soft_channel::soft_channel(ibv_context* owner) : ibv_comp_channel{owner, 0, 0} {
  fd = events.fd();
}

soft_context::soft_context(soft_device& device)
    : verbs_context{}, device_{device}, born_at_loss_seq_{
                                            device.entry().loss_seq.load(std::memory_order_acquire)} {
  for (std::uint32_t port = 1; port <= device.ports(); ++port) {
    const auto& entry = *device.port_entry(port);
    seen_.push_back({entry.link_seq.load(std::memory_order_acquire),
                     entry.gid_epoch.load(std::memory_order_acquire),
                     entry.lid_epoch.load(std::memory_order_acquire)});
  }
  sz = sizeof(verbs_context);
  context.device = &device;
  context.abi_compat = __VERBS_ABI_IS_EXTENDED;
  context.cmd_fd = -1;
  context.async_fd = async_events_.fd();
  context.num_comp_vectors = 1;
  pthread_mutex_init(&context.mutex, nullptr);
  rt().add(*this);
  if (rt().rules().is_dead(rt().now(), device.index(), verb::get_async_event))
    async_events_.interrupt();
}

soft_context::~soft_context() {
  rt().remove(*this);
  while (!objects_.empty()) // backwards, as they were made upon each other
    objects_.erase(std::prev(objects_.end()));
  pthread_mutex_destroy(&context.mutex);
}

void soft_context::disown(const owned_object& object) noexcept {
  std::shared_ptr<owned_object> last; // ends after the lock
  std::lock_guard lock{mutex_};
  if (const auto found = objects_.find(object.number_); found != objects_.end()) {
    last = std::move(found->second);
    objects_.erase(found);
  }
}

namespace {
std::uint32_t qp_of(const ibv_async_event& event, const event_ledger* ledger) noexcept {
  const bool is_of_qp = ledger != nullptr && subject_of(event.event_type) == event_subject::queue_pair;
  return is_of_qp ? event.element.qp->qp_num : 0;
}

/// Whose event it is in the tables: a port's, or the device's.
std::uint32_t origin_of(const soft_device& device, const ibv_async_event& event) noexcept {
  const auto port = is_of_port(event.event_type) ? static_cast<std::uint32_t>(event.element.port_num) : 1U;
  return device.port_index(port).value_or(device.index());
}
} // namespace

void soft_context::raise(const ibv_async_event& event, event_ledger* ledger, std::uint32_t times) {
  const auto now = rt().now();
  const auto ruled = rt().rules().judge(now, origin_of(device_, event),
                                        event_facts{{}, event.event_type, qp_of(event, ledger)});
  if (ruled.times == 0)
    return;
  if (ruled.late != 0)
    rt().raise_later(*this, event, ledger, times * ruled.times, now + ruled.late);
  else
    deliver(event, ledger, times * ruled.times);
}

void soft_context::deliver(const ibv_async_event& event, event_ledger* ledger, std::uint32_t times) {
  write_log(rt().tables(), rt().now(), log_kind::async_event,
            rt().tables().devices[origin_of(device_, event)], qp_of(event, ledger),
            static_cast<std::uint32_t>(event.event_type));
  for (std::uint32_t i = 0; i < times; ++i)
    async_events_.push(event, ledger);
  device_.note_arrival();
}

void soft_context::wake_waiting_calls() {
  async_events_.interrupt();
  std::lock_guard lock{mutex_};
  for (const auto& [number, object] : objects_)
    if (auto* const channel = dynamic_cast<soft_channel*>(object.get()); channel != nullptr)
      channel->events.interrupt();
}

void soft_context::check_ports() {
  for (std::uint32_t port = 1; port <= device_.ports(); ++port) {
    auto& seen = seen_[port - 1];
    const auto& entry = *device_.port_entry(port);
    const auto now_at = entry.link_seq.load(std::memory_order_acquire);
    for (; seen.link_seq != now_at; ++seen.link_seq)
      if ((entry.quiet_changes.load(std::memory_order_acquire) >> seen.link_seq % 64 & 1) == 0)
        raise_of_port(port, seen.link_seq % 2 == 0 ? IBV_EVENT_PORT_ERR : IBV_EVENT_PORT_ACTIVE);
    for (const auto gids_at = entry.gid_epoch.load(std::memory_order_acquire); seen.gid_epoch != gids_at;
         ++seen.gid_epoch)
      raise_of_port(port, IBV_EVENT_GID_CHANGE);
    for (const auto lid_at = entry.lid_epoch.load(std::memory_order_acquire); seen.lid_epoch != lid_at;
         ++seen.lid_epoch)
      raise_of_port(port, IBV_EVENT_LID_CHANGE);
  }
}

void soft_context::raise_of_port(std::uint32_t port, ibv_event_type type, std::uint32_t times) {
  ibv_async_event event{};
  event.event_type = type;
  event.element.port_num = static_cast<int>(port);
  raise(event, nullptr, times);
}

int soft_context::retire_objects() {
  std::lock_guard one_at_a_time{retiring_};
  std::map<std::uint64_t, std::shared_ptr<owned_object>> objects;
  {
    std::lock_guard lock{mutex_};
    objects = objects_;
  }
  // Backwards: what was made last depends on what was made first.
  int result = 0;
  for (auto object = objects.rbegin(); object != objects.rend(); ++object)
    if (const int error = object->second->retire(true); error != 0)
      result = error;
  return result;
}

int soft_context::die() {
  const bool is_news = !dead_.exchange(true, std::memory_order_acq_rel);
  const int result = retire_objects(); // and nobody is told EIO before it is true
  if (is_news) {
    ibv_async_event event{};
    event.event_type = IBV_EVENT_DEVICE_FATAL;
    raise(event, nullptr);
    loss_told_.store(true, std::memory_order_release);
    wake_waiting_calls();
  }
  return result;
}

bool soft_context::owns_any() {
  std::lock_guard lock{mutex_};
  return !objects_.empty();
}

} // namespace actor_rdma::verbs::soft
