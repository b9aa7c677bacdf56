// SPDX-License-Identifier: Apache-2.0
// Lane observations to events.
#include "transport/internal/lane_events.hpp"

#include "actors/lane.hpp"

#include <fmt/format.h>

namespace actor_rdma::detail {

void lane_events::emit(const actors::lane& where, observe::event_kind kind, std::string detail,
                       std::uint64_t value) noexcept {
  if (!sink_)
    return;
  try {
    observe::event e;
    e.at = where.now();
    e.kind = kind;
    e.subject = node_ + "/" + where.name();
    e.detail = std::move(detail);
    e.value = value;
    sink_->on_event(e);
  } catch (...) {
    // Out of memory while telling about a lane: there is nobody left to tell.
  }
}

void lane_events::on_gap(const actors::lane& where, base::duration gap) noexcept {
  emit(where, observe::event_kind::lane_gap, "the lane did not run", static_cast<std::uint64_t>(gap.count()));
}

void lane_events::on_internal_fault(const actors::lane& where, std::string_view text) noexcept {
  emit(where, observe::event_kind::internal_fault, std::string{text}, 0);
}

} // namespace actor_rdma::detail
