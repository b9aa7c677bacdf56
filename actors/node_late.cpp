// SPDX-License-Identifier: Apache-2.0
// Devices that appear after the start: the list of devices is read now and then, and what is new in it is
// opened and taken in like a lost one that is back: memory first, then its port, then the rails. A device
// that was there before is its own actor's affair, however it comes back.
#include "actors/node.hpp"
#include "actors/port_name.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace actor_rdma::actors {

namespace {

/// Of the verbs executor: no device has this number.
constexpr std::uint32_t look_queue = 0xffff;

} // namespace

/// One reading of the list.
struct node::look_round {
  device_recipe recipe; ///< of any device
  std::vector<std::string> known;
  std::vector<std::string> only;
  std::vector<open_device> opened;
  std::string failure;

  /// Blocks.
  void run() {
    const auto list = recipe.table->list_devices();
    if (!list)
      return; // none at all: those that were there know it themselves
    for (auto* const handle : *list) {
      const std::string device = recipe.table->get_device_name(handle);
      for (const auto port : wanted_ports(device, only))
        if (!look_at(handle, {device, port}))
          return;
    }
  }

  /// False when there is room for no more.
  bool look_at(ibv_device* handle, const port_name& what) {
    const auto name = what.text();
    if (std::find(known.begin(), known.end(), name) != known.end())
      return true;
    if (recipe.number >= recipe.devices) {
      failure = fmt::format("{} appeared, and there are {} devices already", name, recipe.number);
      return false;
    }
    auto made = open_device::open(*recipe.table, handle, recipe.probe, recipe.number, recipe.devices,
                                  recipe.cq_capacity, what.port);
    if (!made) {
      failure = fmt::format("{} appeared and cannot be opened: {}", name, made.error().to_string());
      return true;
    }
    ++recipe.number;
    opened.push_back(std::move(*made));
    return true;
  }
};

void node::look_for_devices() {
  if (stage_ != stage::running)
    return;
  auto round = std::make_shared<look_round>();
  round->recipe = where_.devices.front().object->recipe();
  round->recipe.number = where_.devices.size();
  round->only = config_.only_devices;
  for (const auto& d : where_.devices)
    round->known.push_back(d.object->name());
  env().run_slow(
      look_queue, [round] { round->run(); },
      [self = shared(this), round] { self->guarded([&] { self->looked(*round); }); });
}

void node::looked(look_round& found) {
  if (stage_ != stage::running)
    return env().run_slow(
        look_queue,
        [opened = std::make_shared<std::vector<open_device>>(std::move(found.opened))] { opened->clear(); },
        [] {});
  if (std::exchange(last_look_failure_, found.failure) != found.failure && !found.failure.empty())
    note(observe::event_kind::attempt_failed, found.failure, base::level::warn);
  for (auto& d : found.opened)
    take_in(std::move(d));
  env().arm(env().now() + config_.device_poll, *this, look_token);
}

void node::take_in(open_device&& found) {
  const auto number = where_.devices.size();
  auto& lane = next_lane();
  auto object = std::make_shared<device>(lane, config_, watch_, static_cast<std::uint16_t>(number),
                                         std::move(found), true);
  observe::event e;
  e.at = env().now();
  e.kind = observe::event_kind::device_opened;
  e.subject = config_.node + "/" + object->name();
  e.detail = "it appeared after the start";
  e.value = 1;
  watch_.emit(std::move(e), base::level::info);
  device_memory m;
  m.open = object->first_opening();
  m.probe_rkey = m.open->probe_rkey;
  m.told = false;
  memory_.push_back(std::move(m));
  ports_.emplace_back();
  ports_.back().device = object->name();
  port_known_.push_back(true); // nobody waits for it: it is published when it serves
  for (const auto& [id, b] : buffers_)
    b->parts.push_back(std::make_shared<buffer_part>());
  const auto handle = launch(object);
  where_.devices.push_back({object, handle, &lane});
  caf::anon_send(handle, subscribe{me()});
  for (const auto& [address, p] : peers_)
    caf::anon_send(p.handle, device_added{object, handle, &lane});
  for (const auto& [who, g] : guests_)
    caf::anon_send(g.handle, device_added{object, handle, &lane});
  reconcile(number);
}

} // namespace actor_rdma::actors
