// SPDX-License-Identifier: Apache-2.0
// What an open RDMA device consists of, and how it is opened and closed.
#pragma once

#include "bootstrap/messages.hpp"
#include "verbs/objects.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace actor_rdma::actors {

/// Memory that probes use, one page set per node: our incarnation, which peers read, then landing places for
/// our own probes. Every device registers it and has a share of the places.
struct probe_page {
  static constexpr std::size_t places = 16384;
  alignas(4096) std::uint64_t incarnation = 0;
  std::uint64_t landing[places] = {};
};

/// So many devices that appear after the start are taken in.
inline constexpr std::size_t late_devices = 4;

/// All that is needed to open a device, once or again.
struct device_recipe {
  const verbs::provider* table = nullptr;
  std::string name; ///< of the port (port_name.hpp): "mlx5_0", "mlx5_0:2"
  std::shared_ptr<probe_page> probe;
  std::size_t number = 0;  ///< of `devices`
  std::size_t devices = 1; ///< that there may be, `late_devices` among them
  std::uint32_t cq_capacity = 0;
  std::uint8_t port = 1;
  std::uint8_t link_layer = 0; ///< of the port, as of the first opening

  /// The device's share of the places where probes land, one per QP.
  std::span<std::uint64_t> landing() const noexcept {
    const auto share = probe_page::places / devices;
    return std::span(probe->landing).subspan(number * share, share);
  }
};

/// The verbs objects of one opening of a device, made before its lane knows of them. Shared by the device's
/// actor and slow calls. Slow calls of one device run one at a time, so one that comes after close() finds
/// the objects gone, and none finds them going.
struct open_device {
  /// Opens one port of `handle` and makes what the data path needs. It is number `number` of `devices` that
  /// there may be. Blocks; not on a lane.
  static base::expected<open_device> open(const verbs::provider& table, ibv_device* handle,
                                          std::shared_ptr<probe_page> probe, std::size_t number,
                                          std::size_t devices, std::uint32_t cq_capacity,
                                          std::uint8_t port = 1, std::uint8_t link_layer = 0);
  /// The same of the device that has the recipe's name now, if there is one. Blocks.
  static base::expected<open_device> open(const device_recipe& recipe);
  /// Releases everything, children first; what refused to go, in words. Of a device that is gone the context
  /// is closed over what refuses, which is the end of that too. Blocks; not on a lane.
  std::vector<std::string> close();
  /// Closes the context over all that was made of it, QPs and memory regions included, which nobody may call
  /// any more: destroying them succeeds then. Blocks; not on a lane.
  base::expected<void> close_over();

  verbs::context ctx;
  verbs::protection_domain pd;
  verbs::completion_channel channel;
  verbs::completion_queue cq;
  verbs::memory_region probe_mr;
  device_recipe recipe;
  // fixed: any thread, also when the objects are gone
  std::uint32_t probe_lkey = 0;
  std::uint32_t probe_rkey = 0;
  std::uint32_t cq_entries = 0;
  std::uint32_t cq_asked = 0; ///< of the device, after its max_cqe
  std::uint32_t max_read_depth = 1;
  std::uint32_t max_send_wrs = UINT32_MAX;     ///< of one QP
  std::uint32_t max_served_reads = UINT32_MAX; ///< at once, by all QPs together
  std::uint64_t max_region_bytes = UINT64_MAX; ///< of one memory region

  /// Refuses an index whose place in the port's GID table is empty. Blocks.
  base::expected<void> check_gid_index(std::uint32_t index) const;
};

} // namespace actor_rdma::actors
