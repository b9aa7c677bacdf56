// SPDX-License-Identifier: Apache-2.0
// What happened between a fault and the return to full rate, from three witnesses: the NIC's log, which says
// what was swallowed and what was posted again, the transport's events, and the bytes that arrived. Zero is
// the NIC's entry of the first WR that it swallowed, or of the port's change, whichever was first. Re-issued
// is a slice whose WR the fault took, which the NIC says (swallowed, flushed, retries exceeded), and which is
// then posted on a rail that works.
#pragma once

#include "base/time.hpp"
#include "observe/events.hpp"
#include "verbs/soft/fabric.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace actor_rdma::bench {

struct moment {
  base::duration after{}; ///< since zero
  std::string what;
};

struct recovery {
  base::time_point zero;
  std::string zero_is; ///< "initiator/soft0 swallowed its first WR"
  /// Empty: did not happen while it was watched.
  std::optional<base::duration> detected;
  std::optional<base::duration> first_reissue;
  std::optional<base::duration> full_rate;
  std::uint64_t rebuilds = 0;   ///< QPs that came back
  std::vector<moment> timeline; ///< in the order of its times
};

/// Collects what belongs to one fault cycle. Not thread-safe.
class recovery_tracker {
public:
  /// `host`: the initiator's; `devices`: how many it has.
  recovery_tracker(std::string host, std::size_t devices) : host_(std::move(host)), devices_(devices) {}

  /// The NIC's log in its order, from some time before the fault on.
  void on_log(const verbs::soft::log_entry& entry);
  void on_event(const observe::event& event) { events_.push_back(event); }
  void on_step(base::time_point at, std::string what) { steps_.push_back({at, std::move(what)}); }
  /// Bytes that arrived in all; some hundred times a second.
  void on_progress(base::time_point at, std::uint64_t bytes) { samples_.push_back({at, bytes}); }

  bool has_reissue() const { return first_reissue() != nullptr; }
  /// What is known now; nothing without a zero.
  std::optional<recovery> result() const;

private:
  /// A WR of a healthy device after zero.
  struct post_elsewhere {
    base::time_point at;
    std::string device;
    std::uint32_t qp_num = 0;
  };
  struct sample {
    base::time_point at;
    std::uint64_t bytes = 0;
  };
  struct step {
    base::time_point at;
    std::string what;
  };

  const post_elsewhere* first_reissue() const;
  void set_zero(const verbs::soft::log_entry& entry, std::string what);
  void take(const verbs::soft::log_entry& entry);
  void on_posted(const verbs::soft::log_entry& entry);
  void add_events(recovery& to) const;
  std::optional<base::time_point> full_rate_at() const;
  double bytes_at(base::time_point when) const;

  std::string host_;
  std::size_t devices_;
  std::optional<base::time_point> zero_;
  std::string zero_is_;
  std::string faulty_;                                 ///< our device of the rail that broke
  std::unordered_map<std::uint32_t, std::string> qps_; ///< that posted before zero, with their devices
  std::unordered_set<std::uint32_t> victim_qps_;       ///< those of the faulty device
  std::unordered_set<std::uint64_t> victims_;          ///< remote addresses of WRs that the fault took
  std::unordered_map<std::uint64_t, post_elsewhere> elsewhere_; ///< by remote address, the first after zero
  std::vector<observe::event> events_;
  std::vector<sample> samples_;
  std::vector<step> steps_;
};

} // namespace actor_rdma::bench
