// SPDX-License-Identifier: Apache-2.0
// Which notices are sent when, and how each is told.
#include "actors/notice_outbox.hpp"

#include <utility>
#include <vector>

namespace actor_rdma::actors {

void notice_outbox::put(std::shared_ptr<batch_state> batch) {
  const auto serial = batch->serial;
  const auto at = batches_.emplace(serial, batch).first;
  try {
    window_.put(serial, batch->attached_notice());
  } catch (...) {
    batches_.erase(at);
    throw;
  }
  pump();
}

void notice_outbox::connected() {
  connected_ = true;
  window_.rewind();
  pump();
}

void notice_outbox::pump() {
  while (connected_) {
    const auto next = window_.next();
    if (!next)
      return;
    owner_.send_notice({window_.session(), next->sequence, next->what->name, next->what->payload},
                       next->repeated);
  }
}

const char* notice_outbox::answered(const bootstrap::noticed& m, std::uint64_t next_session) {
  if (m.session != window_.session())
    return nullptr; // about a session that was given up meanwhile
  if (m.forgotten) {
    for (const auto& gone : window_.restart(next_session, false))
      end_given_up(gone, base::reason::peer_rejected);
    pump();
    return nullptr;
  }
  std::vector<send_window::outgoing> delivered;
  if (window_.acknowledge(m, delivered) == send_window::answer::never_sent)
    return "it acknowledges a notice that was never sent";
  for (const auto& d : delivered)
    end(d.id, notice_status::delivered, base::reason::none, d.sequence);
  pump();
  return nullptr;
}

void notice_outbox::give_up(const batch_state& batch, base::reason cause) {
  if (const auto gone = window_.give_up(batch.serial))
    end_given_up(*gone, cause);
}

void notice_outbox::give_up_all(base::reason cause) {
  connected_ = false;
  for (const auto& gone : window_.restart(0, true))
    end_given_up(gone, cause);
}

void notice_outbox::end_given_up(const send_window::given_up& gone, base::reason cause) {
  end(gone.id, gone.sequence == 0 ? notice_status::lost : notice_status::unknown, cause, gone.sequence);
}

void notice_outbox::end(std::uint64_t serial, notice_status how, base::reason cause, std::uint64_t sequence) {
  const auto at = batches_.find(serial);
  if (at == batches_.end())
    return;
  const auto batch = std::move(at->second);
  batches_.erase(at);
  owner_.notice_ended(batch, how, cause, sequence);
}

std::shared_ptr<batch_state> notice_outbox::find(std::uint64_t serial) const {
  const auto at = batches_.find(serial);
  return at == batches_.end() ? nullptr : at->second;
}

} // namespace actor_rdma::actors
