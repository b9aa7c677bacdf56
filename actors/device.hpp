// SPDX-License-Identifier: Apache-2.0
// One RDMA device of ours, on one lane: its verbs objects (open_device.hpp) and the machine that follows the
// port. Async events are hints: they make it read the port, and it reads the port periodically anyway, so
// that a lost event costs one period and never a rail. It owns the CQ and routes completions to QPs by wr_id
// alone; those of unknown QPs or generations are counted and dropped. The actor outlives the device: when
// that is lost, everything of it is released, and what is opened again takes its place.
#pragma once

#include "actors/breaker.hpp"
#include "actors/drain_rate.hpp"
#include "actors/gid_choice.hpp"
#include "actors/lane_object.hpp"
#include "actors/machines.hpp"
#include "actors/messages.hpp"
#include "actors/observer.hpp"
#include "actors/open_device.hpp"
#include "actors/reopen_schedule.hpp"
#include "actors/settings.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace actor_rdma::actors {

class qp;
struct qp_incarnation;

class device final : public lane_object, public cq_sink, public fd_sink, public deadline_sink {
public:
  struct port_reading; ///< what one look at the port found (device_port.hpp)

  /// `is_late`: memory was registered before it appeared, and has to be registered on it before it serves.
  device(lane_env& env, const settings& config, observer& watch, std::uint16_t number, open_device parts,
         bool is_late = false);
  ~device() override;

  // any thread: fixed for the object's life
  std::uint16_t number() const noexcept { return number_; }
  const std::string& name() const noexcept { return name_; }
  std::uint64_t max_region_bytes() const noexcept { return max_region_bytes_; }
  std::uint64_t probe_addr() const noexcept { return reinterpret_cast<std::uint64_t>(recipe_.probe.get()); }

  /// As in ibv_port_attr. Rails are made for it, and a device that comes back with another one rests.
  std::uint8_t link_layer() const noexcept { return recipe_.link_layer; }

  const device_recipe& recipe() const noexcept { return recipe_; }
  /// What it was made with; only before it is launched.
  std::shared_ptr<open_device> first_opening() const noexcept { return parts_; }

  caf::behavior make_behavior() override;
  void on_fault(const std::string& what) override;
  void on_completions(std::span<const ibv_wc> wcs) override;
  void on_cq_failed(int error) override;
  void on_readable(int fd) override;
  void on_deadline(std::uint64_t token) override;

  // on the lane, for this device's QPs
  /// What QPs can be made of now; nothing while it is lost. A slow call takes a copy, and finds the objects
  /// gone if it comes after their release.
  std::shared_ptr<const open_device> parts() const noexcept { return lost_ ? nullptr : parts_; }
  /// DEVICE_FATAL, CQ error or dead event fd: nothing works on it any more, and what it says means nothing.
  bool is_lost() const noexcept { return lost_; }
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
  /// One of its QPs could not be destroyed, and is asked again later.
  void destroy_refused();
  /// Takes over the end of a QP that its actor has no more use for, and tries until it is destroyed.
  void bury(const std::shared_ptr<qp_incarnation>& dead);
  std::uint64_t* landing(std::uint16_t index) noexcept { return &recipe_.landing()[index]; }
  std::uint32_t probe_lkey() const noexcept { return parts_->probe_lkey; }
  /// What we publish.
  const bootstrap::port_address& address() const noexcept { return address_; }
  /// What QPs towards this peer send from: as published, or another GID if that one cannot reach the peer's.
  bootstrap::port_address address_toward(const bootstrap::port_address& peer) const;
  /// The place in the GID table where the address is now; nothing when the port has it no more.
  std::optional<std::uint32_t> gid_index_of(const bootstrap::port_address& ours) const noexcept;
  /// Something that the port may explain has failed: it is read soon.
  void look_at_port() { read_port(); }
  /// After an error that a request can cause, but a port that goes down as well: whether it may be held
  /// against the request. Once per port_poll at most: within that time the port's state is known.
  bool may_blame_request();
  /// One of its QPs became suspect: is it an event of the device?
  void qp_suspected();
  /// When a fence for silence that is due now may happen (breaker.hpp).
  base::time_point fence_at();
  double port_bytes_per_second() const noexcept { return port_rate_; }
  std::string status_text(ibv_wc_status status) const { return recipe_.table->wc_status_str(status); }
  std::string event_text(ibv_event_type type) const { return recipe_.table->event_type_str(type); }
  std::uint64_t bytes_in_flight = 0; ///< of all its QPs; they keep it
  std::uint64_t bytes_aside = 0;     ///< of these, what suspect and fenced QPs hold; they keep it
  drain_rate drains;                 ///< how fast these end; they keep it too

private:
  void handle(subscribe& m);
  void handle(unsubscribe& m);
  void handle(memory_registered& m);
  void handle(memory_released& m);
  void handle(stop& m);
  void handle(snapshot_request& m);
  void raise(device_event event, std::string cause);
  void perform(device_action action);
  void on_async(const verbs::async_event& event);
  void dig(const std::shared_ptr<qp_incarnation>& dead);
  void read_port();
  void port_read(const port_reading& seen);
  void take_port_rate(const port_reading& seen);
  void adopt(const port_reading& seen, const gid_choice& choice);
  void announce();
  void next_read(base::duration in);
  void note(observe::event_kind kind, std::string detail, std::uint64_t value, base::level at);

