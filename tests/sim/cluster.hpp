// SPDX-License-Identifier: Apache-2.0
// Several nodes with their soft NICs and a control network, in one process and virtual time, all driven by
// one seed. Tests tell it what to transfer and what to break, and it checks in every run what must always
// hold: each transfer ends once, no byte lands in memory after its end was told, and every byte of a
// completed transfer is right.
#pragma once

#include "actors/engine.hpp"
#include "actors/sim_world.hpp"
#include "actors/submission.hpp"
#include "bootstrap/memory_channel.hpp"
#include "verbs/soft/fabric.hpp"

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace actor_rdma::sim {

struct node_options {
  std::string name = "a";
  std::size_t devices = 2;
  actors::settings config;
  verbs::soft::device_options nic;
};

class cluster;

/// One node of the cluster.
class machine : public observe::event_sink {
public:
  machine(cluster& in, const node_options& how);
  ~machine() override;

  /// Registers and publishes fresh memory; runs the world until it is done.
  std::shared_ptr<actors::local_buffer> memory(std::size_t length, bool publish = true);
  void deregister(const std::shared_ptr<actors::local_buffer>& what);
  /// Connects; runs the world until the peer's memory is known.
  base::expected<actors::peer_ref> connect(const machine& peer);
  base::expected<std::shared_ptr<actors::batch_state>>
  submit(const actors::peer_ref& to, const std::vector<transfer_request>& what,
         base::duration deadline = std::chrono::seconds{30});
  void on_event(const observe::event& what) override;
  /// Ends everything in good order; true when nothing was left.
  bool stop();

  std::size_t count(observe::event_kind kind) const;
  actors::engine& engine() noexcept { return *engine_; }
  const std::string& name() const noexcept { return name_; }
  const std::string& address() const noexcept { return address_; }
  std::vector<observe::event> events;

private:
  cluster& in_;
  std::string name_;
  std::string address_;
  std::unique_ptr<verbs::soft::host> host_;
  std::unique_ptr<actors::engine> engine_;
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
};

class cluster {
public:
  explicit cluster(std::uint64_t seed);
  ~cluster();

  machine& add(const node_options& how);
  actors::sim_world& world() noexcept { return *world_; }
  verbs::soft::fabric& fabric() noexcept { return *fabric_; }
  bootstrap::memory_network& network() noexcept { return *network_; }
  base::time_point now() const noexcept { return world_->now(); }
  /// Time of the first log entry of this kind, for the device if one is named.
  std::optional<verbs::soft::log_entry> first(verbs::soft::log_kind kind,
                                              const std::string& device = {}) const;
  std::vector<verbs::soft::log_entry> log() const;

private:
  friend class machine;
  std::unique_ptr<bootstrap::memory_network> network_;
  std::unique_ptr<actors::sim_world> world_;
  std::shared_ptr<verbs::soft::fabric> fabric_;
  std::vector<std::unique_ptr<machine>> machines_;
};

} // namespace actor_rdma::sim
