// SPDX-License-Identifier: Apache-2.0
// Our side of one rail: a set of QPs between one of our devices and one of the peer's. It drives the QPs
// through their generations (begin, exchange numbers, connect, probe), backs off between attempts without
// ever giving up, and settles the remote fence of every generation that was given up: retire goes to the peer
// as soon as a QP starts to drain. The same class serves both ends; the side that opened the endpoint posts
// work on it, the other one only answers.
#pragma once

#include "actors/device.hpp"
#include "actors/lane_object.hpp"
#include "actors/machines.hpp"
#include "actors/messages.hpp"
#include "actors/observer.hpp"
#include "actors/settings.hpp"
#include "bootstrap/channel.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace actor_rdma::actors {

class qp;

class endpoint final : public lane_object, public deadline_sink {
public:
  struct place {
    std::string name;         ///< "node-a/soft0>node-b/soft1"
    std::uint32_t number = 0; ///< the initiator's name for it
    bool initiator = true;
    std::string peer_device;
    std::uint16_t peer_device_number = 0; ///< initiators: position in the peer's segment
    std::vector<slot_id> slots;           ///< initiators: one per QP
    std::uint32_t qps = 1;
    bootstrap::incarnation self = 0;
    bootstrap::channel* channel = nullptr; ///< outlives every endpoint
    caf::actor owner;                      ///< peer or guest
    caf::actor device_handle;
  };
  endpoint(lane_env& env, const settings& config, observer& watch, std::shared_ptr<device> dev, place where);
  ~endpoint() override;

  const std::string& name() const noexcept { return where_.name; }
  caf::behavior make_behavior() override;
  void on_fault(const std::string& what) override;
  void on_deadline(std::uint64_t token) override;

private:
  enum class timer : std::uint8_t { retry, retire, drain };
  /// One QP, as far as the endpoint knows from its reports.
  struct member {
    std::shared_ptr<qp> object;
    caf::actor handle;
    std::uint16_t generation = 0; ///< the last one that was begun; 0: none yet
    bool idle = true;             ///< no ibv_qp, no attempt under way
    bool usable = false;          ///< ACTIVE
    bool suspect = false;
    bool ending = false; ///< a fence was asked for and has not begun: nothing it says makes it usable
    bool gone = false;
    bool left_out = false;                        ///< the CQ has no room for it: the rail goes on without it
    std::optional<bootstrap::qp_address> created; ///< our numbers, while they wait for the peer's
    bootstrap::port_address local;                ///< ours, as the peer was told for this attempt
    bootstrap::port_address peer_port;            ///< theirs, once it is connected
    std::optional<std::uint32_t> gid_index;       ///< of `local` when it was connected; else nothing
    std::uint32_t failures = 0;
    base::time_point not_before{};
    base::time_point ready_since{}; ///< the last generation that answered its probe
    // initiator: the remote fence that is owed
    std::uint16_t retire_generation = 0;
    std::uint16_t settled_generation = 0;
    base::time_point retire_since{};
    std::string retire_cause;
    bool unconfirmed = false; ///< the last one was settled without the peer's word
    // acceptor: what the peer asked for
    std::optional<bootstrap::qp_address> wanted;
    bool answer_with_rebuilt = false;
    std::optional<std::uint16_t> retired_owed; ///< answer `retired` once this generation is fenced

    void works_no_more() noexcept { usable = suspect = ending = false; }
  };

  void handle(qp_report& m);
  void handle(device_changed& m);
  void handle(peer_link& m);
  void handle(control& m);
  void handle(stop& m);
  void handle(snapshot_request& m);

  // addresses (endpoint_address.cpp)
  const bootstrap::port_address& local_toward(const bootstrap::port_address& peer);
  void fill_addresses(member& q, const bootstrap::port_address& peer_port, qp_connect& c);
  void fence_what_lost_its_address();
  void peer_moved(const bootstrap::port_address& was, const bootstrap::port_address& is);

  void raise(endpoint_event event, std::string cause);
  void perform(endpoint_action action);
  void reconsider();

  // initiator
  /// A peer may come back, or publish again, with fewer devices.
  bool publishes_the_device() const noexcept {
    return memory_ && where_.peer_device_number < memory_->published.devices.size();
  }
  void begin();
  void fit_to_room();
  void give_up_incomplete();
  void numbers_ready();
  void on_message(const bootstrap::accept& m);
  void on_message(const bootstrap::rebuilt& m);
  void on_message(const bootstrap::retired& m);
  void on_message(const bootstrap::reject& m);
  void connect_member(member& q, const bootstrap::port_address& port, const bootstrap::qp_address& peer);
  void owe_retire(member& q, std::uint16_t generation, std::string cause);
  void settle(member& q, std::uint16_t generation, bool confirmed);
  void send_retire(const member& q);
  void retire_overdue();
  void void_requests();
  void forgotten_by_peer();
  void tell_what_ended(bool on_new_link);
  void peer_died();
  void fail_attempt(member& q, const std::string& why);
  void back_off(member& q);
  void wait_after_fence(member& q, std::uint32_t served);
  void note_failure(const member& q, const std::string& why);

  // acceptor
  void on_message(const bootstrap::connect& m);
  void on_message(const bootstrap::rebuild& m);
  void on_message(const bootstrap::retire& m);
  void serve(member& q);
  void answer_ready();
  void refuse(std::uint16_t qp_index, std::uint16_t generation, bootstrap::reject_code code,
              const std::string& text);
  void answer_retired(member& q);

  void answer_stop();
  void fence(member& q, const std::string& cause, bool for_good = false);
  void fence_all(const std::string& cause, bool for_good);
  bool send(bootstrap::body what);
  std::uint16_t index_of(const member& q) const noexcept {
    return static_cast<std::uint16_t>(&q - members_.data());
  }
  void schedule_retry();
  void note(observe::event_kind kind, std::string detail, std::uint64_t value, base::level at);

  const settings& config_;
  observer& watch_;
  std::shared_ptr<device> device_;
  place where_;
  recorded_machine<endpoint_machine> machine_;
  std::string cause_;
  std::string last_refusal_;               ///< the peer's words, since a QP was usable last
  std::string attempt_failure_;            ///< why a QP could not be connected, the last reason
  std::vector<std::string> failures_told_; ///< reasons that the log has heard since then

  std::vector<member> members_;
  bool device_active_ = false;
  bool device_known_ = false;
  bool device_lost_ = false;
  std::optional<bootstrap::connect> early_; ///< acceptor: came before the device's state was known
  bool established_ = false;                ///< the peer knows this endpoint
  bool asked_ = false;                      ///< it was told of so many QPs, and may know it
  bootstrap::link_id link_ = 0;
  bootstrap::incarnation peer_ = 0;
  std::shared_ptr<const remote_memory> memory_;
  bootstrap::port_address peer_port_;
  bootstrap::port_address local_; ///< the last address that was chosen for the peer's
  bool connect_asked_ = false;    ///< acceptor: an accept is owed
  bool stopping_ = false;
  bool stop_asked_ = false; ///< the owner waits for `stopped`
  deadline_id retry_timer_ = deadline_id::none;
  deadline_id retire_timer_ = deadline_id::none;
  deadline_id drain_timer_ = deadline_id::none;
};

} // namespace actor_rdma::actors
