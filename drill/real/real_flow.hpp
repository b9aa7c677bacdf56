// SPDX-License-Identifier: Apache-2.0
// One traffic of a scenario in real time: the conductor decides what is sent when, fills and compares the
// memory of both ends, which it has mapped, and lets the host's process submit it. The rules are those of the
// simulation's flow: as its depth, rate and end allow, and again with fresh memory after a restart.
#pragma once

#include "drill/facts.hpp"
#include "drill/real/mapped_memory.hpp"
#include "drill/real/real_host.hpp"
#include "drill/scenario.hpp"
#include "drill/sim/memory_pool.hpp"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace actor_rdma::drill {

class real_flow {
public:
  struct place {
    event_loop* loop = nullptr;
    real_host* from = nullptr;
    real_host* to = nullptr;
    run_facts* facts = nullptr;
    const base::time_point* zero = nullptr; ///< of the scenario's time
    std::uint64_t key = 0;                  ///< of its two memories: this and the next number
    std::uint64_t first_batch = 0;          ///< its batches are numbered from here
    std::function<std::string()> dial;      ///< where `to` is reached
    /// By which rail so many bytes of a transfer went, if its process knows.
    std::function<void(const std::string&, std::uint64_t)> carried;
    std::function<void()> ended; ///< after each batch
  };
  real_flow(traffic_spec spec, place where, bool is_after_traffic);

  /// Before any process is started, which inherits the descriptors.
  base::expected<void> make_memory();
  void add_descriptors_of(const real_host& host, std::vector<int>& to) const;
  /// Registers memory at both ends, has_memory() some time later.
  void prepare();
  bool has_memory() const noexcept { return registered_ == 2; }
  void connect();
  bool is_ready() const noexcept { return state_ == state::ready; }
  void begin();
  void finish() { finished_ = true; }
  bool is_over() const;
  bool has_open() const noexcept { return !open_.empty(); }
  std::uint64_t ended() const noexcept { return ended_; }
  bool owns(std::uint64_t batch) const;

  void batch_ended(std::uint64_t batch, base::time_point at, const nlohmann::json& results);
  /// It submits nothing more, and hears the end of what is open.
  void host_stopping(const real_host& which);
  /// Batches that its process has taken and not ended.
  std::size_t accepted_open() const;
  void host_killed(const real_host& which);
  void host_restarted(const real_host& which);
  /// The remote memory is deregistered, or registered again when as often as that was called for.
  void revoke(bool on);
  /// Its final status was another one than that which was told.
  void changed(std::uint64_t batch, std::size_t index, transfer_status status);
  /// Looks at all free memory, and puts what is still open among the facts.
  void look_again();

  const traffic_spec& spec() const noexcept { return spec_; }
  const std::string& last_error() const noexcept { return last_error_; }

private:
  enum class state : std::uint8_t { idle, preparing, connecting, ready };
  struct item {
    transfer_fact fact;
    std::size_t local;
    std::size_t remote;
  };
  struct open_batch {
    std::vector<item> items;
    std::uint64_t remote_life = 0;
    base::time_point submitted;
    bool is_accepted = false; ///< its process has said so
  };

  base::duration scenario_time(base::time_point t) const { return t - *where_.zero; }
  base::duration now() const { return scenario_time(where_.loop->now()); }
  void after(base::duration delay, void (real_flow::*what)());
  void prepare_end(real_host& at, bool is_remote);
  void follow_revocations();
  void pump();
  void rate_allows();
  bool may_submit() const;
  bool submit_one();
  void refused(std::uint64_t batch);
  std::size_t next_batch() const;
  void end_item(open_batch& of, item& what, base::time_point at, const nlohmann::json& result);
  void give_back_later(std::size_t slot, std::uint64_t number);
  void check_slot(const memory_pool& pool, std::size_t slot, const char* whose);
  std::uint64_t remote_address(std::size_t slot) const;

  traffic_spec spec_;
  place where_;
  bool is_after_traffic_;
  state state_ = state::idle;
  bool begun_ = false;
  bool finished_ = false;
  bool waits_ = false;     ///< for its rate
  std::uint64_t life_ = 0; ///< counts what made older callbacks stale
  std::uint64_t remote_life_ = 0;
  mapped_memory local_map_;
  mapped_memory remote_map_;
  memory_pool local_;
  memory_pool remote_;
  std::uint64_t remote_base_ = 0; ///< address of the remote memory in its process
  std::uint64_t revocations_ = 0; ///< of this life of `to`, that are not over
  int registered_ = 0;
  bool may_connect_ = false;    ///< as soon as it has memory again
  std::uint64_t submitted_ = 0; ///< transfers that were accepted
  std::uint64_t next_number_ = 0;
  std::uint64_t next_open_ = 0;
  std::uint64_t ended_ = 0;
  base::duration next_allowed_{};
  std::map<std::uint64_t, open_batch> open_;
  std::map<std::uint64_t, std::size_t> past_; ///< first fact of each batch
  std::string last_error_;
};

} // namespace actor_rdma::drill
