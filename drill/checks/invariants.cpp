// SPDX-License-Identifier: Apache-2.0
// The eight invariants.
#include "drill/checks/invariants.hpp"

#include "drill/checks/notice_check.hpp"
#include "drill/checks/statistics.hpp"
#include "drill/set_up.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>

namespace actor_rdma::drill {

namespace {

using findings = std::vector<finding>;

std::string name_of(const transfer_fact& t) {
  return fmt::format("transfer {} of {} ({} to {}, {} bytes)", t.number, t.traffic, t.from, t.to, t.bytes);
}

void add(findings& all, const char* check, std::string about, std::string text,
         std::vector<std::string> actors) {
  all.push_back({check_class::invariant, check, std::move(about), std::move(text), std::move(actors)});
}

// -- one end per WR -------------------------------------------------------------------------------

void one_end(const scenario& s, const run_facts& f, findings& all) {
  constexpr auto check = "one end per WR";
  for (const auto& t : f.transfers) {
    if (t.host_died)
      continue;
    const auto limit = t.deadline + t.allowance + s.bounds.end_grace;
    const auto say = [&](std::string text) { add(all, check, name_of(t), std::move(text), {t.from, t.to}); };
    if (!t.ended && f.unfinished && f.ended <= limit)
      continue;
    if (!t.ended)
      say(fmt::format("never ended; its deadline was {:.3f} ms", in_ms(t.deadline)));
    else if (*t.ended > limit)
      say(fmt::format("ended as {} at {:.3f} ms, {:.3f} ms after its deadline; at most {:.3f} ms are allowed",
                      to_string(t.status), in_ms(*t.ended), in_ms(*t.ended - t.deadline),
                      in_ms(limit - t.deadline)));
    if (t.ends > 1)
      say(fmt::format("ended {} times", t.ends));
    if (t.ended && t.status == transfer_status::pending)
      say("its batch was told to be over while it was pending");
    if (t.ended && !f.unfinished && t.final_status != t.status)
      say(fmt::format("ended as {} and was {} later", to_string(t.status), to_string(t.final_status)));
  }
}

// -- no late byte ---------------------------------------------------------------------------------

void no_late_byte(const scenario&, const run_facts& f, findings& all) {
  for (const auto& b : f.late_bytes)
    add(all, "no late byte", fmt::format("transfer {} of {}", b.number, b.traffic),
        fmt::format("{} (seen at {:.3f} ms)", b.what, in_ms(b.seen)), {});
  for (const auto& t : f.transfers)
    if (t.wrong_content)
      add(all, "no late byte", name_of(t), "completed with wrong content: " + *t.wrong_content,
          {t.from, t.to});
}

// -- conservation ---------------------------------------------------------------------------------

void conservation(const scenario&, const run_facts& f, findings& all) {
  for (const auto& c : f.counters)
    if (c.at_start != c.at_end)
      add(all, "conservation", c.name, fmt::format("{} at the start, {} in the end", c.at_start, c.at_end),
          {});
  // Allocators keep some of what they were given back.
  constexpr std::uint64_t mib = 1 << 20;
  for (const auto& g : f.growth)
    if (g.late_bytes > g.early_bytes + g.early_bytes / 10 + 8 * mib)
      add(all, "conservation", "memory of " + g.host,
          fmt::format("grew from {} MiB to {} MiB in {} s", g.early_bytes / mib, g.late_bytes / mib,
                      g.watched / std::chrono::seconds{1}),
          {g.host});
}

// -- convergence ----------------------------------------------------------------------------------

void convergence(const scenario& s, const run_facts& f, findings& all) {
  constexpr auto check = "convergence";
  if (f.faults.empty())
    return;
  for (const auto& r : f.rails)
    if (r.must_carry && (!r.carried_after || *r.carried_after > s.bounds.converge_within))
      add(all, check, r.name,
          r.carried_after
              ? fmt::format(
                    "carried traffic only {:.3f} ms after the last fault was over; accepted are {} ms",
                    in_ms(*r.carried_after), in_ms(s.bounds.converge_within))
              : fmt::format("carried nothing in {:.3f} ms after the last fault was over",
                            in_ms(f.converge_until - f.last_fault)),
          {r.name});
  std::map<std::string, std::uint64_t> made;
  for (const auto& q : f.made_qps)
    if (q.at > f.last_fault && q.at <= f.converge_until)
      ++made[q.what.subject];
  auto qps = qps_of_devices(s);
  for (const auto& [device, n] : made)
    if (const auto most = s.bounds.reconnects_at_most.value_or(usual_reconnects(qps[device])); n > most)
      add(all, check, device,
          fmt::format("made {} QPs after the last fault was over; accepted are {}", n, most), {device});
  std::uint64_t lines = 0;
  for (const auto& l : f.log)
    lines += l.at > f.last_fault && l.at <= f.converge_until ? 1 : 0;
  if (lines > s.bounds.log_lines_at_most)
    add(all, check, "log",
        fmt::format("{} lines after the last fault was over; accepted are {}", lines,
                    s.bounds.log_lines_at_most),
        {});
}

// -- isolation ------------------------------------------------------------------------------------

/// Every job of the simulation moves the one clock a little, so unrelated work is not quite unrelated.
constexpr base::duration isolation_slack = std::chrono::microseconds{50};
constexpr std::size_t isolation_samples = 50;

void isolation(const scenario& s, const run_facts& f, findings& all) {
  if (f.faults.empty())
    return;
  const auto touched = [&](const std::string& host) {
    return std::find(f.faulted_hosts.begin(), f.faulted_hosts.end(), host) != f.faulted_hosts.end();
  };
  const auto first = f.faults.front().at;
  for (const auto& traffic : s.traffic) {
    if (touched(traffic.from) || touched(traffic.to))
      continue;
    std::vector<base::duration> before;
    std::vector<base::duration> after;
    for (const auto& t : f.transfers)
      if (t.traffic == traffic.name && t.ended)
        (t.submitted < first ? before : after).push_back(*t.ended - t.submitted);
    if (before.size() < isolation_samples || after.size() < isolation_samples)
      continue;
    const auto was = *percentile(before, 99);
    const auto is = *percentile(after, 99);
    const auto limit =
        std::max(base::duration{static_cast<std::int64_t>(static_cast<double>(was.count()) *
                                                          (1 + s.bounds.isolation_percent / 100))},
                 was + isolation_slack);
    if (is > limit)
      add(all, "isolation", traffic.name,
          fmt::format("no fault touches {} or {}, but p99 was {:.3f} ms before the first fault and {:.3f} ms "
                      "from then on",
                      traffic.from, traffic.to, in_ms(was), in_ms(is)),
          {traffic.from, traffic.to});
  }
}

// -- honesty --------------------------------------------------------------------------------------

/// Some event of the host about this peer says what the transfer's cause says.
bool is_explained(const run_facts& f, const transfer_fact& t) {
  using observe::event_kind;
  const auto kind = t.cause == base::reason::peer_dead       ? std::optional{event_kind::peer_dead}
                    : t.cause == base::reason::request_fault ? std::optional{event_kind::wr_error}
                    : t.cause == base::reason::peer_rejected ? std::optional{event_kind::rejected}
                                                             : std::nullopt;
  if (!kind)
    return true;
  return std::any_of(f.events.begin(), f.events.end(), [&](const event_fact& e) {
    return e.host == t.from && e.what.kind == *kind && e.what.subject.find(t.to) != std::string::npos;
  });
}

void honesty(const scenario&, const run_facts& f, findings& all) {
  constexpr auto check = "honesty";
  for (const auto& t : f.transfers)
    if (t.wrong_receipt)
      add(all, check, name_of(t), "its receipt cannot be right: " + *t.wrong_receipt, {t.from, t.to});
  using observe::event_kind;
  for (const auto& t : f.transfers) {
    if (t.ended && t.status == transfer_status::failed && t.cause == base::reason::none)
      add(all, check, name_of(t), "failed without a cause", {t.from, t.to});
    if (t.ended && t.status == transfer_status::failed && !is_explained(f, t))
      add(all, check, name_of(t),
          fmt::format("failed as {}, but no event of {} names {} with that", base::to_string(t.cause), t.from,
                      t.to),
          {t.from, t.to});
    if (t.ended && t.status == transfer_status::completed && t.cause != base::reason::none)
      add(all, check, name_of(t), fmt::format("completed, and says {}", base::to_string(t.cause)),
          {t.from, t.to});
  }
  for (const auto& e : f.events) {
    const bool must_say_why = e.what.kind == event_kind::rejected || e.what.kind == event_kind::peer_dead ||
                              e.what.kind == event_kind::peer_lost || e.what.kind == event_kind::wr_error ||
                              e.what.kind == event_kind::quarantined;
    if (must_say_why && (e.what.detail.empty() || e.what.subject.empty()))
      add(all, check, e.what.subject,
          fmt::format("{} at {:.3f} ms says {}", to_string(e.what.kind), in_ms(e.at),
                      e.what.detail.empty() ? "no cause" : "not whom it is about"),
          {e.what.subject});
    if (e.what.kind == event_kind::internal_fault)
      add(all, check, e.what.subject,
          fmt::format("internal fault at {:.3f} ms: {}", in_ms(e.at), e.what.detail), {e.what.subject});
  }
}

// -- progress -------------------------------------------------------------------------------------

void progress(const scenario&, const run_facts& f, findings& all) {
  for (const auto& p : f.progress)
    add(all, "progress", fmt::format("at {:.3f} ms", in_ms(p.at)), p.what, {});
}

} // namespace

const std::vector<invariant>& invariants() {
  static const std::vector<invariant> table{
      {"one end per WR",
       "every accepted transfer ends exactly once, before its deadline and a fixed grace are over", one_end},
      {"no late byte",
       "nothing of a transfer lands or is read after its end was told, and what completed is right",
       no_late_byte},
      {"notice after data, once",
       "a notice is seen at most once, with its data in place, and exactly as its sender was told: always "
       "when delivered, never when withheld or lost, perhaps when unknown",
       check_notices},
      {"conservation",
       "QPs, memory regions, send queue slots, bytes in flight and descriptors are back at their "
       "start values",
       conservation},
      {"convergence",
       "after the last fault every rail carries traffic again, in bounded time, with a bounded number "
       "of reconnects and log lines",
       convergence},
      {"isolation", "the p99 of traffic between hosts that no fault touches does not change", isolation},
      {"honesty", "every failure names its cause, peer and rail, and nothing is a success that was none",
       honesty},
      {"progress", "no lane makes a slow call and nothing spins without getting anywhere", progress},
  };
  return table;
}

std::vector<finding> check_invariants(const scenario& what, const run_facts& facts) {
  std::vector<finding> all;
  for (const auto& i : invariants())
    if (std::count(facts.not_checked.begin(), facts.not_checked.end(), i.name) == 0)
      i.check(what, facts, all);
  return all;
}

} // namespace actor_rdma::drill