  // the end of what is open, and a new beginning (device_reopen.cpp)
  enum class timer : std::uint8_t { read, open, attempt };
  void watch();
  void unwatch();
  void unwatch_events();
  void lose(std::string cause);
  bool is_ending() const noexcept;
  bool is_quiet() const noexcept;
  bool only_refused_is_left() const noexcept;
  void close_over();
  void closed_over(const base::error& failure);
  void try_to_close();
  void close();
  void closed();
  void say_what_is_left();
  void answer_stop();
  void open_later();
  void open();
  void opened(base::expected<open_device>& made);
  void dismiss(open_device&& made, std::string why);
  device_changed present() const;

  const settings& config_;
  observer& watch_;
  std::uint16_t number_;
  const device_recipe recipe_;
  const std::uint64_t max_region_bytes_;
  std::shared_ptr<open_device> parts_; ///< replaced on the lane only; nothing: released
  std::uint32_t opening_ = 0;          ///< counts how often it was opened
  std::uint32_t room_told_ = 0;        ///< the opening whose CQ was looked at last
  std::string name_;
  recorded_machine<device_machine> machine_;
  std::string cause_;

  bootstrap::port_address address_;
  std::uint32_t gid_index_ = 0;
  std::vector<gid_candidate> gids_; ///< the port's table as it was when address_ was chosen or later
  double port_rate_ = 0;
  bool reading_ = false;
  bool read_again_ = false;
  bool watches_cq_ = false;
  bool watches_events_ = false;
  bool lost_ = false;            ///< from the loss until it is open again
  bool memory_ready_ = true;     ///< what the node has registered is registered on this opening
  bool being_opened_ = false;    ///< the slow call is under way
  bool being_closed_ = false;    ///< lost, and its QPs are gone
  bool memory_released_ = false; ///< and the node's regions are
  bool memory_refused_ = false;  ///< or some of them cannot be taken back
  bool closing_over_ = false;    ///< a slow call
  base::time_point close_over_again_{};
  base::time_point close_until_{}; ///< what the end of the node waits for
  bool quarantine_told_ = false;
  reopen_schedule schedule_;
  std::string last_open_failure_;
  std::vector<std::string> left_behind_; ///< what close() could not release; written by its slow call
  deadline_id poll_ = deadline_id::none;
  deadline_id open_timer_ = deadline_id::none; ///< the next attempt, or the deadline of the present one
  std::vector<caf::actor> subscribers_;
  caf::actor stop_asked_by_;

  breaker breaker_;
  std::vector<qp*> qps_;                                ///< by index; nullptr: free
  std::vector<std::shared_ptr<qp_incarnation>> undead_; ///< being destroyed
  std::uint32_t cq_reserved_ = 0;
  std::uint32_t served_reads_ = 0; ///< at once, by the QPs that there are
  std::uint64_t stale_completions_ = 0;
  std::uint64_t async_events_ = 0;
  std::uint64_t other_ports_events_ = 0;
  base::time_point blamed_at_{}; ///< a request, the last one
};

} // namespace actor_rdma::actors
