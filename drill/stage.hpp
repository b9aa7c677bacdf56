// SPDX-License-Identifier: Apache-2.0
// What a fault can do to the world in which a scenario runs. The faults themselves are a table
// (drill/fault_kinds.hpp) that knows this interface only, so that the same file means the same in the
// simulation and wherever else there is a stage. A call answers why it could not be done; such a fault makes
// the run unfinished. What could not befall anything, as its host's process is not there, is not called at
// all (drill/fault_agenda.hpp).
#pragma once

#include "base/error.hpp"
#include "base/time.hpp"
#include "bootstrap/memory_channel.hpp"
#include "drill/device_faults.hpp"

#include <cstdint>
#include <string>

namespace actor_rdma::drill {

class stage {
public:
  virtual ~stage() = default;
  using done = base::expected<void>;

  /// The process of a host as faults meet it.
  struct process_state {
    std::uint64_t life = 0; ///< counts the host's processes
    bool is_there = true;
    bool is_frozen = false;
  };
  virtual process_state process_of(const std::string& host) const = 0;

  virtual device_faults& devices() = 0;
  /// The memory that the traffic writes or reads at its `to` is deregistered, or registered again as it was.
  virtual done revoke_memory(const std::string& traffic, bool on) = 0;

  virtual done cut_control(const std::string& a, const std::string& b) = 0;
  virtual done black_hole_control(const std::string& a, const std::string& b, bool on) = 0;
  virtual done set_control_latency(const std::string& from, const std::string& to, base::duration by) = 0;
  virtual base::duration usual_control_latency(const std::string& from, const std::string& to) const = 0;
  virtual done refuse_dials(const std::string& host, bool on) = 0;
  virtual done next_messages(const bootstrap::message_fault& what) = 0;
  /// The messages that have not come yet will be left alone. When the last one was met, if any was.
  virtual std::optional<base::time_point> end_message_faults() = 0;

  virtual done kill_host(const std::string& host) = 0;
  /// A killed host again, as a new process at the same address.
  virtual done restart_host(const std::string& host) = 0;
  /// SIGTERM: the process ends its transfers, takes leave and is gone some time later.
  virtual done stop_host(const std::string& host) = 0;
  /// A child that lives so long. In virtual time, where all hosts are one process, it cannot be had.
  virtual done fork_host(const std::string& host, base::duration lives) = 0;
  /// The process gets no descriptor beyond those that it has; in virtual time none are counted.
  virtual done limit_descriptors(const std::string& host, bool on) = 0;
  virtual done freeze_host(const std::string& host, bool on) = 0;
  /// Registers memory that nobody uses and deregisters it again at once.
  virtual done churn_memory(const std::string& host) = 0;
};

} // namespace actor_rdma::drill
