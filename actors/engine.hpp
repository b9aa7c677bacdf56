// SPDX-License-Identifier: Apache-2.0
// All actors of one node, built on given lanes, devices and control channel. The transport builds one on real
// lanes, the simulation several on simulated ones. It outlives its actors: settings, observer and objects
// stay until they have stopped.
#pragma once

#include "actors/node.hpp"
#include "actors/observer.hpp"
#include "actors/settings.hpp"
#include "bootstrap/channel.hpp"
#include "observe/events.hpp"
#include "observe/gather.hpp"
#include "verbs/provider.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace actor_rdma::actors {

class engine {
public:
  struct parts {
    settings config;
    bootstrap::incarnation self = 0;
    std::shared_ptr<observe::event_sink> events;
    std::vector<open_device> devices; ///< opened by the caller, who may block
    std::vector<lane_env*> lanes;     ///< at least one; must outlive the engine's actors
    std::shared_ptr<bootstrap::channel> channel;
    std::function<void(const std::shared_ptr<batch_state>&)> batch_done; ///< on a lane; must not block
    std::shared_ptr<notice_inbox> inbox; ///< for received notices; may outlive the engine
  };
  explicit engine(parts from);
  ~engine();
  engine(const engine&) = delete;
  engine& operator=(const engine&) = delete;

  // any thread; `done` runs on a lane
  void register_memory(std::uint64_t addr, std::uint64_t length, bool published,
                       std::function<void(base::expected<std::shared_ptr<local_buffer>>)> done);
  void deregister_memory(std::shared_ptr<local_buffer> buffer, bool refuse_if_used, base::duration patience,
                         std::function<void(base::expected<void>)> done);
  void import_peer(const std::string& address, std::function<void(base::expected<peer_ref>)> done);
  static void submit_to(const peer_ref& peer, std::shared_ptr<batch_state> batch);
  static void cancel_at(const peer_ref& peer, std::shared_ptr<batch_state> batch);
  std::shared_ptr<observe::snapshot_gather> snapshot() const;
  /// Ends everything; `done` once, with what could not be released. The channel is not stopped.
  void stop(const std::string& cause, std::function<void(std::vector<std::string>)> done);

  notice_inbox& inbox() noexcept { return *inbox_; }
  const buffer_view& buffers() const noexcept { return *view_; }
  const settings& config() const noexcept { return config_; }
  bootstrap::incarnation self() const noexcept { return self_; }
  bootstrap::channel& channel() noexcept { return *channel_; }

private:
  class link_router;

  const settings config_;
  const bootstrap::incarnation self_;
  observer watch_;
  std::shared_ptr<bootstrap::channel> channel_;
  std::unique_ptr<link_router> router_;
  std::shared_ptr<buffer_view> view_;
  std::shared_ptr<notice_inbox> inbox_;
  std::vector<std::shared_ptr<device>> devices_;
  std::shared_ptr<node> node_;
  caf::actor node_handle_;
};

} // namespace actor_rdma::actors
