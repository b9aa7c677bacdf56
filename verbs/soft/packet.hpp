// SPDX-License-Identifier: Apache-2.0
//
// A request that is late on the wire. It left its queue pair with a snapshot of its payload and is
// independent of it: whatever becomes of the sender, the packet arrives, and is checked when it arrives. If
// the responder's queue pair is still what it was, the payload lands.
#pragma once

#include "base/random.hpp"
#include "verbs/soft/event_log.hpp"
#include "verbs/soft/responder.hpp"
#include "verbs/soft/timeline.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace actor_rdma::verbs::soft {

class runtime;
class soft_qp;

struct packet_origin {
  std::weak_ptr<soft_qp> sender;
  std::uint64_t wr = 0;
  std::uint64_t life = 0; // of the sender's send queue: a reset begins another
  std::uint32_t device = 0;
  std::uint32_t qp_num = 0;
};

class packet : public timed, public std::enable_shared_from_this<packet> {
public:
  packet(runtime& rt, packet_origin from, const responder& to, const request& what, const logged_work& work);

  /// A write's bytes as they left, or room for a read's answer.
  [[nodiscard]] std::vector<std::byte>& payload() noexcept { return payload_; }
  [[nodiscard]] const std::vector<std::byte>& payload() const noexcept { return payload_; }
  [[nodiscard]] const packet_origin& origin() const noexcept { return from_; }
  [[nodiscard]] const request& what() const noexcept { return what_; }

  /// The same packet once more: what it says is known already, unless the first one was lost.
  void set_duplicate() noexcept { is_duplicate_ = true; }
  /// A write's payload becomes visible in pieces of one packet's size, in an order that the seed shuffles,
  /// over this time. The last of them completes the request.
  void shuffle(base::rng& random, nanos over);
  /// From its first piece to its last.
  [[nodiscard]] nanos landing_time() const noexcept {
    return pieces_.empty() ? 0 : gap_ * static_cast<nanos>(pieces_.size() - 1);
  }
  /// It is a message: it takes a receive where it lands.
  void takes_receive(const message& with) { message_ = with; }
  void is_atomic(const atomic_operation& operation) { atomic_ = operation; }
  void launch(nanos lands_at);
  void run(nanos now, nanos until, copy_budget& budget) override;

private:
  [[nodiscard]] bool is_link_down() const noexcept;
  [[nodiscard]] verdict land(copy_budget& budget);
  [[nodiscard]] verdict land_piece(execution& at_work, copy_budget& budget);
  void log(nanos now, log_kind kind, std::uint32_t detail);

  runtime& rt_;
  const packet_origin from_;
  const responder to_;
  const request what_;
  const logged_work work_;
  std::optional<message> message_;
  std::optional<atomic_operation> atomic_;
  std::vector<std::byte> payload_;
  std::uint64_t done_ = 0;
  nanos asked_at_ = never; // the responder's process has to do it since then
  bool is_duplicate_ = false;
  std::vector<std::uint32_t> pieces_; // in the order of their landing
  std::size_t next_piece_ = 0;
  nanos gap_ = 0; // between pieces
};

} // namespace actor_rdma::verbs::soft
