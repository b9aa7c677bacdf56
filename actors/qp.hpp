// SPDX-License-Identifier: Apache-2.0
// One queue pair of an endpoint: the ibv_qp of the present generation, the ledger of its WRs, its stall clock
// and its machine. It posts what the peer actor gives it, hands back every WR exactly once, and is the only
// one that may say that a generation can no longer touch our memory (local fence): after a CQE of any status,
// or after ibv_destroy_qp returned 0. Each generation is a new ibv_qp with a new number and a random PSN; a
// QP is never reset and used again.
#pragma once

#include "actors/device.hpp"
#include "actors/drain_rate.hpp"
#include "actors/lane_object.hpp"
#include "actors/ledger.hpp"
#include "actors/machines.hpp"
#include "actors/messages.hpp"
#include "actors/observer.hpp"
#include "actors/qp_connect.hpp"
#include "actors/settings.hpp"
#include "verbs/objects.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace actor_rdma::actors {

class qp final : public lane_object, public deadline_sink {
public:
  struct place {
    std::string name;        ///< "node-a/soft0>node-b/soft0#1"
    std::uint16_t index = 0; ///< in the endpoint
    slot_id slot = 0;        ///< at the peer actor
    bool initiator = true;   ///< posts work and probes; an acceptor's QP only serves
    caf::actor endpoint;
    caf::actor peer; ///< initiators only
  };
  qp(lane_env& env, const settings& config, observer& watch, std::shared_ptr<device> dev, place where);
  ~qp() override;

  caf::behavior make_behavior() override;
  void on_fault(const std::string& what) override;
  void on_deadline(std::uint64_t token) override;
  /// device -> QP: completions of this QP's WRs, oldest first.
  void on_completions(std::span<const ibv_wc> wcs);
  /// device -> QP: an async event that names this QP's number (IBV_EVENT_QP_FATAL and friends).
  void on_async(ibv_event_type type);

  std::uint32_t number() const noexcept { return number_; }
  /// It has an ibv_qp, or is about to.
  bool has_pair() const noexcept { return born_ != nullptr; }
  /// It has its place in the device's CQ.
  bool has_room() const noexcept { return indexed_; }
  /// Nothing is posted on it any more, and it could not be destroyed.
  bool refuses_to_go() const noexcept {
    return machine_.state() == qp_state::draining && born_ && born_->refused;
  }
  /// device -> QP: what refused to be destroyed has ended with the context.
  void on_context_closed();
  /// What it reserves there.
  static std::uint32_t room_of(const settings& config, bool initiator) noexcept {
    return initiator ? config.send_queue_depth + 2 : 2;
  }
  /// WRs of its send queue: work, and one for the probe.
  static std::uint32_t wrs_of(const settings& config, bool initiator) noexcept {
    return initiator ? config.send_queue_depth + 1 : 1;
  }
  /// Work of ours waits on it.
  bool is_busy() const noexcept { return where_.initiator && !ledger_.empty(); }
  breaker::silence silence_of_peer() const noexcept;
  qp_state state() const noexcept { return machine_.state(); }
  const std::string& name() const noexcept { return where_.name; }

private:
  static constexpr std::uint32_t probe_position = 0xffffffff; ///< in wr_id: no ledger entry, but the probe
  enum class timer : std::uint8_t { attempt, stall, path_fence, drain, destroy_again, probe, count };
  /// Why a PAUSED QP gets no work.
  struct pause_reasons {
    bool stalled = false;
    bool held = false;
    bool proving = false; ///< held no more, but not yet probed again
  };

  // messages
  void handle(post& m);
  void salvage(post& m);
  void handle(qp_begin& m);
  void handle(qp_connect& m);
  void handle(qp_hold& m);
  void handle(qp_fence& m);
  void handle(qp_probe& m);
  void handle(qp_rail_answers& m);
  void handle(fence_batch& m);
  void handle(snapshot_request& m);

