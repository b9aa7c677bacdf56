// SPDX-License-Identifier: Apache-2.0
// The peer's notices: when a batch's data is in place its notice goes out, and its end is told.
#include "actors/peer.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace actor_rdma::actors {

namespace {

/// Why the notice of a batch whose transfers have ended must not be sent; none when it may.
base::reason fault_of(const batch_state& batch) noexcept {
  for (const auto& t : batch.transfers()) {
    if (t.status.load(std::memory_order_relaxed) != transfer_status::completed)
      return t.cause == base::reason::none ? base::reason::internal : t.cause;
    if (t.unconfirmed)
      return base::reason::path; // late packets may still reach the memory that the notice would hand over
  }
  return base::reason::none;
}

} // namespace

/// All transfers of the batch have ended. A success completion of each of its WRITEs means that the bytes are
/// in the peer's memory, whichever rail they took.
void peer::data_in_place(const std::shared_ptr<batch_state>& batch) {
  if (const auto fault = fault_of(*batch); fault != base::reason::none)
    return notice_ended(batch, notice_status::withheld, fault, 0);
  if (stopping_)
    return notice_ended(batch, notice_status::lost, base::reason::shutting_down, 0);
  if (batch->target().owner != owner_)
    return notice_ended(batch, notice_status::lost, base::reason::peer_dead, 0);
  if (env().now() >= batch->deadline)
    return notice_ended(batch, notice_status::lost, base::reason::timeout, 0);
  if (batch->stopped)
    return notice_ended(batch, notice_status::lost, base::reason::cancelled, 0);
  const auto stuck = batch->submitted + config_.stuck_after;
  arm_batch(*batch, batch->reported_stuck ? batch->deadline : std::min(batch->deadline, stuck));
  outbox_.put(batch);
}

/// It is not sent, or nobody knows whether it arrived.
void peer::give_up_notice(const std::shared_ptr<batch_state>& batch) {
  if (batch->notice().status != notice_status::pending)
    return;
  if (outbox_.find(batch->serial) == batch)
    outbox_.give_up(*batch, base::reason::internal);
  else
    notice_ended(batch, notice_status::lost, base::reason::internal, 0);
}

void peer::notice_due(const std::shared_ptr<batch_state>& batch) {
  if (env().now() >= batch->deadline)
    return outbox_.give_up(*batch, base::reason::timeout);
  if (!std::exchange(batch->reported_stuck, true))
    note(observe::event_kind::stuck,
         fmt::format("the notice \"{}\" of batch {} waits for the peer {:.1f} s after the submit; {} notices "
                     "wait, {}",
                     batch->attached_notice()->name, batch->serial,
                     std::chrono::duration<double>(env().now() - batch->submitted).count(), outbox_.waiting(),
                     link_ != 0 ? "its inbox may be full" : "there is no control link: " + cause_),
         0, base::level::warn, batch->trace);
  arm_batch(*batch, batch->deadline);
}

void peer::send_notice(bootstrap::notice&& what, bool repeated) {
  observe::event e;
  e.at = env().now();
  e.kind = observe::event_kind::notice_sent;
  e.subject = title_;
  e.from = repeated ? "again" : "";
  e.detail = what.name;
  e.value = what.sequence;
  send(std::move(what));
  watch_.emit(std::move(e), base::level::off);
}

void peer::on_noticed(const bootstrap::noticed& m) {
  const auto* fault = outbox_.answered(m, env().random() | 1);
  if (fault == nullptr)
    return;
  last_refusal_ = base::error{base::reason::protocol, "bootstrap", {}, {}, where_.address, fault};
  note(observe::event_kind::rejected, last_refusal_.to_string(), 0, base::level::warn);
  where_.channel->close(link_);
}

void peer::notice_ended(const std::shared_ptr<batch_state>& batch, notice_status how, base::reason cause,
                        std::uint64_t sequence) {
  if (batch->timer != 0)
    env().cancel(static_cast<deadline_id>(std::exchange(batch->timer, 0)));
  done_or_told([&] {
    const auto& name = batch->attached_notice()->name;
    observe::event e;
    e.at = env().now();
    e.subject = title_;
    e.value = sequence;
    e.trace = batch->trace;
    if (how == notice_status::delivered) {
      e.kind = observe::event_kind::notice_delivered;
      e.detail = name;
      watch_.emit(std::move(e), base::level::off);
    } else {
      e.kind = observe::event_kind::notice_lost;
      e.to = to_string(how);
      e.detail = fmt::format("{}: {}", name, base::to_string(cause));
      watch_.emit(std::move(e), base::level::info);
    }
  });
  batch->publish_notice(how, cause);
  done_or_told([&] { where_.batch_done(batch); });
  batch->flush();
}

} // namespace actor_rdma::actors
