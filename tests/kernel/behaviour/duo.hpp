// SPDX-License-Identifier: Apache-2.0
//
// Two ends on a stage with a stream of WRITEs from a to b, and the record of what a's completion queue and
// both async event descriptors said. Each WRITE carries its own number, and a success whose bytes are not
// there fails the test case.
#pragma once

#include "tests/kernel/behaviour/stage.hpp"
#include "verbs/soft/testing/rig.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace actor_rdma::tests::kernel {

namespace rig = verbs::soft::testing;

/// Path MTU 1024, acknowledge time-out 67 ms, 6 retries.
rig::qp_options usual_options();
/// What retries take in all.
base::duration patience(const rig::qp_options& o);

/// Since the last forget().
struct record {
  std::vector<ibv_wc_status> errors; ///< in their order
  std::size_t successes = 0;
  std::optional<base::time_point> first_error;
  base::time_point last_success{};
  std::array<std::vector<ibv_event_type>, 2> events; ///< of a, of b
  bool saw(side which, ibv_event_type type) const;
};

class duo {
public:
  static constexpr std::uint32_t bytes = 4096; ///< of a WRITE
  static constexpr std::size_t depth = 16;     ///< of them are out at a time

  /// Connected, traffic has flowed, and nothing is out.
  explicit duo(const rig::qp_options& options = usual_options(), bool with_bond = false);
  duo(const rig::qp_options& options, std::unique_ptr<stage> on);
  ~duo();
  /// Closes both devices, opens them again.
  void close();
  void open();

  stage& on() { return *net_; }
  rig::end& a() { return *a_; }
  rig::end& b() { return *b_; }
  rig::address where(side which) const;

  /// Connects new queue pairs of both ends, after the indices of the addresses were looked up. The errno of
  /// the first verb that refuses, and which it was.
  int try_connect(std::string* verb = nullptr);
  /// The place in the device's GID table at which an address is now.
  std::optional<std::uint8_t> index_of(const rig::end& e, const ibv_gid& gid) const;
  /// Destroys both queue pairs, and makes new ones.
  void renew();

  /// Posts up to `depth`, if it is asked to, and notes what came. A round of a millisecond.
  void step(bool posts);
  /// Rounds until it is true, or the time is over.
  bool run(
      bool posts, base::duration limit, const std::function<bool()>& until = [] { return false; });
  /// The same with both devices closed.
  bool run_closed(base::duration limit, const std::function<bool()>& until);
  /// One WRITE more; the result of ibv_post_send().
  int post_one();
  /// The next completions of a, which have nothing to do with the stream.
  std::vector<ibv_wc_status> completions(std::size_t count, base::duration limit = std::chrono::seconds{2});
  bool traffic_flows(base::duration limit = std::chrono::seconds{5});
  std::size_t outstanding() const { return outstanding_; }
  void forget() { seen = {}; }

  record seen;

private:
  void note(const ibv_wc& wc);

  rig::qp_options options_;
  std::unique_ptr<stage> net_;
  std::unique_ptr<rig::end> a_;
  std::unique_ptr<rig::end> b_;
  std::uint64_t next_ = 0; ///< number of the next WRITE
  std::size_t outstanding_ = 0;
  rig::address where_b_; ///< as it was connected
};

void to_state(rig::end& e, ibv_qp_state state);
/// "LOC_QP_OP_ERR", as the verbs' enumeration has it, without what they share.
std::string name_of(ibv_wc_status status);
std::string name_of(ibv_event_type type);
/// "LOC_QP_OP_ERR and 15 more, 3 ms after the last success; a: PORT_ERR; b: -".
std::string describe(const record& r);

/// What became of the work that was out when something broke:
///   goes on    nothing
///   held       nothing completed before it was mended; then all did, on the same queue pair
///   gives up   retries ran out: RETRY_EXC, the rest flushed
///   dies       the queue pair is in ERR without a retry that ran out
///   stuck      nothing completed, also after it was mended
struct fault_play {
  std::string row;
  std::function<stage::done(stage&)> breaks; ///< in real time on another thread, while work goes on
  std::function<stage::done(stage&)> mends;
  base::duration lasts = std::chrono::milliseconds{2000};
  base::duration waits_after = std::chrono::milliseconds{1500}; ///< mended, for what comes by itself
};
/// Plays it and checks the row. Then, whatever it was: what is stuck comes back when the queue pair is moved
/// to ERR, nothing lands after both queue pairs are destroyed, and new ones work within 3 s (and the second
/// that a neighbour may cost). The outcome.
std::string play(duo& d, const fault_play& what);
/// The second half of it.
void mend_and_go_on(duo& d);

} // namespace actor_rdma::tests::kernel
