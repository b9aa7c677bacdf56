// SPDX-License-Identifier: Apache-2.0
// This process as a node: who it is connected to, the memory that it has registered and publishes, and the
// order in which all of it ends. Links are routed here: a dialled one to its peer, an accepted one, after a
// good hello, to its guest. It owns the memory regions, and it alone may say that a buffer is deregistered.
#pragma once

#include "actors/device.hpp"
#include "actors/guest.hpp"
#include "actors/lane_object.hpp"
#include "actors/messages.hpp"
#include "actors/observer.hpp"
#include "actors/peer.hpp"
#include "actors/settings.hpp"
#include "verbs/objects.hpp"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace actor_rdma::actors {

/// Our registered buffers as other threads see them, sorted by address.
class buffer_view {
public:
  using list = std::vector<std::shared_ptr<local_buffer>>;
  std::shared_ptr<const list> buffers() const { return buffers_.load(); }
  void set(std::shared_ptr<const list> now) { buffers_.store(std::move(now)); }

private:
  std::atomic<std::shared_ptr<const list>> buffers_{std::make_shared<const list>()};
};

class node final : public lane_object, public deadline_sink {
public:
  struct place {
    bootstrap::incarnation self = 0;
    bootstrap::channel* channel = nullptr;
    std::vector<peer::device_ref> devices;
    std::vector<std::shared_ptr<open_device>> open; ///< what each of them is at first
    std::vector<lane_env*> lanes;                   ///< peers and guests are spread over them
    std::function<void(const std::shared_ptr<batch_state>&)> batch_done;
    std::shared_ptr<buffer_view> view;
    std::shared_ptr<notice_inbox> inbox;
  };
  node(lane_env& env, const settings& config, observer& watch, place where);
  ~node() override;

  caf::behavior make_behavior() override;
  void on_fault(const std::string& what) override;
  void on_deadline(std::uint64_t token) override;
  /// What stop() reports when everything has answered, or when it gives up; the rest is quarantined.
  std::function<void(std::vector<std::string> quarantined)> on_stopped;

private:
  /// A buffer's regions on one device.
  struct buffer_part {
    std::vector<verbs::memory_region> regions; ///< by chunk; of slow calls, of which one is under way at most
    std::uint32_t opening = 0;                 ///< of the device that they are registered with; 0: none are
    bool complete = false;                     ///< all of them are there
    bool busy = false;                         ///< they are being registered, or taken back
    std::uint32_t failures = 0;    ///< on the device's opening of now: it serves without the buffer
    base::time_point not_before{}; ///< for the next try
    int told_errno = 0;            ///< why, as the last event said
  };
  /// What slow calls that register a buffer on a device have found so far.
  struct registration {
    std::uint32_t opening = 0;        ///< of the device
    std::uint64_t chunk_bytes = 0;    ///< the length of a region that there was room for
    std::vector<std::uint32_t> lkeys; ///< by chunk; empty: it was lost, or failed
    std::vector<std::uint32_t> rkeys;
    base::error failure{base::reason::none};
    std::uint64_t least = 0;       ///< shorter regions are not tried; 0: nor any shorter ones
    std::uint64_t first_tried = 0; ///< the length that was tried first; 0: none yet
  };
  struct owned_buffer {
    std::shared_ptr<local_buffer> what;
    std::vector<std::shared_ptr<buffer_part>> parts; ///< by device; shared with the slow calls
    std::vector<registration> made;                  ///< by device, until `registered` is answered
    std::uint32_t calls = 0;                         ///< slow calls that all wait for
    bool waits_no_longer = false; ///< a device has it: `registered` is answered in a while, come what may
    base::error failure{base::reason::none};
    std::function<void(base::expected<std::shared_ptr<local_buffer>>)> registered;
    std::function<void(base::expected<void>)> deregistered;
    base::time_point give_up_at{};
  };
  /// A device as far as memory is concerned: what it is to be registered with now.
  struct device_memory {
    std::shared_ptr<open_device> open; ///< nothing: it is lost, and regions of it have to go
    std::uint32_t opening = 1;
    std::uint32_t probe_rkey = 0;
    /// The device knows that all has been tried on this opening, or that nothing is left of it.
    bool told = true;
    base::time_point looks_at = base::time_point::max(); ///< when its deadline is; max: there is none
    deadline_id look = deadline_id::none;
  };
  struct known_peer {
    std::shared_ptr<peer> object;
    caf::actor handle;
  };
  struct known_guest {
    std::shared_ptr<guest> object;
    caf::actor handle;
  };

