// SPDX-License-Identifier: Apache-2.0
// What a peer publishes, and the rails that follow from it.
#include "actors/peer.hpp"
#include "actors/port_path.hpp"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace actor_rdma::actors {

namespace {

/// A peer's segment is input: what the data path indexes must be there.
const char* fault_of(const bootstrap::segment& s) noexcept {
  if (s.devices.empty())
    return "it publishes no device";
  if (s.probe_rkeys.size() != s.devices.size())
    return "a device has no probe key";
  if (s.buffers.size() > 0xffff)
    return "it publishes more than 65535 buffers";
  for (const auto& b : s.buffers)
    if (b.rkeys.size() != s.devices.size() || b.addr + b.length < b.addr)
      return "a buffer has not one key per device, or wraps";
  return nullptr;
}

} // namespace

/// The next link begins with it.
void peer::publish_missed(std::string how) {
  last_refusal_ = base::error{base::reason::protocol, "bootstrap", {}, {}, where_.address, std::move(how)};
  note(observe::event_kind::rejected, last_refusal_.to_string(), 0, base::level::warn);
  drop_link();
}

void peer::on_publish(const bootstrap::publish& m) {
  if (const auto* fault = fault_of(m.published)) {
    last_refusal_ = base::error{base::reason::protocol, "bootstrap", {}, {}, where_.address, fault};
    answer_imports(base::fail(last_refusal_));
    where_.channel->close(link_);
    return;
  }
  stop_dial_timer();
  if (memory_ && m.published.version < memory_->published.version)
    return; // overtaken by a newer one
  memory_ = make_remote_memory(owner_, m.published, features_);
  where_.view->set(memory_);
  queue_.published(memory_);
  make_endpoints();
  tell_endpoints(false);
  answer_imports(reference());
  pump(); // it may have waited for these keys
}

void peer::handle(device_added& m) {
  if (where_.devices.empty() || where_.devices.back().object != m.object)
    where_.devices.push_back({m.object, m.handle, m.env});
  if (!memory_ || stopping_)
    return;
  make_endpoints();
  tell_endpoints(false);
}

/// One endpoint per rail, those of devices that come later too.
void peer::make_endpoints() {
  std::vector<std::uint8_t> ours;
  std::vector<std::uint8_t> theirs;
  for (const auto& d : where_.devices)
    ours.push_back(d.object->link_layer());
  for (const auto& d : memory_->published.devices)
    theirs.push_back(link_layer_of(d));
  for (const auto& [mine, other] : missing_rails(ours, theirs, rails_))
    make_endpoint(mine, other);
  for (std::size_t i = 0; i < ours.size(); ++i)
    tell_without_rail(config_.node + "/" + where_.devices[i].object->name(), ours[i], theirs, name_);
  for (std::size_t i = 0; i < theirs.size(); ++i)
    tell_without_rail(name_ + "/" + memory_->published.devices[i].device, theirs[i], ours, config_.node);
}

/// Ports of different link layers cannot reach each other, so there is no rail; each such device is told
/// once.
void peer::tell_without_rail(const std::string& device, std::uint8_t layer,
                             const std::vector<std::uint8_t>& others, const std::string& other_node) {
  if (std::find(others.begin(), others.end(), layer) != others.end() || !without_rail_.insert(device).second)
    return;
  note(observe::event_kind::no_rail,
       fmt::format("{} has none: its link layer is {}, and {} has no such device", device,
                   link_layer_text(layer), other_node),
       0, base::level::warn);
}

/// Once it has published: whoever is told that it is there must be able to send something to it.
base::expected<peer_ref> peer::reference() {
  if (!rails_.empty())
    return peer_ref{me(), where_.view};
  return base::fail(base::error{base::reason::unsupported,
                                "transport",
                                {},
                                {},
                                where_.address,
                                "no device of ours has the link layer of one of the peer's"});
}

void peer::make_endpoint(std::size_t ours, std::size_t theirs) {
  const auto& dev = where_.devices[ours];
  const auto& their = memory_->published.devices[theirs];
  endpoint::place p;
  p.name = fmt::format("{}/{}>{}/{}", config_.node, dev.object->name(), name_, their.device);
  p.number = static_cast<std::uint32_t>(endpoints_.size() + 1);
  p.peer_device = their.device;
  p.peer_device_number = static_cast<std::uint16_t>(theirs);
  p.qps = config_.qps_per_endpoint;
  const auto name = std::make_shared<const std::string>(p.name);
  const auto& spare = config_.spare_devices;
  const bool is_spare = std::find(spare.begin(), spare.end(), dev.object->name()) != spare.end();
  for (std::uint32_t k = 0; k < config_.qps_per_endpoint; ++k) {
    p.slots.push_back(queue_.add_slot(dev.object->number(), p.peer_device_number, name, is_spare));
    slots_.emplace_back();
  }
  p.self = where_.self;
  p.channel = where_.channel;
  p.owner = me();
  p.device_handle = dev.handle;
  by_number_[p.number] = endpoints_.size();
  rails_.emplace_back(ours, theirs);
  endpoints_.push_back(std::make_shared<endpoint>(*dev.env, config_, watch_, dev.object, std::move(p)));
  endpoint_handles_.push_back(launch(endpoints_.back()));
}

} // namespace actor_rdma::actors
