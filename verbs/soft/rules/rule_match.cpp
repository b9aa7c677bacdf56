// SPDX-License-Identifier: Apache-2.0
//
// Matching a rule against what happens.
#include "verbs/soft/rules/rule.hpp"

namespace actor_rdma::verbs::soft {

namespace {

std::uint64_t mix(std::uint64_t x) noexcept {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

constexpr std::uint32_t all_but_recv = (1U << static_cast<int>(work_op::recv)) - 1;

} // namespace

bool names_device(std::string_view pattern, std::string_view full_name) noexcept {
  if (pattern.empty() || pattern == full_name)
    return true;
  if (pattern.find('/') != std::string_view::npos)
    return false;
  const auto slash = full_name.find('/');
  return slash != std::string_view::npos &&
         (pattern == full_name.substr(0, slash) || pattern == full_name.substr(slash + 1));
}

bool matches(const rule& r, const work_facts& f) noexcept {
  if (r.target != rule_target::work || !r.bytes.holds(f.bytes) ||
      ((r.ops == 0 ? all_but_recv : r.ops) & 1U << static_cast<int>(f.op)) == 0)
    return false;
  const bool from_requester =
      f.is_answer ? r.direction == rule_direction::ack || r.direction == rule_direction::rx
                  : r.direction == rule_direction::request || r.direction == rule_direction::tx;
  if (from_requester && names_device(r.device, f.requester) && names_device(r.peer, f.responder) &&
      (!r.qp || *r.qp == f.requester_qp) && r.region.holds(f.region) && r.peer_region.holds(f.peer_region))
    return true;
  const bool from_responder =
      f.is_answer ? r.direction == rule_direction::tx : r.direction == rule_direction::rx;
  return from_responder && names_device(r.device, f.responder) && names_device(r.peer, f.requester) &&
         (!r.qp || *r.qp == f.responder_qp) && r.region.holds(f.peer_region) && r.peer_region.holds(f.region);
}

bool matches(const rule& r, const verb_facts& f) noexcept {
  if (r.target != rule_target::verb || (r.verbs >> static_cast<int>(f.call) & 1) == 0 ||
      !names_device(r.device, f.device) || (r.qp && *r.qp != f.qp))
    return false;
  if (f.call != verb::modify_qp)
    return true;
  return (r.states_to == 0 || (r.states_to & f.to) != 0) &&
         (r.states_from == 0 || (r.states_from & f.from) != 0);
}

bool matches(const rule& r, const event_facts& f) noexcept {
  return r.target == rule_target::event && (r.events >> static_cast<int>(f.type) & 1) != 0 &&
         names_device(r.device, f.device) && (!r.qp || *r.qp == f.qp);
}

bool fires(const rule& r, std::uint64_t n, std::uint64_t seed) noexcept {
  if (n <= r.skip)
    return false;
  const auto i = n - r.skip;
  if ((r.nth != 0 && i != r.nth) || (r.every != 0 && i % r.every != 0) || i > r.first)
    return false;
  return r.chance_ppm >= 1'000'000 || mix(seed ^ mix(n)) % 1'000'000 < r.chance_ppm;
}

} // namespace actor_rdma::verbs::soft
