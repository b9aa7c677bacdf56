// SPDX-License-Identifier: Apache-2.0
//
// The ring of events that were asked for.
#include "verbs/soft/rules/raised.hpp"

#include <algorithm>

namespace actor_rdma::verbs::soft {

namespace {
constexpr std::uint64_t patience = 16; // later entries
}

void write_raised(layout::tables& t, const raised_event& event) noexcept {
  const auto number = t.head.raised_head.fetch_add(1, std::memory_order_acq_rel);
  auto& slot = t.raised[number % layout::raised_capacity];
  slot.sequence.store(0, std::memory_order_seq_cst);
  slot.what.store(std::uint64_t{event.device} << 32 | static_cast<std::uint32_t>(event.type),
                  std::memory_order_release);
  slot.how.store(std::uint64_t{event.qp_num} << 32 | event.times, std::memory_order_release);
  slot.sequence.store(number + 1, std::memory_order_release);
}

std::vector<raised_event> read_raised(const layout::tables& t, std::uint64_t& next) {
  const auto head = t.head.raised_head.load(std::memory_order_acquire);
  if (head > next + layout::raised_capacity)
    next = head - layout::raised_capacity;
  std::vector<raised_event> all;
  for (; next < head; ++next) {
    const auto& slot = t.raised[next % layout::raised_capacity];
    const auto before = slot.sequence.load(std::memory_order_acquire);
    const auto what = slot.what.load(std::memory_order_acquire);
    const auto how = slot.how.load(std::memory_order_acquire);
    if (before < next + 1) {
      if (head - next > patience)
        continue; // its writer was stopped or killed in the middle
      break;      // its writer is about to announce it
    }
    if (before == next + 1 && slot.sequence.load(std::memory_order_acquire) == before)
      all.push_back({static_cast<std::uint32_t>(what >> 32), static_cast<ibv_event_type>(what & 0xffffffff),
                     static_cast<std::uint32_t>(how & 0xffffffff), static_cast<std::uint32_t>(how >> 32)});
  }
  return all;
}

event_subject subject_of(ibv_event_type type) noexcept {
  switch (type) {
  case IBV_EVENT_QP_FATAL:
  case IBV_EVENT_QP_REQ_ERR:
  case IBV_EVENT_QP_ACCESS_ERR:
  case IBV_EVENT_COMM_EST:
  case IBV_EVENT_SQ_DRAINED:
  case IBV_EVENT_PATH_MIG:
  case IBV_EVENT_PATH_MIG_ERR:
  case IBV_EVENT_QP_LAST_WQE_REACHED: return event_subject::queue_pair;
  case IBV_EVENT_CQ_ERR: return event_subject::completion_queue;
  case IBV_EVENT_SRQ_ERR:
  case IBV_EVENT_SRQ_LIMIT_REACHED: return event_subject::shared_receive_queue;
  default: return event_subject::device;
  }
}

bool is_of_port(ibv_event_type type) noexcept {
  return subject_of(type) == event_subject::device && type != IBV_EVENT_DEVICE_FATAL;
}

} // namespace actor_rdma::verbs::soft
