// SPDX-License-Identifier: Apache-2.0
// A pair of buffers on two nodes and the requests that carry one to the other, with a pattern that tells a
// missing, stale or misplaced byte. What most scenarios transfer.
#pragma once

#include "drill/sim/cluster.hpp"

#include <cstddef>
#include <vector>

namespace actor_rdma::sim {

class load {
public:
  /// Registers `pieces` x `piece` bytes on both nodes, connects, and waits until `qps` QPs of `from` are
  /// usable.
  load(cluster& in, machine& from, machine& to, std::size_t piece, std::size_t pieces, std::size_t qps);
  /// However much of it was mended: that an actor's handler threw is a failure of the test.
  ~load();

  /// Fills the source with a pattern of its own and submits all of it.
  std::shared_ptr<actors::batch_state> send(unsigned round,
                                            base::duration deadline = std::chrono::seconds{30});
  /// Runs the world until the batch has ended, for at most `patience`.
  bool finish(const actors::batch_state& batch, base::duration patience = std::chrono::seconds{10});
  /// The target holds exactly this round's bytes.
  bool arrived(unsigned round) const;
  void fill_target(unsigned char with);
  bool target_is(unsigned char value) const;
  std::size_t count(const actors::batch_state& batch, transfer_status status) const;

  bool connected() const noexcept { return connected_; }
  const actors::peer_ref& peer() const noexcept { return peer_; }
  const std::shared_ptr<actors::local_buffer>& source() const noexcept { return source_; }
  const std::shared_ptr<actors::local_buffer>& target() const noexcept { return target_; }
  std::vector<transfer_request>& requests() noexcept { return requests_; }

private:
  unsigned char expected(std::size_t i, unsigned round) const noexcept {
    return static_cast<unsigned char>(i * 131 + i / piece_ + round * 29);
  }

  cluster& in_;
  machine& from_;
  machine& to_;
  std::size_t piece_;
  std::size_t bytes_;
  std::shared_ptr<actors::local_buffer> source_;
  std::shared_ptr<actors::local_buffer> target_;
  actors::peer_ref peer_;
  std::vector<transfer_request> requests_;
  bool connected_ = false;
};

/// Paced devices, `devices` of them.
node_options paced(const char* name, std::size_t devices = 2);
/// As the fabric knows it; without a name if there is none.
verbs::soft::device_state state_of(cluster& c, const std::string& device);
/// Sends one round and wants all of it, in time.
void must_arrive(load& load, unsigned round, base::duration within = std::chrono::seconds{5});
/// How many events of this kind say these words.
std::size_t told(const machine& of, observe::event_kind kind, const std::string& words);
/// The next HELLOs from `a` to `b` are lost: so many times connect_deadline passes before they are linked
/// again.
void lose_hellos(cluster& c, std::uint64_t count);
/// Stops both, and wants nothing of them to be left on any device.
void leave_nothing(cluster& c, machine& a, machine& b);
/// How many QPs of this initiator have become ACTIVE so far, rebuilt ones counted again.
std::size_t activations(const machine& of);
/// How many endpoints' transitions into `state` there were.
std::size_t transitions(const machine& of, const std::string& subject, const std::string& state);

} // namespace actor_rdma::sim
