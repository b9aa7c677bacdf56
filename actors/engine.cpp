// SPDX-License-Identifier: Apache-2.0
// Spawning of a node's actors and the way into them from outside.
#include "actors/engine.hpp"

#include "base/log.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace actor_rdma::actors {

namespace {

/// Ledgers, queues and credit count with one depth: the device with the shortest send queues bounds it.
settings fitted(settings config, const std::vector<open_device>& devices) {
  for (const auto& d : devices) {
    const auto fits = std::bit_floor(std::max(2u, d.max_send_wrs) - 1); // one more is for the probe
    if (fits >= config.send_queue_depth)
      continue;
    base::log(base::level::warn, "device", "{} takes {} WRs of one QP: send queues have {} instead of {}",
              d.recipe.name, d.max_send_wrs, fits, config.send_queue_depth);
    config.send_queue_depth = fits;
  }
  return config;
}

} // namespace

/// Carries what happens on links from the channel's thread to the node actor.
class engine::link_router final : public bootstrap::channel_handler {
public:
  void to(caf::actor node) { node_ = std::move(node); }
  void on_accepted(bootstrap::link_id link, const std::string& peer_address) override {
    caf::anon_send(node_, link_opened{link, true, peer_address});
  }
  void on_dialled(bootstrap::link_id link) override { caf::anon_send(node_, link_opened{link, false, {}}); }
  void on_message(bootstrap::link_id link, bootstrap::message&& what) override {
    caf::anon_send(node_, control{link, std::move(what)});
  }
  void on_closed(bootstrap::link_id link, const base::error& why) override {
    caf::anon_send(node_, link_closed{link, why});
  }

private:
  caf::actor node_;
};

engine::engine(parts from)
    : config_(fitted(std::move(from.config), from.devices)), self_(from.self), watch_(std::move(from.events)),
      channel_(std::move(from.channel)), router_(std::make_unique<link_router>()),
      view_(std::make_shared<buffer_view>()),
      inbox_(from.inbox ? std::move(from.inbox) : std::make_shared<notice_inbox>(config_.notice_inbox)) {
  node::place p;
  p.self = self_;
  p.channel = channel_.get();
  p.lanes = from.lanes;
  p.batch_done = std::move(from.batch_done);
  p.view = view_;
  p.inbox = inbox_;
  for (std::size_t i = 0; i < from.devices.size(); ++i) {
    auto& lane = *from.lanes[i % from.lanes.size()];
    devices_.push_back(std::make_shared<device>(lane, config_, watch_, static_cast<std::uint16_t>(i),
                                                std::move(from.devices[i])));
    p.open.push_back(devices_.back()->first_opening());
    p.devices.push_back({devices_.back(), launch(devices_.back()), &lane});
  }
  node_ = std::make_shared<node>(*from.lanes.front(), config_, watch_, std::move(p));
  node_handle_ = launch(node_);
  router_->to(node_handle_);
  channel_->start(*router_);
}

engine::~engine() {
  channel_->stop(); // it must not call the router any more
}

void engine::register_memory(std::uint64_t addr, std::uint64_t length, bool published,
                             std::function<void(base::expected<std::shared_ptr<local_buffer>>)> done) {
  caf::anon_send(node_handle_, register_buffer{addr, length, published, std::move(done)});
}

void engine::deregister_memory(std::shared_ptr<local_buffer> buffer, bool refuse_if_used,
                               base::duration patience, std::function<void(base::expected<void>)> done) {
  caf::anon_send(node_handle_,
                 deregister_buffer{std::move(buffer), refuse_if_used, patience, std::move(done)});
}

void engine::import_peer(const std::string& address, std::function<void(base::expected<peer_ref>)> done) {
  caf::anon_send(node_handle_, actors::import_peer{address, std::move(done)});
}

void engine::submit_to(const peer_ref& peer, std::shared_ptr<batch_state> batch) {
  caf::anon_send(peer.handle, submit{std::move(batch)});
}

void engine::cancel_at(const peer_ref& peer, std::shared_ptr<batch_state> batch) {
  caf::anon_send(peer.handle, cancel{std::move(batch)});
}

std::shared_ptr<observe::snapshot_gather> engine::snapshot() const {
  auto into = std::make_shared<observe::snapshot_gather>();
  snapshot_request{into}.pass_on(node_handle_, config_.node);
  return into;
}

void engine::stop(const std::string& cause, std::function<void(std::vector<std::string>)> done) {
  node_->on_stopped = std::move(done); // before the message; read by the node when it handles it
  caf::anon_send(node_handle_, actors::stop{cause, caf::actor{}});
}

} // namespace actor_rdma::actors
