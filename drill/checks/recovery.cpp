// SPDX-License-Identifier: Apache-2.0
// The four times.
#include "drill/checks/recovery.hpp"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

namespace actor_rdma::drill {

namespace {

using namespace std::chrono_literals;
using time = std::optional<base::duration>;

/// The rate is that of completed bytes over so long; shorter ones show the grain of the transfers.
constexpr base::duration rate_window = 50ms;
constexpr base::duration rate_before = 500ms;
constexpr double full = 0.95;

time moment_of(const run_facts& f, std::size_t fault, bool over) {
  const auto found = std::find_if(f.faults.begin(), f.faults.end(),
                                  [&](const fault_fact& x) { return x.which == fault && x.is_over == over; });
  return found == f.faults.end() ? time{} : time{found->at};
}

bool is_of(const transfer_fact& t, const std::string& traffic) {
  return !t.is_after_traffic && (traffic.empty() || t.traffic == traffic);
}

/// By which a host says that it knows of a fault. A state that is better than the one before says the
/// opposite.
bool tells_a_fault(const observe::event& e) {
  using kind = observe::event_kind;
  switch (e.kind) {
  case kind::transition: return e.from == "ACTIVE" && e.to != "RETIRED";
  case kind::stall_suspected:
  case kind::wr_error:
  case kind::peer_lost:
  case kind::peer_dead: return true;
  default: return false;
  }
}

/// What a suspect QP has out is issued elsewhere, or a fenced one gave back what it had: it is posted at
/// once.
bool gives_work_back(const observe::event& e) {
  return e.kind == observe::event_kind::reissued || e.kind == observe::event_kind::fenced;
}

time first_event(const run_facts& f, base::duration zero, const std::set<std::string>& hosts,
                 bool (*is_it)(const observe::event&)) {
  time first;
  for (const auto& e : f.events)
    if (e.at >= zero && !e.in_shutdown && hosts.count(e.host) != 0 && is_it(e.what) &&
        (!first || e.at < *first))
      first = e.at;
  return first ? time{*first - zero} : time{};
}

time last_end_of_open(const run_facts& f, base::duration zero, const std::string& traffic) {
  time last;
  for (const auto& t : f.transfers)
    if (is_of(t, traffic) && t.submitted <= zero && t.ended && *t.ended > zero)
      last = std::max(last.value_or(base::duration{}), *t.ended - zero);
  return last;
}

time back_at_full_rate(const run_facts& f, base::duration zero, base::duration heal,
                       const std::string& traffic) {
  std::vector<std::pair<base::duration, std::uint64_t>> ends;
  std::uint64_t before = 0;
  for (const auto& t : f.transfers)
    if (is_of(t, traffic) && t.ended && t.status == transfer_status::completed) {
      ends.emplace_back(*t.ended, t.bytes);
      before += *t.ended >= zero - rate_before && *t.ended < zero ? t.bytes : 0;
    }
  std::sort(ends.begin(), ends.end());
  const auto wanted = full * static_cast<double>(before) * static_cast<double>(rate_window.count()) /
                      static_cast<double>(rate_before.count());
  if (before == 0 || ends.empty())
    return std::nullopt;
  // A window begins with the heal or with an end; what is completed in it is summed as it slides.
  const auto at_heal = std::lower_bound(ends.begin(), ends.end(), std::pair{heal, std::uint64_t{0}});
  auto from = at_heal;
  auto to = at_heal;
  std::uint64_t bytes = 0;
  for (auto begin = heal; begin + rate_window <= ends.back().first;) {
    for (; to != ends.end() && to->first < begin + rate_window; ++to)
      bytes += to->second;
    if (static_cast<double>(bytes) >= wanted)
      return begin - heal;
    if (from == ends.end())
      break;
    bytes -= from->second;
    begin = ++from == ends.end() ? begin : from->first;
  }
  return std::nullopt;
}

} // namespace

recovery recovery_from(const run_facts& facts, std::size_t fault, const std::string& traffic) {
  recovery r;
  const auto zero = moment_of(facts, fault, false);
  if (!zero)
    return r;
  std::set<std::string> initiators;
  for (const auto& t : facts.transfers)
    if (is_of(t, traffic))
      initiators.insert(t.from);
  r.detected = first_event(facts, *zero, initiators, tells_a_fault);
  r.reissued = first_event(facts, *zero, initiators, gives_work_back);
  r.settled = last_end_of_open(facts, *zero, traffic);
  r.full_rate = back_at_full_rate(facts, *zero, moment_of(facts, fault, true).value_or(*zero), traffic);
  return r;
}

bool is_void(const run_facts& facts, std::size_t fault, const std::string& traffic) {
  if (facts.machine_gaps.empty())
    return false;
  const auto zero = moment_of(facts, fault, false);
  if (!zero)
    return false;
  const auto r = recovery_from(facts, fault, traffic);
  auto until = *zero;
  for (const auto& t : {r.detected, r.reissued, r.settled})
    if (t)
      until = std::max(until, *zero + *t);
  return std::any_of(facts.machine_gaps.begin(), facts.machine_gaps.end(),
                     [&](const gap_fact& g) { return g.at <= until && g.at + g.lasted >= *zero; });
}

} // namespace actor_rdma::drill
