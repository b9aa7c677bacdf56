// SPDX-License-Identifier: Apache-2.0
// One traffic of a scenario in the simulation: it registers memory at both ends, connects, submits batches as
// its depth, its rate and its end allow, looks at what came of them, and starts again when a process that it
// needs was restarted. Everything that it sees goes into the facts.
#pragma once

#include "drill/facts.hpp"
#include "drill/scenario.hpp"
#include "drill/sim/cluster.hpp"
#include "drill/sim/memory_pool.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace actor_rdma::drill {

class flow {
public:
  struct place {
    sim::cluster* in = nullptr;
    sim::machine* from = nullptr;
    sim::machine* to = nullptr;
    run_facts* facts = nullptr;
    const base::time_point* zero = nullptr;        ///< of the scenario's time
    bool moves_payload = true;                     ///< some device of `from` does
    std::function<void()> ended;                   ///< after each batch
    std::function<void(std::string)> cannot_go_on; ///< why the run has to end
  };
  flow(traffic_spec spec, place where, bool is_after_traffic = false);

  /// Memory and connection; ready() some time later.
  void prepare();
  bool is_ready() const noexcept { return state_ == state::ready; }
  /// From now on it submits.
  void begin();
  /// Submits nothing more.
  void finish() { finished_ = true; }
  /// Nothing is open and nothing more will be.
  bool is_over() const;
  bool has_open() const noexcept { return !open_.empty(); }
  std::uint64_t ended() const noexcept { return ended_; }

  void batch_ended(const std::shared_ptr<actors::batch_state>& batch);
  /// A program took this from its inbox; nothing happens if it is not of this traffic.
  void notice_taken(const sim::machine& by, const received_notice& what);
  /// It submits nothing more, and hears the end of what is open.
  void host_stopping(const sim::machine& which);
  void host_killed(const sim::machine& which);
  /// The remote memory is deregistered, or registered again when as often as that was called for.
  void revoke(bool on);
  void host_restarted(const sim::machine& which);
  /// The NIC says that a delayed packet landed here.
  void landed_late(std::uint64_t addr);
  /// Looks at all free memory and at the status of every transfer once more.
  void look_again();

  const traffic_spec& spec() const noexcept { return spec_; }
  const sim::machine& from() const noexcept { return *where_.from; }
  const sim::machine& to() const noexcept { return *where_.to; }

private:
  enum class state : std::uint8_t { idle, preparing, connecting, ready };
  struct item {
    std::size_t fact;
    std::size_t local;
    std::size_t remote;
  };
  struct open_batch {
    std::shared_ptr<actors::batch_state> batch;
    std::vector<item> items;
    std::uint64_t remote_life;
    std::optional<std::size_t> notice; ///< its fact
  };
  struct sent_notice {
    std::size_t fact;
    std::vector<item> items;
    std::uint64_t remote_life;
    base::time_point readable_until = base::time_never; ///< then its memory belongs to others
  };
  /// Memory that late packets or a late notice may still concern is used again after so long.
  static constexpr base::duration keep_out_time = std::chrono::seconds{5};

  base::duration now() const { return where_.in->now() - *where_.zero; }
  void after(base::duration delay, void (flow::*what)());
  void make_memory(bool is_remote);
  void memory_made(bool is_remote, const std::shared_ptr<actors::local_buffer>& what);
  void follow_revocations();
  void keys_changed(std::shared_ptr<actors::local_buffer> to);
  void connect();
  void pump();
  void rate_allows();
  bool may_submit() const;
  bool submit_one();
  std::size_t next_batch() const;
  std::vector<transfer_request> make_requests(open_batch& made, std::size_t n);
  notice next_notice() const;
  void notice_submitted(open_batch& of, const std::string& name);
  void notice_told(const open_batch& of);
  void readable_until(const open_batch& of, base::time_point until);
  void end_item(const open_batch& of, const item& what, std::size_t index);
  static std::optional<std::string> wrong_in_receipt(const transfer_result& r,
                                                     const std::optional<transfer_receipt>& told);
  void give_back_later(std::size_t slot, std::uint64_t number);
  void check_slot(const memory_pool& pool, std::size_t slot, const char* whose);
  memory_pool& data_source() { return spec_.op == operation::write ? local_ : remote_; }
  memory_pool& data_target() { return spec_.op == operation::write ? remote_ : local_; }

  traffic_spec spec_;
  place where_;
  bool is_after_traffic_;
  state state_ = state::idle;
  bool begun_ = false;
  bool finished_ = false;
  bool waits_ = false;     ///< for its rate
  std::uint64_t life_ = 0; ///< counts what made older callbacks stale
  std::uint64_t local_life_ = 0;
  std::uint64_t remote_life_ = 0;
  memory_pool local_;
  memory_pool remote_;
  bool local_is_asked_for_ = false; ///< of a process that lives; forgotten when it dies
  bool remote_is_asked_for_ = false;
  std::shared_ptr<actors::local_buffer> remote_buffer_; ///< null: there is none, or it is revoked
  std::uint64_t revocations_ = 0;                       ///< of this life, that are not over
  bool follows_revocations_ = false;                    ///< a call is out
  actors::peer_ref peer_;
  std::uint64_t submitted_ = 0;
  std::uint64_t ended_ = 0;
  base::duration next_allowed_{};
  std::unordered_map<const actors::batch_state*, open_batch> open_; ///< looked up, never walked in order
  std::unordered_map<std::string, sent_notice> notices_;            ///< by name
  std::vector<open_batch> past_;
};

} // namespace actor_rdma::drill
