// SPDX-License-Identifier: Apache-2.0
// Notices of a node that dialled us: into the inbox once each, and acknowledged.
#include "actors/guest.hpp"

#include <utility>

#include <fmt/format.h>

namespace actor_rdma::actors {

void guest::on_notice(bootstrap::notice& m) {
  if (!source_)
    source_ = where_.inbox->open([to = me()] { caf::anon_send(to, notice_room{}); });
  const auto push = [&] {
    return where_.inbox->push(source_, {where_.name, where_.who, m.sequence, {m.name, m.payload}});
  };
  const auto how =
      config_.notices ? notices_.take(m.session, m.sequence, push) : receive_window::arrival::nonsense;
  switch (how) {
  case receive_window::arrival::fresh: {
    observe::event e;
    e.at = env().now();
    e.kind = observe::event_kind::notice_received;
    e.subject = title_;
    e.detail = m.name;
    e.value = m.sequence;
    watch_.emit(std::move(e), base::level::off);
    break;
  }
  case receive_window::arrival::repeated: break;
  case receive_window::arrival::no_room: return; // it will be asked for when there is room
  case receive_window::arrival::forgotten: return send(bootstrap::noticed{m.session, 0, 0, false, true});
  case receive_window::arrival::nonsense:
    note(observe::event_kind::rejected,
         fmt::format("its link is closed: notice {} makes no sense after {}", m.sequence, notices_.upto()),
         base::level::warn);
    return where_.channel->close(link_);
  }
  // One answer for all that have come meanwhile.
  if (!ack_due_)
    caf::anon_send(me(), notice_ack{});
  ack_due_ = true;
}

void guest::handle(notice_ack&) {
  ack_due_ = false;
  if (!leaving_)
    send_noticed(false);
}

void guest::handle(notice_room&) {
  if (!leaving_)
    send_noticed(notices_.discarding());
}

void guest::send_noticed(bool again) {
  const auto room = source_ ? where_.inbox->room_of(*source_) : bootstrap::notice_window;
  send(bootstrap::noticed{notices_.session(), notices_.upto(), notices_.upto() + room, again, false});
}

} // namespace actor_rdma::actors
