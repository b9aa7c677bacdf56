// SPDX-License-Identifier: Apache-2.0
// One RDMA device of ours, on one lane: context, PD, the CQ and its channel, the probe memory, and the
// machine that follows the port. Async events are hints: they make it read the port, and it reads the port
// periodically anyway, so that a lost event costs one period and never a rail. It owns the CQ and routes
// completions to QPs by wr_id alone; those of unknown QPs or generations are counted and dropped.
#pragma once

#include "actors/drain_rate.hpp"
#include "actors/gid_choice.hpp"
#include "actors/lane_object.hpp"
#include "actors/machines.hpp"
#include "actors/messages.hpp"
#include "actors/observer.hpp"
#include "actors/settings.hpp"
#include "verbs/objects.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace actor_rdma::actors {

class qp;
struct qp_incarnation;

/// Memory that probes use, one page set per node: our incarnation, which peers read, then landing places for
/// our own probes. Every device registers it and has a share of the places.
struct probe_page {
  static constexpr std::size_t places = 16384;
  alignas(4096) std::uint64_t incarnation = 0;
  std::uint64_t landing[places] = {};
};

/// The verbs objects of an open device, made before its lane knows of it.
struct open_device {
  /// Opens `handle` and makes what the data path needs. It is number `number` of `devices`. Blocks; not on a
  /// lane.
  static base::expected<open_device> open(const verbs::provider& table, ibv_device* handle,
                                          std::shared_ptr<probe_page> probe, std::size_t number,
                                          std::size_t devices, std::uint32_t cq_capacity);
  /// Releases everything, children first; what refused to go, in words. Blocks; not on a lane.
  std::vector<std::string> close();

  verbs::context ctx;
  verbs::protection_domain pd;
  verbs::completion_channel channel;
  verbs::completion_queue cq;
  std::shared_ptr<probe_page> probe;
  std::span<std::uint64_t> landing; ///< this device's places, one per QP
  verbs::memory_region probe_mr;
  std::uint32_t max_read_depth = 1;
  std::uint32_t max_send_wrs = UINT32_MAX;     ///< of one QP
  std::uint32_t max_served_reads = UINT32_MAX; ///< at once, by all QPs together
  std::uint64_t max_region_bytes = UINT64_MAX; ///< of one memory region

  static constexpr std::uint8_t port_number = 1;
  /// Refuses an index whose place in the port's GID table is empty. Blocks.
  base::expected<void> check_gid_index(std::uint32_t index) const;
};

class device final : public lane_object, public cq_sink, public fd_sink, public deadline_sink {
public:
  struct port_reading; ///< what one look at the port found (device_port.hpp)

  device(lane_env& env, const settings& config, observer& watch, std::uint16_t number, open_device parts);
  ~device() override;

  // any thread: fixed for the object's life
  std::uint16_t number() const noexcept { return number_; }
  const std::string& name() const noexcept { return name_; }
  const verbs::protection_domain& pd() const noexcept { return parts_.pd; }
  std::uint64_t max_region_bytes() const noexcept { return parts_.max_region_bytes; }
  /// DEVICE_FATAL, CQ error or dead event fd: nothing works on it any more, and it is not opened again.
  bool is_lost() const noexcept { return gone_->load(); }
  /// For good; the verbs objects may be gone.
  std::uint32_t probe_rkey() const noexcept { return probe_rkey_; }
  std::uint64_t probe_addr() const noexcept { return reinterpret_cast<std::uint64_t>(parts_.probe.get()); }

  caf::behavior make_behavior() override;
  void on_fault(const std::string& what) override;
  void on_completions(std::span<const ibv_wc> wcs) override;
  void on_cq_failed(int error) override;
  void on_readable(int fd) override;
  void on_deadline(std::uint64_t token) override;

