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
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace actor_rdma::sim {

struct node_options {
  std::string name = "a";
  std::size_t devices = 2;
  actors::settings config;
  verbs::soft::device_options nic;
  std::vector<verbs::soft::device_options> nics; ///< if any: one per device, instead of the two above
  std::uint32_t cq_entries = 1u << 13;           ///< of each device's CQ
};

class cluster;

/// One node of the cluster.
class machine : public observe::event_sink {
public:
  machine(cluster& in, const node_options& how);
  ~machine() override;
  /// Attaches the devices and listens. Errors: as the fabric and the devices say.
  base::expected<void> start();

  /// Registers and publishes fresh memory; runs the world until it is done.
  std::shared_ptr<actors::local_buffer> memory(std::size_t length, bool publish = true);
  void deregister(const std::shared_ptr<actors::local_buffer>& what);
  /// Connects; runs the world until the peer's memory is known.
  base::expected<actors::peer_ref> connect(const machine& peer);
  base::expected<std::shared_ptr<actors::batch_state>>
  submit(const actors::peer_ref& to, const std::vector<transfer_request>& what,
         base::duration deadline = std::chrono::seconds{30}, std::optional<notice> with = std::nullopt);
  /// A notice behind nothing.
  base::expected<std::shared_ptr<actors::batch_state>>
  notify(const actors::peer_ref& to, notice what, base::duration deadline = std::chrono::seconds{30});
  void on_event(const observe::event& what) override;
  /// Ends everything in good order; true when nothing was left, and nothing had gone wrong inside.
  bool stop();
  std::size_t internal_faults = 0; ///< that the test brings about; more or fewer make stop() false

  /// The process is gone at once, as by SIGKILL: actors, QPs and memory go without a word, links are reset.
  void kill();
  /// Ends in good order while the world goes on; `done` once with what is left, or never if it is killed
  /// first.
  void begin_stop(const std::string& cause, std::function<void(const std::vector<std::string>&)> done);
  /// A killed node again, as another process at the same address. Errors: as those of start().
  base::expected<void> restart();
  /// SIGSTOP and SIGCONT. The devices go on.
  void freeze(bool on);
  bool is_alive() const noexcept { return engine_ != nullptr; }
  bool is_frozen() const noexcept { return frozen_; }
  /// Counts its processes.
  std::uint64_t life() const noexcept { return life_; }
  /// As memory() and connect(), without running the world. An error, and `done` never called, if this process
  /// cannot have so much memory.
  base::expected<void>
  begin_memory(std::size_t length, bool publish,
               std::function<void(base::expected<std::shared_ptr<actors::local_buffer>>)> done);
  /// Deregisters, and tries again for as long as it takes. `done` once, or never if the process is gone
  /// first.
  void begin_deregister(const std::shared_ptr<actors::local_buffer>& what, const std::function<void()>& done);
  void begin_connect(const machine& peer, std::function<void(base::expected<actors::peer_ref>)> done);

  std::size_t count(observe::event_kind kind) const;
  actors::engine& engine() noexcept { return *engine_; }
  const std::string& name() const noexcept { return name_; }
  const std::string& address() const noexcept { return address_; }
  std::vector<observe::event> events;
  std::function<void(const observe::event&)> hear; ///< each event as well
  std::function<void(const std::shared_ptr<actors::batch_state>&)> batch_ended;
  /// The program that takes every notice in the moment in which it arrives. Without it they stay in the
  /// inbox.
  std::function<void(const received_notice&)> notice_arrived;

private:
  base::expected<void> boot(const std::string& address);
  base::expected<void> build(const std::string& address);
  void take_notices();

  cluster& in_;
  node_options how_;
  std::string name_;
  std::string address_;
  bool frozen_ = false;
  std::uint64_t life_ = 0;
  actors::lane_env* lane_ = nullptr; ///< the world's
  verbs::provider verbs_;            ///< the host's, watched for slow calls on the lane
  std::unique_ptr<verbs::soft::host> host_;
  std::unique_ptr<actors::engine> engine_;
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
};

class cluster {
public:
  explicit cluster(std::uint64_t seed);
  ~cluster();

  /// With options that are known to be good.
  machine& add(const node_options& how);
  /// The same with options of somebody else. Errors: as machine::start().
  base::expected<machine*> try_add(const node_options& how);
  actors::sim_world& world() noexcept { return *world_; }
  verbs::soft::fabric& fabric() noexcept { return *fabric_; }
  const verbs::soft::fabric& fabric() const noexcept { return *fabric_; }
  bootstrap::memory_network& network() noexcept { return *network_; }
  base::time_point now() const noexcept { return world_->now(); }
  /// Time of the first log entry of this kind, for the device if one is named.
  std::optional<verbs::soft::log_entry> first(verbs::soft::log_kind kind,
                                              const std::string& device = {}) const;
  std::vector<verbs::soft::log_entry> log() const;
  /// Hears of verbs calls that may block and were made on a lane.
  std::function<void(const std::string& what)> slow_call_on_lane;

private:
  friend class machine;
  std::unique_ptr<bootstrap::memory_network> network_;
  std::unique_ptr<actors::sim_world> world_;
  std::shared_ptr<verbs::soft::fabric> fabric_;
  std::vector<std::unique_ptr<machine>> machines_;
};

} // namespace actor_rdma::sim
