// SPDX-License-Identifier: Apache-2.0
// The checks that need more than one option.
#include "bench/settings.hpp"

#include "bench/text.hpp"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

namespace actor_rdma::bench {

namespace {

constexpr std::uint64_t default_depth = 4;
/// The transport's QPs try for 134 ms.
constexpr base::duration most_latency = std::chrono::milliseconds{50};

template <class... Args>
base::expected<void> refuse(fmt::format_string<Args...> format, Args&&... args) {
  return base::fail(base::reason::invalid_argument, "", fmt::format(format, std::forward<Args>(args)...));
}

/// How many batches fit into the range of one thread.
std::uint64_t places_per_thread(const settings& s) {
  const auto share = s.range / s.threads;
  if (s.batch > share / s.size) // also where the product would overflow
    return 0;
  return share / s.batch_bytes();
}

base::expected<void> check_shape(settings& s) {
  if (s.range == 0)
    return refuse("--range 0: there must be memory to transfer");
  if (s.as == role::target)
    return {};
  if (s.size == 0)
    return refuse("--size 0: a transfer carries at least one byte");
  if (s.size > s.range)
    return refuse("--size {} does not fit into --range {}", size_text(s.size), size_text(s.range));
  const auto places = places_per_thread(s);
  if (places == 0)
    return refuse("--batch {} x --size {} x --threads {} does not fit into --range {}", s.batch,
                  size_text(s.size), s.threads, size_text(s.range));
  if (s.depth > places)
    return refuse("--depth {} x --batch {} x --size {} x --threads {} does not fit into --range {}", s.depth,
                  s.batch, size_text(s.size), s.threads, size_text(s.range));
  if (s.depth == 0)
    s.depth = std::min(default_depth, places);
  if (s.slice > std::numeric_limits<std::uint32_t>::max())
    return refuse("--slice {}: at most 4G - 1", size_text(s.slice));
  return {};
}

/// A device that is in both lists would be connected with itself, and the cables between the two never used.
base::expected<void> check_devices(settings& s) {
  if (s.fabric == fabric_kind::verbs && !s.devices.empty())
    s.nics = static_cast<std::uint32_t>(s.devices.size());
  if (s.target_devices.empty())
    return {};
  if (s.as != role::loopback)
    return refuse("--target-devices is for loopback: the target of another process has --devices of its own");
  if (s.engine == engine_kind::raw || s.compare > 0)
    return refuse("--target-devices needs --engine actor");
  return {};
}

base::expected<void> check_faults(const settings& s) {
  if (s.trials > 0 && s.faults.empty())
    return refuse("--trials repeats the faults of --fault, and there are none");
  if (s.faults.empty())
    return {};
  if (s.fabric != fabric_kind::soft)
    return refuse("--fault needs the software NIC, not --fabric verbs");
  if (s.engine == engine_kind::raw)
    return refuse("--fault needs --engine actor: the raw loop does not survive faults");
  if (s.compare > 0)
    return refuse("--fault cannot be combined with --compare");
  return {};
}

} // namespace

const char* to_string(engine_kind engine) noexcept {
  return engine == engine_kind::raw ? "raw" : "actor";
}

base::expected<void> check(settings& s) {
  if (auto good = check_shape(s); !good)
    return good;
  if (s.as == role::target)
    return s.listen.empty() ? refuse("--listen \"\": say an address, like 127.0.0.1:0")
                            : base::expected<void>{};
  if (s.nic_mode == "paced" && s.latency > most_latency)
    return refuse("--latency {}: at most {}, or the NIC gives up before an acknowledgement can be back",
                  time_text(s.latency), time_text(most_latency));
  if (s.verify && !s.moves_payload())
    return refuse("--verify cannot be combined with --nic-mode null, which moves no payload");
  if (auto good = check_devices(s); !good)
    return good;
  if (auto good = check_faults(s); !good)
    return good;
  const bool uses_raw = s.engine == engine_kind::raw || s.compare > 0;
  if (uses_raw && s.as != role::loopback)
    return refuse("the raw engine has no bootstrap of its own: use it with loopback");
  if (uses_raw && s.notices)
    return refuse("--notices needs --engine actor: the raw loop has none");
  if (uses_raw && s.threads != 1)
    return refuse("the raw engine is one thread: --threads {} cannot be combined with it", s.threads);
  return {};
}

options transport_options(const settings& s, const std::string& name) {
  options o;
  o.name = name;
  o.fabric = s.fabric;
  o.soft.fabric = s.soft_fabric;
  o.soft.host = name;
  o.soft.devices = s.nics;
  o.soft.mode = s.nic_mode;
  o.soft.rate_gbit_s = s.rate_gbit_s;
  o.soft.latency = s.latency;
  o.soft.link_layer = s.link_layer;
  o.lanes = s.lanes;
  o.pin_lanes = s.pin_lanes;
  o.lane_spin = s.lane_spin;
  o.qps_per_endpoint = s.qps;
  o.send_queue_depth = s.send_queue;
  o.slice_bytes = static_cast<std::uint32_t>(s.slice);
  o.qp_timeout = static_cast<std::uint8_t>(s.qp_timeout);
  o.retry_count = static_cast<std::uint8_t>(s.retry_count);
  o.stall_floor = s.stall_floor;
  o.devices = s.devices;
  o.default_deadline = s.deadline;
  o.max_open_batches =
      std::max<std::uint32_t>(o.max_open_batches, static_cast<std::uint32_t>(s.depth * s.threads));
  return o;
}

} // namespace actor_rdma::bench
