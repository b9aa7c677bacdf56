// SPDX-License-Identifier: Apache-2.0
// What a run is asked to do: the command line as values, checked as a whole.
#pragma once

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/time.hpp"
#include "bench/fault_plan.hpp"
#include "observe/transfer.hpp"
#include "transport/options.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace actor_rdma::bench {

/// What is still open so long after its deadline, or after the run if it has none, is not waited for.
inline constexpr base::duration patience_after_run = std::chrono::seconds{10};

enum class role : std::uint8_t { target, initiator, loopback };

/// Who moves the bytes: the transport, or a bare post/poll loop on the same NIC to compare it with.
enum class engine_kind : std::uint8_t { actor, raw };
const char* to_string(engine_kind engine) noexcept;

struct settings {
  role as = role::loopback;
  engine_kind engine = engine_kind::actor;

  operation op = operation::write;
  std::uint64_t size = 64 * 1024;     ///< of one transfer
  std::uint64_t batch = 64;           ///< transfers per batch
  std::uint64_t depth = 0;            ///< batches open at once per thread; 0 until check() has chosen
  std::uint64_t range = 512ull << 20; ///< memory per side
  std::uint32_t threads = 1;

  base::duration time = std::chrono::seconds{5};
  std::uint64_t batches = 0; ///< in all; 0: as many as fit into `time`
  base::duration pause{};    ///< of each thread between two batches
  bool verify = false;
  bool notices = false;                               ///< each batch carries one
  base::duration deadline = std::chrono::seconds{30}; ///< or submit_options::no_deadline

  fabric_kind fabric = fabric_kind::soft;
  std::uint32_t nics = 1;
  std::string nic_mode = "inline";
  std::string link_layer = "ethernet";
  double rate_gbit_s = 25;
  base::duration latency = std::chrono::microseconds{5};
  std::string soft_host; ///< empty: the role's name
  std::string soft_fabric;

  std::string listen = "127.0.0.1:0";
  std::string connect;
  base::duration connect_timeout = std::chrono::seconds{5};

  std::uint32_t lanes = 0;
  bool pin_lanes = false;
  base::duration lane_spin = options{}.lane_spin;
  std::uint32_t qps = options{}.qps_per_endpoint;
  std::uint32_t send_queue = options{}.send_queue_depth;
  std::uint64_t slice = options{}.slice_bytes;
  std::uint32_t qp_timeout = options{}.qp_timeout;
  std::uint32_t retry_count = options{}.retry_count;
  base::duration stall_floor = options{}.stall_floor;
  std::vector<std::string> devices;        ///< of this end; empty: all
  std::vector<std::string> target_devices; ///< of the other one in loopback; empty: `devices`

  fault_plan faults;
  std::uint32_t trials = 0;  ///< 0: the faults happen once, and the run goes on beside them
  std::uint32_t compare = 0; ///< pairs of runs of both engines; 0: one run
  bool json = false;
  base::level log = base::level::warn;

  std::uint64_t batch_bytes() const noexcept { return size * batch; }
  bool moves_payload() const noexcept { return fabric == fabric_kind::verbs || nic_mode != "null"; }
};

/// Refuses what does not fit together, by the names of the command line, and fills in what was left open.
base::expected<void> check(settings& what);

/// The transport's options for one end of the run.
options transport_options(const settings& what, const std::string& name);

} // namespace actor_rdma::bench
