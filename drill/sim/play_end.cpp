// SPDX-License-Identifier: Apache-2.0
// The end of a run: does every rail carry again, does everything come to rest, is nothing left.
#include "drill/offers.hpp"
#include "drill/sim/play.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace actor_rdma::drill {

namespace {

using namespace std::chrono_literals;

constexpr base::duration rail_poll = 2ms;
/// More than probes need.
constexpr std::uint64_t carried_bytes = 4096;
constexpr base::duration rest_poll = 20ms;
constexpr base::duration rest_patience = 10s;
/// Nothing is open, nothing is broken: so long, so few jobs for each host and device.
constexpr base::duration idle_time = 200ms;
constexpr std::uint64_t idle_jobs_each = 400;

} // namespace

// -- convergence ----------------------------------------------------------------------------------

void play::watch_rails() {
  for (const auto& d : stage_.cluster().fabric().devices())
    for (auto& r : rails_)
      if (r.from == d.name)
        r.sent_at_fault = d.bytes_sent;
  stage_.cluster().world().at(stage_.cluster().now() + rail_poll, [this, since = facts_.faults.size()] {
    if (since == facts_.faults.size())
      look_at_rails();
  });
}

void play::look_at_rails() {
  bool all = true;
  for (const auto& d : stage_.cluster().fabric().devices())
    for (auto& r : rails_)
      if (!r.carried && r.from == d.name) {
        if (d.bytes_sent >= r.sent_at_fault + carried_bytes)
          r.carried = stage_.cluster().now();
        else
          all = false;
      }
  const bool give_up_looking = facts_.converge_until.count() != 0 && now() > facts_.converge_until;
  if (!all && !give_up_looking)
    stage_.cluster().world().at(stage_.cluster().now() + rail_poll, [this, since = facts_.faults.size()] {
      if (since == facts_.faults.size())
        look_at_rails();
    });
}

/// Messages that a fault was told to meet come when they come, the last one later than the fault began.
void play::end_message_faults() {
  const auto last = stage_.end_message_faults();
  if (!last || *last - zero_ <= facts_.last_fault)
    return;
  was_last_fault(*last - zero_);
  watch_rails();
}

bool play::every_rail_carries() {
  if (what_.faults.empty())
    return true;
  const auto flows_over = now();
  end_message_faults();
  facts_.converge_until = std::max(flows_over, facts_.last_fault) + what_.bounds.converge_within;
  for (auto& f : after_flows_)
    f.begin();
  const auto may = [this](const rail& r) { return stage_.can_carry(r.from, r.to); };
  const auto all = [&] {
    return std::all_of(rails_.begin(), rails_.end(), [&](const rail& r) { return r.carried || !may(r); });
  };
  // A little longer than allowed, so that the check can say how late it was.
  step_until(all, zero_ + facts_.converge_until + what_.bounds.converge_within);
  for (auto& f : after_flows_)
    f.finish();
  for (const auto& r : rails_)
    facts_.rails.push_back(fact_of_rail(facts_, r.from, r.to, may(r),
                                        r.carried ? std::optional{*r.carried - zero_} : std::nullopt,
                                        flows_over));
  const auto idle = [&] {
    return std::none_of(after_flows_.begin(), after_flows_.end(), [](const flow& f) { return f.has_open(); });
  };
  step_until(idle, stage_.cluster().now() + 60s); // their transfers are transfers like others
  return true;
}

// -- rest -----------------------------------------------------------------------------------------

bool play::come_to_rest() {
  auto& cluster = stage_.cluster();
  // Counters can come back only where nothing is broken for good.
  const bool whole = std::all_of(rails_.begin(), rails_.end(),
                                 [&](const rail& r) { return stage_.can_carry(r.from, r.to); });
  const auto until = cluster.now() + rest_patience;
  while (whole && count() != at_start_ && cluster.now() < until) {
    const auto next = cluster.now() + rest_poll;
    cluster.world().at(next, [] {});
    step_until([&] { return cluster.now() >= next; }, next + rest_poll);
  }
  if (whole) {
    const auto is = count();
    for (const auto& [name, n] : at_start_) {
      const auto found =
          std::find_if(is.begin(), is.end(), [&n = name](const auto& c) { return c.first == n; });
      facts_.counters.push_back({name, n, found == is.end() ? 0 : found->second});
    }
  }
  const auto steps = cluster.world().steps();
  const auto idle_until = cluster.now() + idle_time;
  cluster.world().at(idle_until, [] {});
  step_until([&] { return cluster.now() >= idle_until; }, idle_until + rest_poll);
  const auto jobs = cluster.world().steps() - steps;
  std::uint64_t parts = 0;
  for (const auto& h : what_.hosts)
    parts += 1 + h.ports().size();
  if (whole && jobs > parts * idle_jobs_each)
    facts_.progress.push_back({now(), fmt::format("{} jobs in {} ms with nothing to do; {} are plenty", jobs,
                                                  idle_time / 1ms, parts * idle_jobs_each)});
  // What every actor says it still holds.
  for (const auto& [name, machine] : stage_.hosts()) {
    auto& on = *machine; // a lambda cannot capture a structured binding
    if (!on.is_alive() || on.is_frozen())
      continue;
    const auto gather = on.engine().snapshot();
    step_until([&] { return gather->silent().empty() || !on.is_alive(); }, cluster.now() + 1s);
    if (!on.is_alive()) // it was told to stop, and has
      continue;
    for (const auto& silent : gather->silent())
      facts_.progress.push_back({now(), silent + " does not answer"});
    for (const auto& s : gather->answers()) {
      if (s.kind == "qp" || s.kind == "peer") {
        facts_.counters.push_back(
            {fmt::format("WRs or transfers out at {} {}", s.kind, s.name), 0, s.outstanding});
        facts_.counters.push_back({fmt::format("slices waiting at {} {}", s.kind, s.name), 0, s.queued});
      }
    }
  }
  for (auto* flows : {&flows_, &after_flows_})
    for (auto& f : *flows)
      f.look_again();
  sample_bytes(now());
  return true;
}

bool play::take_down() {
  shutting_down_ = true;
  for (const auto& [name, machine] : stage_.hosts()) {
    if (machine->is_frozen())
      (void)stage_.freeze_host(name, false);
    if (!machine->stop())
      facts_.counters.push_back({"things that could not be released on " + name, 0, 1});
  }
  for (const auto& d : stage_.cluster().fabric().devices()) {
    const bool kept = std::any_of(facts_.verdicts.begin(), facts_.verdicts.end(), [&](const verdict_fact& v) {
      return v.device == d.name && v.verdict == "errno:EIO";
    });
    if (kept && stage_.was_called_lost(d.name))
      continue; // EIO from a device that is called lost: a kernel would have taken the objects away
    facts_.counters.push_back({"QPs of " + d.name + " after the shutdown", 0, d.open_qps});
    facts_.counters.push_back({"memory regions of " + d.name + " after the shutdown", 0, d.open_mrs});
  }
  return true;
}

} // namespace actor_rdma::drill
