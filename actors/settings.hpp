// SPDX-License-Identifier: Apache-2.0
// What the actors are configured with: the public options, validated, in the form the data path reads.
#pragma once

#include "base/time.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace actor_rdma::actors {

struct settings {
  std::string node = "node";
  std::uint32_t qps_per_endpoint = 2;
  std::uint32_t send_queue_depth = 256; ///< WRs per QP, a power of two
  std::uint32_t slice_bytes = 256 * 1024;
  std::uint64_t smallest_region_bytes = 64ull << 20; ///< what memory is tried in at last when it does not fit
  std::uint64_t qp_window_bytes = 8ull << 20;        ///< bytes ahead on one QP
  /// Bytes after which a WR inside a post is signalled, so that credit comes back and progress is seen while
  /// a long post is under way. The last WR of a post always is.
  std::uint64_t signal_interval_bytes = 1ull << 20;
  base::duration stall_floor = std::chrono::milliseconds{30};
  base::duration path_fence = std::chrono::milliseconds{150};
  base::duration breaker_hold = std::chrono::milliseconds{500}; ///< 0: no breaker
  base::duration fence_grace = std::chrono::milliseconds{100};
  base::duration drain_deadline = std::chrono::milliseconds{100};
  bool remote_fence = true;
  base::duration remote_fence_timeout = std::chrono::milliseconds{1000};
  base::duration port_poll = std::chrono::milliseconds{100};
  base::duration device_poll = std::chrono::milliseconds{2000}; ///< how often new devices are looked for
  std::vector<std::string> only_devices;                        ///< by name; empty: all
  std::vector<std::string> spare_devices; ///< by name: these carry only while none of the others can
  base::duration probe_deadline = std::chrono::milliseconds{200};
  base::duration rebuild_backoff_min = std::chrono::milliseconds{20};
  base::duration rebuild_backoff_max = std::chrono::milliseconds{500};
  base::duration connect_deadline = std::chrono::milliseconds{1500};
  base::duration reconnect_window = std::chrono::milliseconds{500};
  base::duration reach_retry = std::chrono::seconds{1}; ///< before memory is tried on a device again
  base::duration reach_retry_max = std::chrono::seconds{60};
  /// Memory that one device has registered is waited for on the others for so long.
  base::duration register_wait = std::chrono::seconds{1};
  base::duration stuck_after = std::chrono::seconds{5};
  bool notices = true;               ///< off: peers are told that we do not take notices
  std::uint32_t notice_inbox = 4096; ///< received notices that the program has not taken yet
  std::uint8_t qp_timeout = 12;
  std::uint8_t retry_count = 7;
  std::uint8_t read_depth = 16;
  std::optional<std::uint32_t> gid_index; ///< of every port; nothing: chosen (gid_choice.hpp)
  bool ib_grh = false;                    ///< InfiniBand ports have a GRH within their subnet too
};

} // namespace actor_rdma::actors
