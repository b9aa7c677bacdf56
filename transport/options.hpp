// SPDX-License-Identifier: Apache-2.0
// Everything that can be configured, with defaults. Times are std::chrono here and carry their unit in the
// names of the command line and JSON forms (stall_floor_ms).
#pragma once

#include "base/error.hpp"
#include "base/time.hpp"
#include "observe/notice.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace actor_rdma {

namespace observe {
class event_sink;
}
namespace verbs::soft {
class fabric;
struct device_options;
} // namespace verbs::soft

/// Which verbs implementation carries the data.
enum class fabric_kind : std::uint8_t { soft, verbs };

/// The software NIC of this process; ignored with fabric_kind::verbs.
struct soft_nic_options {
  /// A fabric of this process that several of its transports share; empty: see `fabric`.
  std::shared_ptr<verbs::soft::fabric> private_fabric;
  std::string fabric;                                    ///< shared segment; empty: private to this transport
  std::string host = "host";                             ///< name of this virtual host
  std::uint32_t devices = 1;                             ///< soft0, soft1, ...
  std::string mode = "inline";                           ///< inline, paced or null
  double rate_gbit_s = 25.0;                             ///< paced only
  base::duration latency = std::chrono::microseconds{5}; ///< paced only
  std::string link_layer = "ethernet";                   ///< ethernet (RoCE) or infiniband
  /// Devices that differ from each other or have GIDs, MTUs and limits of their own; if set, instead of
  /// `devices` and the four above.
  std::shared_ptr<const std::vector<verbs::soft::device_options>> nics;
};

struct options {
  std::string name = "node"; ///< for people: in logs, events and the peer's messages
  fabric_kind fabric = fabric_kind::soft;
  soft_nic_options soft;
  /// Only these; empty: all, and those that appear later too (at most four, looked for every device_poll).
  std::vector<std::string> devices;
  /// These carry only while no other device can: NICs far from this process's memory, or that belong to other
  /// workers of this host. They are connected and watched as the others are.
  std::vector<std::string> spare_devices;
  std::string listen; ///< "host:port", port 0 = any; empty: does not listen

  std::uint32_t lanes = 0; ///< 0: max(1, min(4, cores/2 - 1))
  bool pin_lanes = false;
  base::duration lane_spin = std::chrono::microseconds{50}; ///< idle time before a lane sleeps

  std::uint32_t qps_per_endpoint = 2;
  std::uint32_t send_queue_depth = 256; ///< WRs per QP
  std::uint32_t cq_entries = 1u << 16;  ///< per device: room for cq_entries / (send_queue_depth + 2) QPs
  std::uint32_t slice_bytes = 256 * 1024;
  std::uint32_t max_open_batches = 4096;

  base::duration default_deadline = std::chrono::seconds{30};
  base::duration stall_floor = std::chrono::milliseconds{30};
  base::duration path_fence = std::chrono::milliseconds{150};
  base::duration breaker_hold = std::chrono::milliseconds{500}; ///< 0: no breaker
  base::duration fence_grace =
      std::chrono::milliseconds{100}; ///< for posted WRs of an expired or cancelled transfer
  base::duration drain_deadline =
      std::chrono::milliseconds{100}; ///< for flushes after ERR, then the QP is destroyed
  bool remote_fence = true;           ///< switched off only by the test which shows that it is needed
  base::duration remote_fence_timeout = std::chrono::milliseconds{1000};
  base::duration port_poll = std::chrono::milliseconds{100};
  base::duration device_poll = std::chrono::milliseconds{2000};
  base::duration rebuild_backoff_max = std::chrono::milliseconds{500};
  base::duration reach_retry =
      std::chrono::seconds{1}; ///< before memory is tried again on a device that did not reach it
  base::duration reach_retry_max = std::chrono::seconds{60};
  /// Memory that one device has registered is waited for on the others for so long; then the call returns,
  /// and they carry it when they have it.
  base::duration register_wait = std::chrono::seconds{1};
  base::duration connect_deadline =
      std::chrono::milliseconds{1500}; ///< of one attempt: verbs calls, peer's answer, probe
  base::duration reconnect_window =
      std::chrono::milliseconds{500}; ///< lost control link: the same incarnation goes on
  base::duration stuck_after = std::chrono::seconds{5};
  base::duration shutdown_timeout = std::chrono::seconds{5};

  /// Received notices that wait for poll_notice() or on_notice, of all peers together; each peer has at most
  /// 64 of them. A full inbox makes senders wait.
  std::uint32_t notice_inbox = 4096;
  /// Called for every received notice, one at a time, on the transport's completion thread, instead of
  /// poll_notice(). It may submit and wait for nothing; while it runs, notices wait in the inbox.
  std::function<void(received_notice&&)> on_notice;

  std::uint8_t qp_timeout = 12; ///< ibv_modify_qp(3) timeout: 4.096 us * 2^n; 0: none, a lost packet is lost
  std::uint8_t retry_count = 7;
  std::uint8_t read_depth = 16;
  /// Index in the GID table of every port that is used. Nothing: the address is chosen (RoCE v2, routable, on
  /// an interface that is up, able to reach the peer's; the choice is an event). An index whose place is
  /// empty is refused when the transport starts; when it becomes empty later, the device rests until it is
  /// filled again.
  std::optional<std::uint32_t> gid_index;
  /// Packets of InfiniBand ports carry a global route header within their subnet too (also if only one end of
  /// a connection has it so); to other subnets they always do. Ethernet ports: without effect.
  bool ib_grh = false;

  /// Receives every event; see observe/events.hpp for what a sink may do.
  std::shared_ptr<observe::event_sink> events;
};

/// Refuses what is out of range, naming the option and the accepted values.
base::expected<void> validate(const options& opts);

} // namespace actor_rdma
