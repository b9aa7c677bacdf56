// SPDX-License-Identifier: Apache-2.0
// What a transport consists of, in the order in which it must go: engine, actor system, channel, devices,
// fabric. Shared by the handles that users keep, so that a handle which outlives its transport finds it gone
// and not freed.
#pragma once

#include "actors/engine.hpp"
#include "bootstrap/tcp_channel.hpp"
#include "transport/internal/completion_thread.hpp"
#include "transport/internal/lane_events.hpp"
#include "transport/transport.hpp"
#include "verbs/soft/fabric.hpp"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>

namespace actor_rdma::detail {

class core : public std::enable_shared_from_this<core> {
public:
  static base::expected<std::shared_ptr<core>> create(const options& opts);
  ~core();

  base::expected<std::shared_ptr<actors::local_buffer>> register_memory(void* addr, std::size_t length,
                                                                        bool publish);
  base::expected<void> deregister_memory(std::uint64_t id, deregister_policy policy);
  base::expected<std::shared_ptr<actors::peer_view>> import_peer(const std::string& address,
                                                                 base::duration timeout);
  base::expected<std::shared_ptr<actors::batch_state>> submit(const std::string& address,
                                                              const actors::peer_view& view,
                                                              std::span<const transfer_request> requests,
                                                              submit_options&& how);
  base::expected<std::shared_ptr<actors::batch_state>>
  notify(const std::string& address, const actors::peer_view& view, submit_options&& how);
  std::optional<received_notice> poll_notice() { return inbox_->take(); }
  void cancel(const std::string& address, const std::shared_ptr<actors::batch_state>& batch);
  std::vector<observe::actor_snapshot> snapshot(base::duration timeout) const;
  std::string last_words_about(const std::string& address) const;
  shutdown_report shutdown(base::duration timeout);

  const std::string& address() const noexcept { return address_; }
  const options& opts() const noexcept { return opts_; }
  bootstrap::incarnation self() const noexcept { return self_; }

private:
  explicit core(const options& opts);
  base::expected<void> start();
  base::expected<std::vector<actors::open_device>> open_devices();
  template <class Make>
  base::expected<std::shared_ptr<actors::batch_state>>
  hand_over(const std::string& address, const actors::peer_view& view, submit_options& how, Make&& make);
  void batch_done(const std::shared_ptr<actors::batch_state>& batch);
  base::expected<void> usable() const;
  void release();

  const options opts_;
  const bootstrap::incarnation self_;
  std::string address_;
  const std::uint32_t born_in_process_; ///< see process_generation()
  std::shared_ptr<verbs::soft::fabric> fabric_;
  std::unique_ptr<verbs::soft::host> host_;
  const verbs::provider* table_ = nullptr;
  lane_events lane_events_;
  caf::actor_system_config config_;
  std::unique_ptr<caf::actor_system> system_;
  std::shared_ptr<bootstrap::tcp_channel> channel_;
  std::unique_ptr<completion_thread> completions_;
  std::shared_ptr<actors::notice_inbox> inbox_; ///< outlives the rest, for what has arrived
  std::unique_ptr<actors::engine> engine_;
  std::atomic<std::uint32_t> open_batches_{0};
  std::atomic<std::uint64_t> next_trace_{1};
  std::atomic<bool> down_{false};

  mutable std::mutex mutex_;
  std::map<std::uint64_t, std::shared_ptr<actors::local_buffer>> buffers_;
  std::map<std::string, actors::peer_ref> peers_;
  std::mutex shutdown_mutex_;
  shutdown_report report_;
};

} // namespace actor_rdma::detail
