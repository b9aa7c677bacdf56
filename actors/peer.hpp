// SPDX-License-Identifier: Apache-2.0
// A node that we dialled: the control link to it, its published memory, the endpoints on every rail to it,
// and the queue of work for it. A lost link is dialled again at once; the same incarnation goes on
// undisturbed, another incarnation or a refusal means that the one we knew is dead, and everything that
// addressed it fails. The peer object outlives incarnations: after a restart of the node the next submit uses
// the new one.
#pragma once

#include "actors/endpoint.hpp"
#include "actors/lane_object.hpp"
#include "actors/machines.hpp"
#include "actors/messages.hpp"
#include "actors/notice_outbox.hpp"
#include "actors/observer.hpp"
#include "actors/settings.hpp"
#include "actors/work_queue.hpp"
#include "bootstrap/channel.hpp"

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace actor_rdma::actors {

/// What other threads may see of a peer: its memory as of now.
class peer_view {
public:
  std::shared_ptr<const remote_memory> memory() const { return memory_.load(); }
  void set(std::shared_ptr<const remote_memory> now) { memory_.store(std::move(now)); }

private:
  std::atomic<std::shared_ptr<const remote_memory>> memory_;
};

class peer final : public lane_object,
                   public deadline_sink,
                   public work_queue_owner,
                   public notice_outbox_owner {
public:
  struct device_ref {
    std::shared_ptr<device> object;
    caf::actor handle;
    lane_env* env = nullptr;
  };
  struct place {
    std::string address;
    std::uint32_t relation = 0; ///< our number for this address, in every hello to it
    bootstrap::incarnation self = 0;
    bootstrap::channel* channel = nullptr;
    caf::actor node;
    std::vector<device_ref> devices;
    std::function<void(const std::shared_ptr<batch_state>&)> batch_done; ///< on the lane; must not block
    std::shared_ptr<peer_view> view;
  };
  peer(lane_env& env, const settings& config, observer& watch, place where);
  ~peer() override;

  /// "node-a>10.0.0.2:7000"; fixed, any thread.
  const std::string& name() const noexcept { return title_; }
  caf::behavior make_behavior() override;
  void on_fault(const std::string& what) override;
  void on_deadline(std::uint64_t token) override;
  void batch_ended(const std::shared_ptr<batch_state>& ended) noexcept override;
  void keys_refused() override;
  void source_barred(const refusal_budget::source& who, base::time_point now) override;
  void pair_avoided(const reach::pair& which, base::time_point retry_at) override;
  void pair_works(const reach::pair& which) override;
  void send_notice(bootstrap::notice&& what, bool repeated) override;
  void notice_ended(const std::shared_ptr<batch_state>& batch, notice_status how, base::reason cause,
                    std::uint64_t sequence) override;

private:
  /// Tokens of deadlines: these, else the serial of a batch.
  static constexpr std::uint64_t dial_token = 0;
  static constexpr std::uint64_t refresh_due_token = UINT64_MAX;
  static constexpr std::uint64_t reach_token = UINT64_MAX - 1;

  void handle(import_peer& m);
  void handle(device_added& m);
  void handle(dial_started& m);
  void handle(link_opened& m);
  void handle(link_closed& m);
  void handle(control& m);
  void handle(submit& m);
  void salvage(submit& m);
  void salvage(import_peer& m);
  void handle(cancel& m);
  void handle(cancel_buffer& m);
  void handle(keys_made& m);
  void handle(ended& m);
  void handle(suspected& m);
  void handle(slot_state_changed& m);
  void handle(remote_fence_settled& m);
  void handle(rail_refused& m);
  void handle(stop& m);
  void handle(stopped& m);
  void handle(snapshot_request& m);

  // session
  void raise(session_event event, std::string cause);
  void perform(session_action action);
  void dial();
  void greet();
  void drop_link();
  void turned_away(bootstrap::incarnation by);
  void on_hello(const bootstrap::message& m);
  void arm_dial_timer(base::duration wait);
  void stop_dial_timer();
  void publish_missed(std::string how);
  void on_publish(const bootstrap::publish& m);
  void declare_dead();
  void tell_endpoints(bool dead);
  void answer_imports(const base::expected<peer_ref>& outcome);
  void send(bootstrap::body what);
  void make_endpoints();
  void make_endpoint(std::size_t ours, std::size_t theirs);
  void tell_without_rail(const std::string& device, std::uint8_t layer,
                         const std::vector<std::uint8_t>& others, const std::string& other_node);
  base::expected<peer_ref> reference();

  // work
  void pump();
  void give_back(chunk& unposted);
  void recover();
  /// In the midst of something else: a fault is told, and that is all.
  template <class Body>
  bool done_or_told(Body&& body) noexcept {
    const bool was_recovering = std::exchange(recovering_, true);
    const bool good = guarded(std::forward<Body>(body));
    recovering_ = was_recovering;
    return good;
  }
  void due(std::uint64_t token);
  void give_up_notice(const std::shared_ptr<batch_state>& batch);
  void stop_batch(const std::shared_ptr<batch_state>& batch, transfer_status how, base::reason cause);
  void fence_stopped(const std::shared_ptr<batch_state>& batch);
  void batch_due(const std::shared_ptr<batch_state>& batch);
  void arm_batch(batch_state& batch, base::time_point when);
  void note(observe::event_kind kind, std::string detail, std::uint64_t value, base::level at,
            std::uint64_t trace = 0);
  void tell_failed(const batch_state& done);

  // memory that a device does not reach
  std::string describe(const reach::pair& which) const;
  void arm_reach();

  // revoked keys
  void ask_for_refresh();
  void refresh_answered(std::uint64_t token);
  void end_refresh() noexcept;

  // notices
  void data_in_place(const std::shared_ptr<batch_state>& batch);
  void notice_due(const std::shared_ptr<batch_state>& batch);
  void on_noticed(const bootstrap::noticed& m);

  const settings& config_;
  observer& watch_;
  place where_;
  const std::string title_;
  std::string name_; ///< of the peer node, once it has said hello
  recorded_machine<session_machine> machine_;
  std::string cause_;

  bootstrap::link_id link_ = 0;
  bootstrap::incarnation owner_ = 0;
  std::shared_ptr<const remote_memory> memory_;
  std::vector<std::function<void(base::expected<peer_ref>)>> imports_;
  base::error last_refusal_{base::reason::none};
  std::uint32_t dial_failures_ = 0;
  bool dialling_ = false; ///< a dial or a greeting is under way
  bool ever_connected_ = false;
  std::optional<bootstrap::message> early_publish_; ///< came before its hello
  deadline_id dial_timer_ = deadline_id::none;      ///< of the next dial, of hello, or of what follows hello
  std::uint64_t refresh_token_ = 0;                 ///< of the ping whose pong is waited for; 0: none
  std::uint64_t last_token_ = 0;
  bool refresh_again_ = false; ///< a key was refused after that ping had gone out
  deadline_id refresh_timer_ = deadline_id::none;
  deadline_id reach_timer_ = deadline_id::none;
  base::time_point reach_due_{}; ///< of that timer

  std::vector<std::pair<std::size_t, std::size_t>> rails_; ///< our device and the peer's, by endpoint
  std::set<std::string> without_rail_;                     ///< devices of which that was told
  std::vector<std::shared_ptr<endpoint>> endpoints_;
  std::vector<caf::actor> endpoint_handles_;
  std::map<std::uint32_t, std::size_t> by_number_;
  std::vector<caf::actor> slots_;    ///< QPs by slot
  std::uint32_t endpoints_left_ = 0; ///< while stopping

  work_queue queue_;
  notice_outbox outbox_;
  std::uint64_t features_ = 0; ///< the peer's, of its last hello
  /// The endpoints that it has, of a hello that the endpoints have not been told of yet.
  std::optional<std::vector<std::uint32_t>> held_there_;
  chunk_pool chunks_;
  bool recovering_ = false;
  caf::actor stop_asked_by_;
  bool stopping_ = false;
};

} // namespace actor_rdma::actors
