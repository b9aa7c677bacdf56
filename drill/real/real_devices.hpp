// SPDX-License-Identifier: Apache-2.0
// The RDMA devices of a run in real time, as the conductor sees them from outside the processes that use
// them.
#pragma once

#include "base/error.hpp"
#include "drill/device_faults.hpp"
#include "drill/scenario.hpp"
#include "verbs/soft/fabric.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace actor_rdma::drill {

class real_devices {
public:
  using done = base::expected<void>;
  struct state {
    std::string name;
    std::uint64_t qps = 0;        ///< of the scenario's processes
    std::uint64_t mrs = 0;        ///< likewise
    std::uint64_t bytes_sent = 0; ///< of the requests that it made
  };

  virtual ~real_devices() = default;
  /// Before the first process.
  virtual done open() = 0;
  /// After the last one: everything as it was before.
  virtual done close() = 0;
  virtual device_faults& faults() = 0;
  /// Nothing that was broken stands between these two now.
  virtual bool can_carry(const std::string& from_device, const std::string& to_device) const = 0;
  virtual base::expected<std::vector<state>> look() const = 0;
  /// How often it is worth while to look again.
  virtual base::duration look_period() const { return std::chrono::milliseconds{2}; }
  /// Words that a host's process needs on its command line to find them.
  virtual std::vector<std::string> words() const = 0;

  /// What the devices themselves wrote down since the last call.
  virtual std::vector<verbs::soft::log_entry> new_log() { return {}; }
  /// Whether QPs that are made stand in that log.
  virtual bool logs_qps() const { return false; }
  /// Whether it keeps what it had when a process is gone, because the process was told that it is lost.
  virtual bool keeps_objects(const std::string&) const { return false; }
  /// In a text of a process: the devices' names as the scenario says them.
  virtual void name_devices(std::string&) const {}
  /// So many bytes of a transfer were carried by a rail, said when the transfer has ended.
  virtual void carried(const std::string&, std::uint64_t) {}
};

/// Of a new fabric of the software NIC that several processes may attach to.
std::unique_ptr<real_devices> make_fabric_devices(const scenario& what, std::uint64_t seed);

} // namespace actor_rdma::drill
