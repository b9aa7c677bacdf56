// SPDX-License-Identifier: Apache-2.0
//
// Asking the rules about work requests and packets.
#include "verbs/soft/rules/qp_rules.hpp"

#include <initializer_list>

namespace actor_rdma::verbs::soft {

namespace {

constexpr std::uint32_t bits_of(std::initializer_list<rule_action> actions) {
  std::uint32_t bits = 0;
  for (const auto a : actions)
    bits |= 1U << static_cast<int>(a);
  return bits;
}
constexpr auto of_work_requests = bits_of({rule_action::status, rule_action::hold_cqe, rule_action::hold_dma,
                                           rule_action::cqe_behind, rule_action::hang});
constexpr auto of_closed_ports = bits_of({rule_action::status, rule_action::hang, rule_action::hold});
constexpr auto of_requests =
    bits_of({rule_action::drop, rule_action::delay, rule_action::reorder, rule_action::duplicate});
constexpr auto of_answers = bits_of({rule_action::drop, rule_action::delay});
constexpr auto of_flushes = bits_of({rule_action::no_flush});
constexpr auto of_receives = bits_of({rule_action::status, rule_action::hold_cqe, rule_action::cqe_behind});

std::uint32_t detail_of(const rule& r) noexcept {
  return r.action == rule_action::hang ? (r.is_hard ? 1U : 0U) : r.value;
}

} // namespace

bool qp_rules::refresh(std::uint32_t epoch) {
  seen_epoch_ = epoch;
  rules_.clear();
  const auto current = book_.current();
  for (const auto& r : *current) {
    if (r.what.target != rule_target::work)
      continue;
    // As the peer of the rule's device the queue pair's own requests concern it too.
    const bool is_two_way = r.what.direction == rule_direction::tx || r.what.direction == rule_direction::rx;
    const std::string_view own{tables_.devices[device_].name.data()};
    const bool concerns = names_device(r.what.device, own) && (!r.what.qp || *r.what.qp == qp_num_);
    if (concerns || (is_two_way && names_device(r.what.peer, own)))
      rules_.push_back(r);
  }
  return !rules_.empty();
}

template <class Act>
void qp_rules::ask(const wr_facts& what, nanos now, bool is_answer, std::uint32_t actions, Act act,
                   bool at_link_down) {
  work_facts facts;
  facts.requester = tables_.devices[device_].name.data();
  if (what.peer_device < layout::max_devices)
    facts.responder = tables_.devices[what.peer_device].name.data();
  facts.requester_qp = qp_num_;
  facts.responder_qp = what.peer_qp;
  facts.op = what.op;
  facts.bytes = what.work.length;
  facts.region = what.region;
  facts.peer_region = what.peer_region;
  facts.is_answer = is_answer;
  for (const auto& r : rules_) {
    if ((actions >> static_cast<int>(r.what.action) & 1) == 0 || r.what.at_link_down != at_link_down ||
        !matches(r.what, facts) || !book_.hits(r, now))
      continue;
    book_.record(
        r, now, {device_, what.peer_device, qp_num_, static_cast<std::uint32_t>(what.op), what.wr, what.work},
        detail_of(r.what));
    act(r.what);
  }
}

void qp_rules::decide(wr_fate& fate, const rule& r) noexcept {
  switch (r.action) {
  case rule_action::status:
    if (!fate.status) {
      fate.status = static_cast<std::uint8_t>(r.value);
      fate.is_garbage = r.is_garbage;
      fate.lands = r.lands;
    }
    break;
  case rule_action::hold_cqe:
    if (!fate.hold)
      fate.hold = cqe_hold{r.time, r.is_alone, std::nullopt};
    break;
  case rule_action::cqe_behind:
    if (!fate.hold)
      fate.hold = cqe_hold{r.time, false, r.behind};
    break;
  case rule_action::hold_dma:
    if (!fate.dma_late)
      fate.dma_late = r.time;
    break;
  case rule_action::hang:
    fate.is_hung = true;
    fate.is_hung_hard |= r.is_hard;
    break;
  default: break;
  }
}

bool qp_rules::admit(const wr_facts& what, nanos now) {
  if (what.wr < decided_)
    return true; // it leaves once more
  decided_ = what.wr + 1;
  bool is_hung = false;
  ask(what, now, false, of_work_requests, [&](const rule& r) {
    auto& fate = fates_[what.wr];
    decide(fate, r);
    is_hung = fate.is_hung;
  });
  return !is_hung;
}

const wr_fate* qp_rules::meet_link_down(const wr_facts& what, nanos now) {
  wr_fate* fate = nullptr;
  const auto act = [&](const rule& r) {
    fate = &fates_[what.wr];
    decide(*fate, r);
  };
  ask(what, now, false, of_closed_ports, act, true);
  return fate;
}

wr_fate* qp_rules::transmit(const wr_facts& what, nanos now) {
  auto* fate = find(what.wr);
  if (fate != nullptr) {
    fate->is_lost = fate->is_dma_out; // what is on its way on its own does not leave again
    fate->late = 0;
    fate->again = fate->pieces = std::nullopt;
  }
  ask(what, now, false, of_requests, [&](const rule& r) {
    if (fate == nullptr)
      fate = &fates_[what.wr];
    switch (r.action) {
    case rule_action::drop: fate->is_lost = true; break;
    case rule_action::delay: fate->late += r.time; break;
    case rule_action::duplicate: fate->again = r.time == never ? 0 : r.time; break;
    case rule_action::reorder:
      if (what.op != work_op::read && what.op != work_op::atomic)
        fate->pieces = r.time == never ? 1'000'000 : r.time;
      break;
    default: break;
    }
  });
  return fate;
}

qp_rules::answer qp_rules::acknowledge(const wr_facts& what, nanos now) {
  answer a;
  ask(what, now, true, of_answers, [&](const rule& r) {
    if (r.action == rule_action::drop)
      a.is_lost = true;
    else
      a.late += r.time;
  });
  return a;
}

bool qp_rules::suppresses_flush(const wr_facts& what, nanos now, bool is_marker) {
  if (!any())
    return false;
  bool is_suppressed = false;
  for (const auto& r : rules_)
    if (r.what.action == rule_action::no_flush && (is_marker || !r.what.is_marker))
      is_suppressed = true;
  if (is_suppressed) { // only now it counts as a match
    is_suppressed = false;
    ask(what, now, false, of_flushes, [&](const rule& r) { is_suppressed |= is_marker || !r.is_marker; });
  }
  return is_suppressed;
}

wr_fate qp_rules::receive(const wr_facts& what, nanos now) {
  wr_fate fate;
  if (any())
    ask(what, now, false, of_receives, [&](const rule& r) { decide(fate, r); });
  return fate;
}

} // namespace actor_rdma::verbs::soft