  // machine
  void raise(qp_event event, std::string cause);
  void perform(qp_action action);
  void suspect();
  void withhold();
  void offer();
  void drain();
  void destroy();
  void abandon();
  /// No attempt is under way, and the end of the last one has been reported.
  bool is_idle() const noexcept { return machine_.state() == qp_state::rebuilding && !born_; }

  // verbs
  /// WRs of work that its send queue holds, of the ibv_qp that there is.
  std::uint32_t depth() const noexcept { return born_ ? std::max(born_->send_wrs, 1u) - 1 : 0; }
  std::uint32_t room() const noexcept { return depth() - ledger_.outstanding(); }
  void begin();
  void connect();
  void created(const std::shared_ptr<qp_incarnation>& born);
  void connected(const std::shared_ptr<qp_incarnation>& born);
  void destroyed(const std::shared_ptr<qp_incarnation>& gone);
  void abandon_with(const std::string& why);
  void refused_post(int error, std::size_t n, const ibv_send_wr* bad);
  bool post_probe();
  void probe_ended(ibv_wc_status status);

  // work
  void give_back(const slice& what, wr_end end) noexcept;
  void keep_ended(const slice& what, wr_end end) noexcept;
  void flush_ended();
  void send_ended();
  void reissue(offer_to to);
  // its silence
  void start_stall_clock();
  void progress_made(std::uint64_t bytes, std::uint32_t completions, base::time_point came);
  base::duration stall_limit() const noexcept;
  base::duration silence() const noexcept;
  base::duration silence_until_hung() const noexcept;
  base::duration silence_until_probe_lost() const noexcept;
  void check_stall();
  void judge_suspect();
  void judge_probe();
  bool put_off(timer which);
  void set_aside(bool aside) noexcept;
  void fenced_for_silence() noexcept;

  void report(qp_step step);
  void tell_slot(bool usable);
  void arm(timer which, base::duration in);
  void disarm(timer which);
  void note(observe::event_kind kind, std::string detail, std::uint64_t value, base::level at,
            std::uint64_t trace = 0);

  const settings& config_;
  observer& watch_;
  std::shared_ptr<device> device_;
  place where_;
  recorded_machine<qp_machine> machine_;
  std::string cause_;

  std::uint16_t device_index_ = 0; ///< in wr_id; ours from the first begin() until RETIRED
  bool indexed_ = false;
  std::uint32_t number_ = 0; ///< of the living ibv_qp, else 0
  std::uint16_t generation_ = 0;
  std::shared_ptr<qp_incarnation> born_;
  bool err_done_ = false; ///< the move to ERR has returned
  bool destroying_ = false;
  bool for_good_ = false;
  bool quarantined_ = false; ///< that it could not be destroyed has been told
  pause_reasons paused_;
  qp_connect peer_;

  ledger ledger_;
  std::uint32_t reissued_upto_ = 0; ///< ledger position: older ones have been issued elsewhere too
  chunk_pool chunks_;
  chunk_ptr ended_;
  std::vector<ended_slice> more_ended_; ///< what ended_ had no room for; has room for the send queue
  bool probe_out_ = false;
  int probing_for_ = -1; ///< sibling's index, or -1: for ourselves

  base::time_point last_progress_{};
  base::duration lost_at_progress_{};
  base::time_point probe_posted_{};
  base::duration lost_at_probe_{};
  base::time_point suspected_{};
  bool stall_rechecked_ = false;
  bool rail_answers_ = false;          ///< since it is suspect
  base::duration silence_at_answer_{}; ///< when it first did
  bool aside_ = false;                 ///< its bytes are not what the device is busy with
  drain_rate drains_;
  std::uint32_t patience_ = 1;    ///< times the stall limit; doubles with each fence for silence
  std::uint32_t works_since_ = 0; ///< completions since then
  std::uint32_t served_ = 0;      ///< completions of work of this generation

  deadline_id timers_[static_cast<std::size_t>(timer::count)]{};
  ibv_send_wr wrs_[chunk::capacity]{};
  ibv_sge sges_[chunk::capacity]{};
};

} // namespace actor_rdma::actors