  // on the lane, for this device's QPs
  /// Reserves room in the CQ for `wrs` and an index for wr_ids; nullopt when the CQ has no room left.
  std::optional<std::uint16_t> add_qp(qp& who, std::uint32_t wrs);
  void remove_qp(std::uint16_t index, std::uint32_t wrs);
  /// How many QPs of this kind add_qp() would take now.
  std::uint32_t room_for_qps(std::uint32_t wrs) const noexcept;
  /// How many READs at once another QP may serve, at most `wanted`. Where the device has little it gets a
  /// small share of what is left, so that many can connect. 0: nothing is left. give_reads() when it is
  /// destroyed.
  std::uint8_t take_reads(std::uint8_t wanted) noexcept;
  void give_reads(std::uint8_t reads) noexcept { served_reads_ -= reads; }
  /// Takes over the end of a QP that its actor has no more use for, and tries until it is destroyed.
  void bury(const std::shared_ptr<qp_incarnation>& dead);
  const verbs::completion_queue& cq() const noexcept { return parts_.cq; }
  std::uint64_t* landing(std::uint16_t index) noexcept { return &parts_.landing[index]; }
  std::uint32_t probe_lkey() const noexcept { return parts_.probe_mr.lkey(); }
  /// What we publish.
  const bootstrap::port_address& address() const noexcept { return address_; }
  /// What QPs towards this peer send from: as published, or another GID if that one cannot reach the peer's.
  bootstrap::port_address address_toward(const bootstrap::port_address& peer) const;
  /// The place in the GID table where the address is now; nothing when the port has it no more.
  std::optional<std::uint32_t> gid_index_of(const bootstrap::port_address& ours) const noexcept;
  /// Something that the port may explain has failed: it is read soon.
  void look_at_port() { read_port(); }
  double port_bytes_per_second() const noexcept { return port_rate_; }
  std::string status_text(ibv_wc_status status) const { return parts_.ctx.table().wc_status_str(status); }
  std::string event_text(ibv_event_type type) const { return parts_.ctx.table().event_type_str(type); }
  std::uint64_t bytes_in_flight = 0; ///< of all its QPs; they keep it
  drain_rate drains;                 ///< how fast these end; they keep it too

private:
  void handle(subscribe& m);
  void handle(unsubscribe& m);
  void handle(stop& m);
  void handle(snapshot_request& m);
  void raise(device_event event, std::string cause);
  void perform(device_action action);
  void on_async(const verbs::async_event& event);
  void dig(const std::shared_ptr<qp_incarnation>& dead);
  void read_port();
  void port_read(const port_reading& seen);
  void adopt(const port_reading& seen, const gid_choice& choice);
  void announce();
  void lose(std::string cause);
  void unwatch_events();
  void try_to_close();
  void close();
  void answer_stop();
  void next_read(base::duration in);
  device_changed present() const;

  const settings& config_;
  observer& watch_;
  std::uint16_t number_;
  open_device parts_;
  const verbs::gone_flag gone_;
  const std::uint32_t probe_rkey_;
  std::string name_;
  recorded_machine<device_machine> machine_;
  std::string cause_;

  bootstrap::port_address address_;
  std::uint32_t gid_index_ = 0;
  std::vector<gid_candidate> gids_; ///< the port's table as it was when address_ was chosen or later
  double port_rate_ = 0;
  bool reading_ = false;
  bool read_again_ = false;
  bool watches_events_ = false;
  bool closing_ = false;
  bool closed_ = false;
  bool closed_again_ = false;
  std::vector<std::string> left_behind_; ///< what close() could not release; written by its slow call
  deadline_id poll_ = deadline_id::none;
  std::vector<caf::actor> subscribers_;
  caf::actor stop_asked_by_;

  std::vector<qp*> qps_;                                ///< by index; nullptr: free
  std::vector<std::shared_ptr<qp_incarnation>> undead_; ///< being destroyed
  std::uint32_t cq_reserved_ = 0;
  std::uint32_t served_reads_ = 0; ///< at once, by the QPs that there are
  std::uint64_t stale_completions_ = 0;
  std::uint64_t async_events_ = 0;
  std::uint64_t other_ports_events_ = 0;
};

} // namespace actor_rdma::actors