  void handle(dial_request& m);
  void handle(link_opened& m);
  void handle(link_closed& m);
  void handle(control& m);
  void handle(import_peer& m);
  void handle(device_changed& m);
  void handle(guest_left& m);
  void handle(room_wanted& m);
  void handle(register_buffer& m);
  void handle(deregister_buffer& m);
  void handle(stop& m);
  void handle(stopped& m);
  void handle(snapshot_request& m);

  void greet(const control& m);
  void refuse_link(bootstrap::link_id link, bootstrap::incarnation to, bootstrap::reject_code code,
                   const std::string& text);
  bool ports_known() const noexcept;
  void publish();
  bootstrap::segment segment() const;
  void refresh_view();
  /// Regions of one buffer on one device; a segment publishes at most bootstrap::max_buffers of them.
  static constexpr std::size_t max_chunks = 4096;
  /// To register 1 GiB takes 50 to 260 ms, and queue pairs of the device are not made meanwhile.
  static constexpr std::uint64_t longest_region = 4ull << 30;
  // regions, one in each slow call (node_regions.cpp)
  void in_steps(std::size_t device, std::function<bool()> step, std::function<void()> done);
  static bool register_next(const open_device& on, const local_buffer& what, buffer_part& part,
                            registration& result);
  static bool register_failed(const local_buffer& what, buffer_part& part, registration& result);
  static bool take_back_next(buffer_part& part, std::size_t& next, base::error& why);
  void register_with(std::size_t device, const std::shared_ptr<owned_buffer>& b);
  void keep_keys(std::size_t device, owned_buffer& b, const registration& made, std::uint32_t opening);
  void regions_made(const std::shared_ptr<owned_buffer>& b);
  void all_made(const std::shared_ptr<owned_buffer>& b);
  void answer_early(std::uint64_t id);
  void late_regions_made(std::size_t device, const std::shared_ptr<owned_buffer>& b,
                         const registration& made);
  /// What there was room for on each device that has the buffer.
  static std::uint64_t take_shortest_chunks(owned_buffer& b);
  bool settle_chunks(const std::shared_ptr<owned_buffer>& b);
  void try_deregister(std::uint64_t id);
  // memory on devices that come and go (node_devices.cpp)
  void device_memory_changed(const device_changed& m);
  void reconcile(std::size_t device);
  void register_again(std::size_t device, const std::shared_ptr<owned_buffer>& b);
  void release_on(std::size_t device, const std::shared_ptr<owned_buffer>& b);
  void registered_again(std::size_t device, owned_buffer& b, const registration& made);
  void try_later(std::size_t device, owned_buffer& b, const base::error& why);
  void look_again_at(std::size_t device, base::time_point when);

  // devices that appear (node_late.cpp)
  struct look_round;
  void look_for_devices();
  void looked(look_round& found);
  void take_in(open_device&& found);
  void release_regions(const std::shared_ptr<owned_buffer>& b);
  void regions_released(const std::shared_ptr<owned_buffer>& b);
  void next_stage();
  lane_env& next_lane();
  void note(observe::event_kind kind, std::string detail, base::level at);

  const settings& config_;
  observer& watch_;
  place where_;
  std::map<bootstrap::link_id, caf::actor> links_; ///< no actor yet: waits for its hello
  std::map<std::string, known_peer> peers_;        ///< by address
  std::map<bootstrap::caller, known_guest> guests_;
  departed_windows departed_{4096};
  std::vector<bootstrap::port_address> ports_;
  std::vector<bool> port_known_;
  std::vector<device_memory> memory_; ///< by device
  std::size_t devices_at_most_ = 0;
  std::size_t published_devices_ = 0; ///< those from the start, and later ones once they have served
  std::string last_look_failure_;
  std::vector<control> early_hellos_; ///< one per link that was accepted before the ports were known
  std::map<std::uint64_t, std::shared_ptr<owned_buffer>> buffers_;
  std::uint64_t next_buffer_ = 1;
  std::uint64_t version_ = 0;
  std::size_t turn_ = 0;

  static constexpr std::uint64_t device_token = std::uint64_t{1} << 63; ///< of deadlines, else of a buffer
  static constexpr std::uint64_t answer_token = std::uint64_t{1} << 62; ///< with a buffer's number
  static constexpr std::uint64_t look_token = UINT64_MAX;
  enum class stage : std::uint8_t { running, work, memory, devices, over };
  stage stage_ = stage::running;
  std::size_t waiting_for_ = 0;
  std::string stop_cause_;
  std::vector<std::string> quarantined_;
};

} // namespace actor_rdma::actors
