// SPDX-License-Identifier: Apache-2.0
// Notices of batches whose transfers have completed, on their way to one peer: sent while there is a link and
// room over there, sent again on a new link, and each told as delivered, lost or unknown exactly once. Pure:
// no CAF, no thread, no clock.
#pragma once

#include "actors/batch.hpp"
#include "actors/notice_window.hpp"

#include <cstdint>
#include <map>
#include <memory>

namespace actor_rdma::actors {

/// What the outbox tells its owner, who turns it into messages.
class notice_outbox_owner {
public:
  /// Over the present link. The link may fail it; then disconnected() follows.
  virtual void send_notice(bootstrap::notice&& what, bool repeated) = 0;
  /// The end of a notice; the outbox lets go of the batch. `sequence` 0: it was not sent.
  virtual void notice_ended(const std::shared_ptr<batch_state>& batch, notice_status how, base::reason cause,
                            std::uint64_t sequence) = 0;

protected:
  ~notice_outbox_owner() = default;
};

class notice_outbox {
public:
  explicit notice_outbox(notice_outbox_owner& owner) : owner_(owner), window_(0) {}

  /// All that follows is for one incarnation, under this name (not 0), until give_up_all().
  void begin(std::uint64_t session) { window_.restart(session, true); }
  /// The batch has a notice, a serial, and all its data is in place.
  void put(std::shared_ptr<batch_state> batch);
  /// A link to the incarnation that all notices here are for; everything unanswered is sent again.
  void connected();
  /// Everything unanswered once more: what was taken for sent may not have been.
  void send_again() {
    if (connected_)
      connected();
  }
  void disconnected() noexcept { connected_ = false; }
  /// The peer's answer. `next_session` is used when the peer does not know ours any more. The text of a fault
  /// of the peer, or null.
  const char* answered(const bootstrap::noticed& m, std::uint64_t next_session);
  /// Deadline or cancel. Nothing when it has ended.
  void give_up(const batch_state& batch, base::reason cause);
  /// The peer is dead or we are leaving.
  void give_up_all(base::reason cause);

  std::shared_ptr<batch_state> find(std::uint64_t serial) const;
  std::size_t waiting() const noexcept { return batches_.size(); }

private:
  void pump();
  void end(std::uint64_t serial, notice_status how, base::reason cause, std::uint64_t sequence);
  void end_given_up(const send_window::given_up& gone, base::reason cause);

  notice_outbox_owner& owner_;
  send_window window_;
  std::map<std::uint64_t, std::shared_ptr<batch_state>> batches_; ///< by serial: those not told yet
  bool connected_ = false;
};

} // namespace actor_rdma::actors
