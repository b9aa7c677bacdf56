// SPDX-License-Identifier: Apache-2.0
// All checks together, and the report of a failure.
#include "drill/judge.hpp"

#include "drill/checks/expectations.hpp"
#include "drill/checks/invariants.hpp"
#include "drill/checks/recovery.hpp"
#include "drill/checks/statistics.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace actor_rdma::drill {

namespace {

constexpr std::size_t shown_findings = 8;
constexpr std::size_t shown_transitions = 24;
constexpr std::size_t shown_faults = 40; ///< the last ones

const char* name_of(check_class c) {
  switch (c) {
  case check_class::expectation: return "expectation";
  case check_class::invariant: return "invariant";
  case check_class::unfinished: return "unfinished";
  }
  return "?";
}

bool is_involved(const event_fact& e, const std::vector<std::string>& actors) {
  return actors.empty() || std::any_of(actors.begin(), actors.end(), [&](const std::string& a) {
           return e.host == a || e.what.subject.find(a) != std::string::npos;
         });
}

void add_transitions(std::string& text, const run_facts& f, const std::vector<std::string>& actors) {
  std::vector<const event_fact*> last;
  for (auto e = f.events.rbegin(); e != f.events.rend() && last.size() < shown_transitions; ++e)
    if (!e->in_shutdown && is_involved(*e, actors))
      last.push_back(&*e);
  text += fmt::format("  last transitions and events{}:\n", actors.empty() ? "" : " of the actors involved");
  for (auto e = last.rbegin(); e != last.rend(); ++e) {
    const auto& w = (*e)->what;
    if (w.kind == observe::event_kind::transition)
      text += fmt::format("    {:12.3f} ms  {}: {} -> {} ({})\n", in_ms((*e)->at), w.subject, w.from, w.to,
                          w.detail);
    else
      text += fmt::format("    {:12.3f} ms  {}: {}: {} [{:#x}]\n", in_ms((*e)->at), w.subject,
                          to_string(w.kind), w.detail, w.value);
  }
}

std::string tell(const scenario& s, const run_facts& f, const std::vector<finding>& findings) {
  std::string text = fmt::format("FAILED {} ({}), seed {}\n", s.path.empty() ? s.id : s.path, s.id, f.seed);
  std::vector<std::string> actors;
  for (std::size_t i = 0; i < findings.size(); ++i) {
    const auto& x = findings[i];
    if (i == shown_findings)
      text += fmt::format("  and {} more\n", findings.size() - shown_findings);
    if (i >= shown_findings)
      break;
    text += fmt::format("  {} \"{}\": {}: {}\n", name_of(x.what), x.check, x.about, x.text);
    for (const auto& a : x.actors)
      if (std::find(actors.begin(), actors.end(), a) == actors.end())
        actors.push_back(a);
  }
  text += "  what was done:\n";
  const auto untold = f.faults.size() - std::min(f.faults.size(), shown_faults);
  if (untold > 0)
    text += fmt::format("    {} faults before these\n", untold);
  for (auto fault = f.faults.begin() + static_cast<std::ptrdiff_t>(untold); fault != f.faults.end(); ++fault)
    text += fmt::format("    {:12.3f} ms  {}\n", in_ms(fault->at), fault->text);
  if (!f.void_faults.empty())
    text += "  what found nothing to befall:\n";
  for (const auto& x : f.void_faults)
    text += fmt::format("    {:12.3f} ms  {}: {}\n", in_ms(x.at), x.text, x.why);
  add_transitions(text, f, actors);
  text += (f.in_real_time ? "  try it again: " : "  repeat it: ") +
          repeat_command(s, f.seed, f.in_real_time, f.devices_file) + "\n";
  return text;
}

} // namespace

std::string repeat_command(const scenario& what, std::uint64_t seed, bool in_real_time,
                           const std::string& devices_file) {
  return fmt::format("actor-rdma-drill run {}{} --seed {} --trace",
                     !devices_file.empty() ? "--fabric verbs --devices " + devices_file + " "
                     : in_real_time        ? "--real "
                                           : "",
                     what.path, seed);
}

int status_of(const std::vector<finding>& findings) {
  int status = exit_good;
  for (const auto& f : findings)
    status = std::max<int>(status, f.what == check_class::unfinished  ? exit_unfinished
                                   : f.what == check_class::invariant ? exit_invariant
                                                                      : exit_expectation);
  return status;
}

verdict judge(const scenario& what, const run_facts& facts) {
  verdict v;
  v.seed = facts.seed;
  v.in_real_time = facts.in_real_time;
  v.devices_file = facts.devices_file;
  v.not_checked = facts.not_checked;
  v.fingerprint = facts.fingerprint;
  v.steps = facts.steps;
  v.virtual_ms = in_ms(facts.ended);
  for (const auto& x : facts.void_faults)
    v.void_faults[x.which] += x.is_over ? 0 : 1;
  std::erase_if(v.void_faults, [](const auto& x) { return x.second == 0; });
  for (const auto& t : facts.transfers)
    if (!t.is_after_traffic)
      ++v.transfers[t.host_died ? "lost with their process" : to_string(t.status)];
  if (facts.unfinished)
    v.findings.push_back({check_class::unfinished, "end", "the run", *facts.unfinished, {}});
  for (auto& f : check_invariants(what, facts))
    v.findings.push_back(std::move(f));
  if (!facts.unfinished) {
    v.figures = figures_of(what, facts);
    for (auto& f : check_expectations(what, facts, v.figures))
      v.findings.push_back(std::move(f));
  }
  v.is_void = std::any_of(what.expect.begin(), what.expect.end(), [&](const expect_spec& e) {
    const auto* kind = find_expect_kind(e.kind);
    return kind != nullptr && kind->is_time_of_recovery && is_void(facts, e.fault, e.traffic);
  });
  v.status = status_of(v.findings);
  if (v.status != exit_good)
    v.report = tell(what, facts, v.findings);
  return v;
}

} // namespace actor_rdma::drill
