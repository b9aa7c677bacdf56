// SPDX-License-Identifier: Apache-2.0
// A scenario as plain values: the hosts, what they transfer, what breaks and when, and what is expected. Read
// from a file by drill/format/; docs/scenarios.md says what every key means. Times are counted from the
// moment when all connections that the traffic needs have come up.
#pragma once

#include "actors/settings.hpp"
#include "base/time.hpp"
#include "observe/transfer.hpp"
#include "verbs/soft/fabric.hpp"

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace actor_rdma::drill {

struct device_group {
  std::uint64_t count = 1;
  verbs::soft::device_options nic = paced();

private:
  static verbs::soft::device_options paced() {
    verbs::soft::device_options o;
    o.mode = verbs::soft::nic_mode::paced;
    return o;
  }
};

struct host_spec {
  std::string name;
  std::uint32_t count = 0; ///< in the file: so many alike, name0, name1, ...; 0: one, of this name
  std::vector<device_group> devices = std::vector<device_group>(2);
  double memory_gbit_s = 0; ///< what its memory takes and gives for all of them; 0: as much as comes
  actors::settings config;

  std::vector<verbs::soft::device_options> nics() const; ///< one per device, named soft0, soft1, ...
  /// One for each port, of which rails are made: soft0, soft0:2, soft1, ...
  std::vector<verbs::soft::device_options> ports() const;
  bool moves_payload() const; ///< some device of it does
};

/// One direction of the control network between two hosts.
struct control_spec {
  std::string from;
  std::string to;
  base::duration latency = std::chrono::microseconds{100};
};

struct traffic_spec {
  std::string name;
  std::string from;
  std::string to;
  operation op = operation::write;
  std::vector<std::uint64_t> sizes{64 * 1024}; ///< of the transfers, in turn
  std::uint64_t count = 0;                     ///< transfers; 0: until `repeat_until`, or one batch
  std::uint64_t batch = 1;                     ///< transfers that are submitted together
  std::uint64_t depth = 1;                     ///< batches open at once
  double rate_per_s = 0;                       ///< batches begun per second at most; 0: no limit
  base::duration start{};
  std::optional<base::duration> repeat_until;
  base::duration deadline = std::chrono::seconds{10};
  std::optional<base::duration> cancel_after; ///< each batch, so long after it was submitted
  bool verify = true;
  bool notice = false;       ///< each batch carries one, with a name of its own
  bool notices_only = false; ///< no transfers: `count` and `depth` are of notices, one in each batch

  /// Memory at one end: so many places, each for a transfer of any of the sizes.
  std::uint64_t slots(bool at_to) const;
  std::uint64_t slot_bytes() const;
  std::uint64_t memory_bytes(bool at_to) const { return notices_only ? 0 : slots(at_to) * slot_bytes(); }
};

/// Which of these a fault uses is said by its kind, see drill/fault_kinds.hpp.
struct fault_spec {
  std::string kind;
  std::optional<base::duration> at;
  base::duration spread{};                        ///< drawn from the seed and added to `at`
  std::optional<std::uint64_t> after_completions; ///< instead of `at`: so many transfers have ended
  std::string traffic;                            ///< only those of this traffic
  std::optional<base::duration> lasts;            ///< then it is undone
  std::uint64_t times = 1;
  base::duration every{};
  std::string device;
  std::string host;
  std::string from;
  std::string to;
  base::duration by{};
  double gbit_s = 0;
  std::optional<std::uint32_t> member;  ///< of a bond
  std::optional<base::duration> rehash; ///< then its QPs use other members
  std::uint32_t lanes = 0;
  double lane_gbit_s = verbs::soft::usual_lane_gbit_s;
  std::uint32_t index = 0;
  std::uint32_t to_index = 0;
  std::string gid;
  std::uint32_t mtu = 4096;
  std::uint16_t lid = 0;
  std::uint64_t messages = 1;
  std::string message; ///< type of control message, empty: any
  std::string text;
  std::string rule; ///< of the NIC's rule language (verbs/soft/rules/rule.hpp)
  std::string event;
  std::optional<std::uint64_t> count;
  std::string peer;
  std::string direction;
  std::string verb;
  std::string error;    ///< name of an errno
  std::string resource; ///< what runs out
  bool is_quiet = false;
  bool is_hard = false;
};

/// Which of these an expectation uses is said by its kind, see drill/checks/expectations.hpp.
struct expect_spec {
  std::string kind;
  std::string traffic;
  std::string host;
  std::string device;
  std::string status;
  std::string cause;
  std::string event;
  std::string subject; ///< is contained in the subject
  std::string detail;  ///< is contained in the detail
  double percentile = 99;
  std::uint64_t fault = 0; ///< its place in `faults`
  base::duration window = std::chrono::seconds{1};
  base::duration after{};
  std::optional<base::duration> before;
  base::duration base_after{};
  std::optional<base::duration> base_before;
  std::optional<double> at_least;
  std::optional<double> at_most;
  std::optional<double> equals;
};

/// Bounds of the invariants that are checked in every run.
struct bounds_spec {
  base::duration converge_within = std::chrono::seconds{2}; ///< after the last fault is over
  std::optional<std::uint64_t>
      reconnects_at_most;                ///< QPs that a device makes after that; or usual_reconnects()
  std::uint64_t log_lines_at_most = 400; ///< after that
  base::duration end_grace = std::chrono::milliseconds{100}; ///< beyond deadline, fences and their time-outs
  double isolation_percent = 5;
};

/// "a" of "a/soft0".
std::string host_of(const std::string& device);
/// "a/soft0" of "a/soft0:2", and of itself.
std::string device_of(const std::string& port);

struct scenario {
  std::string path; ///< of the file
  std::string id;
  std::string title;
  std::vector<std::string> cases;
  std::uint64_t seeds = 20;
  base::duration time_limit = std::chrono::seconds{120}; ///< virtual; a run that needs more has not finished
  actors::settings config;                               ///< what hosts start from
  std::vector<host_spec> hosts;
  std::vector<control_spec> control;
  std::vector<traffic_spec> traffic;
  std::vector<fault_spec> faults;
  std::vector<expect_spec> expect;
  bounds_spec bounds;

  const host_spec* host(const std::string& name) const;
  /// The device "host/soft0" as its host has it, or one of the usual kind.
  verbs::soft::device_options nic(const std::string& device) const;
  /// What is not wrong, but hardly meant so.
  std::vector<std::string> warnings() const;
};

} // namespace actor_rdma::drill
