// SPDX-License-Identifier: Apache-2.0
// Coming up, the main part, and what is looked at between two steps.
#include "drill/sim/play.hpp"

#include "drill/checks/expectations.hpp"
#include "drill/fault_kinds.hpp"
#include "drill/set_up.hpp"
#include "verbs/soft/rules/rule.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace actor_rdma::drill {

namespace {

using namespace std::chrono_literals;

constexpr auto come_up_patience = 20s;
/// So many jobs in this time, and not one transfer or completion: that is spinning. (A job takes 200 ns.)
constexpr base::duration pace_window = 20ms; ///< times each `pace_hosts`: all hosts take turns on one clock
constexpr std::uint64_t pace_limit = 90'000;
constexpr std::size_t pace_hosts = 8;
constexpr std::size_t kept_lines = 200;

/// Which devices the fault's rules speak of.
std::vector<std::string> ruled_devices(const fault_spec& f,
                                       const std::vector<verbs::soft::device_state>& devices) {
  std::vector<std::string> all;
  const auto* kind = find_fault_kind(f.kind);
  if (kind->rules)
    for (const auto& text : kind->rules(f))
      for (const auto& d : devices)
        if (const auto r = verbs::soft::parse_rule(text);
            r && (verbs::soft::names_device(r->device, d.name) ||
                  (!r->peer.empty() && verbs::soft::names_device(r->peer, d.name))))
          all.push_back(d.name);
  return all;
}

} // namespace

play::play(const scenario& what, std::uint64_t seed, const run_wishes& wishes, run_facts& into)
    : what_(what), facts_(into), stage_(what, seed), random_(seed * 0x9e3779b97f4a7c15 + 1),
      agenda_(what, into) {
  auto& world = stage_.cluster().world();
  if (!wishes.trace)
    world.keep_lines(kept_lines);
  zero_ = world.now();
  stage_.cluster().slow_call_on_lane = [this](const std::string& call) {
    facts_.progress.push_back({now(), "a verbs call that may block: " + call});
  };
  for (const auto& [name, machine] : stage_.hosts()) {
    machine->hear = [this, host = name](const observe::event& e) { hear(host, e); };
    machine->batch_ended = [this](const auto& batch) {
      for (auto* flows : {&flows_, &after_flows_})
        for (auto& f : *flows)
          f.batch_ended(batch);
    };
    machine->notice_arrived = [this, by = machine](const received_notice& taken) {
      for (auto* flows : {&flows_, &after_flows_})
        for (auto& f : *flows)
          f.notice_taken(*by, taken);
    };
  }
  const auto each_flow = [this](void (flow::*tell)(const sim::machine&), const sim::machine& m) {
    for (auto* flows : {&flows_, &after_flows_})
      for (auto& f : *flows)
        (f.*tell)(m);
  };
  stage_.killed = [this, each_flow](const sim::machine& m) {
    active_qps_[m.name()].clear();
    each_flow(&flow::host_killed, m);
  };
  stage_.stopping = [each_flow](const sim::machine& m) { each_flow(&flow::host_stopping, m); };
  stage_.stopped = [this](const sim::machine& m, const std::vector<std::string>& left) {
    for (const auto* flows : {&flows_, &after_flows_})
      for (const auto& f : *flows)
        if (&f.from() == &m && f.has_open())
          facts_.counters.push_back(
              {"batches of " + f.spec().name + " that " + m.name() + " left open when it stopped", 0, 1});
    for (const auto& one : left)
      facts_.counters.push_back({"could not be released on " + m.name() + ": " + one, 0, 1});
  };
  stage_.revoked = [this](const std::string& traffic, bool on) -> stage::done {
    for (auto& f : flows_)
      if (f.spec().name == traffic)
        f.revoke(on);
    return {};
  };
  stage_.restarted = [each_flow](const sim::machine& m) { each_flow(&flow::host_restarted, m); };
}

play::~play() = default;

bool play::give_up(std::string why) {
  facts_.unfinished = std::move(why);
  return false;
}

void play::hear(const std::string& host, const observe::event& what) {
  facts_.events.push_back({host, what.at - zero_, what, shutting_down_});
  if (what.kind != observe::event_kind::transition || what.subject.find('#') == std::string::npos ||
      what.subject.find('>') == std::string::npos) // the acceptors' QPs are named "b/soft0<a/soft0#0"
    return;
  if (what.to == "ACTIVE")
    active_qps_[host].insert(what.subject);
  else
    active_qps_[host].erase(what.subject);
}

// -- between two steps ----------------------------------------------------------------------------

bool play::step_until(const std::function<bool()>& done, base::time_point until) {
  auto& world = stage_.cluster().world();
  while (!done()) {
    if (world.now() > until || !world.step())
      return false;
    look();
  }
  return true;
}

void play::look() {
  look_at_log();
  look_at_pace();
}

void play::look_at_log() {
  using verbs::soft::log_kind;
  auto& cluster = stage_.cluster();
  const auto entries = cluster.fabric().read_log(log_next_, log_next_);
  for (const auto& e : entries) {
    if (e.kind == log_kind::rule) {
      verdict_fact v{e.at - zero_, e.device, e.op, e.verdict, e.rule};
      cluster.world().trace(fmt::format("{}: rule {}: {} {}{} qp {:#x} wr {:#x}", e.device, e.rule, e.op,
                                        e.verdict, e.peer.empty() ? "" : " towards " + e.peer, e.qp_num,
                                        e.wr_id));
      facts_.verdicts.push_back(std::move(v));
      continue;
    }
    cluster.world().trace(fmt::format("{}: {} qp {:#x} wr {:#x} {} bytes ({})", e.device, to_string(e.kind),
                                      e.qp_num, e.wr_id, e.length, e.detail));
    if (e.kind == log_kind::qp_created) {
      event_fact made;
      made.host = host_of(e.device);
      made.at = e.at - zero_;
      made.what.subject = e.device;
      facts_.made_qps.push_back(std::move(made));
    }
    if (e.kind == log_kind::landed_late)
      for (auto* flows : {&flows_, &after_flows_})
        for (auto& f : *flows)
          f.landed_late(e.remote_addr);
  }
}

void play::look_at_pace() {
  const auto t = stage_.cluster().now();
  const auto turns = static_cast<std::int64_t>((what_.hosts.size() + pace_hosts - 1) / pace_hosts);
  const auto window = pace_window * turns;
  if (t - pace_since_ < window)
    return;
  std::uint64_t ended = 0;
  for (const auto* flows : {&flows_, &after_flows_})
    for (const auto& f : *flows)
      ended += f.ended();
  const auto steps = stage_.cluster().world().steps();
  if (t - pace_since_ < 2 * window && steps - pace_steps_ > pace_limit * static_cast<std::uint64_t>(turns) &&
      ended == pace_ended_ && facts_.progress.size() < 10)
    facts_.progress.push_back(
        {now(), fmt::format("{} jobs in {} ms, and no transfer ended: something spins", steps - pace_steps_,
                            (t - pace_since_) / std::chrono::milliseconds{1})});
  pace_since_ = t;
  pace_steps_ = steps;
  pace_ended_ = ended;
}

// -- coming up ------------------------------------------------------------------------------------

void play::make_flows() {
  const auto place = [this](const traffic_spec& t) {
    flow::place p;
    p.in = &stage_.cluster();
    p.from = &stage_.host(t.from);
    p.to = &stage_.host(t.to);
    p.facts = &facts_;
    p.zero = &zero_;
    p.moves_payload = what_.host(t.from)->moves_payload();
    p.ended = [this] { batch_ended(); };
    p.cannot_go_on = [this](const std::string& why) {
      if (failure_.empty())
        failure_ = why;
    };
    return p;
  };
  std::set<std::pair<std::string, std::string>> pairs;
  for (const auto& t : what_.traffic) {
    flows_.emplace_back(t, place(t));
    if (what_.faults.empty() || !pairs.insert({t.from, t.to}).second)
      continue;
    const auto rails = carrying_rails_of(what_, t.from, t.to);
    for (const auto& [from, to] : rails)
      rails_.push_back({from, to, 0, {}});
    traffic_spec after;
    after.name = fmt::format("(after the faults, {} to {})", t.from, t.to);
    after.from = t.from;
    after.to = t.to;
    after.sizes = {32 * 1024};
    after.batch = rails.size() * 2;
    after.depth = 2;
    // A rail that was slow once gets some again after half a second: no need for full speed until then.
    after.rate_per_s = 2000;
    after.repeat_until = base::duration::max();
    after.deadline = t.deadline;
    after.verify = what_.host(t.from)->moves_payload();
    after_flows_.emplace_back(after, place(after), true);
  }
}

std::size_t play::expected_qps() const {
  std::set<std::pair<std::string, std::string>> pairs;
  std::size_t n = 0;
  for (const auto& t : what_.traffic)
    if (pairs.insert({t.from, t.to}).second)
      n += rails_of(what_, t.from, t.to).size() * what_.host(t.from)->config.qps_per_endpoint;
  return n;
}

bool play::come_up() {
  if (const auto& opened = stage_.opened(); !opened)
    return give_up("set-up: " + opened.error().to_string());
  if (const auto why = too_much_memory(what_, physical_memory()); !why.empty())
    return give_up("set-up: " + why);
  make_flows();
  for (auto* flows : {&flows_, &after_flows_})
    for (auto& f : *flows)
      f.prepare();
  const auto want = expected_qps();
  const auto usable = [&] {
    std::size_t n = 0;
    for (const auto& [host, qps] : active_qps_)
      n += qps.size();
    return n;
  };
  const auto ready = [&] {
    for (const auto* flows : {&flows_, &after_flows_})
      for (const auto& f : *flows)
        if (!f.is_ready())
          return false;
    return usable() >= want;
  };
  const auto is_decided = [&] { return !failure_.empty() || ready(); };
  if (!step_until(is_decided, stage_.cluster().now() + come_up_patience))
    return give_up(fmt::format("set-up: {} of {} QPs were usable after {} s, before any fault{}", usable(),
                               want, come_up_patience.count(), why_not_up(what_, facts_)));
  if (!failure_.empty())
    return give_up("set-up: " + failure_);
  const auto old_zero = zero_;
  zero_ = stage_.cluster().now();
  for (auto& e : facts_.events)
    e.at -= zero_ - old_zero;
  for (auto& q : facts_.made_qps)
    q.at -= zero_ - old_zero;
  at_start_ = count();
  return true;
}

play::counters play::count() {
  counters all;
  for (const auto& d : stage_.cluster().fabric().devices()) {
    all.emplace_back("QPs of " + d.name, d.open_qps);
    all.emplace_back("memory regions of " + d.name, d.open_mrs);
  }
  return all;
}

/// `as_of` is the time that was asked for, which is not quite when its turn comes.
void play::sample_bytes(base::duration as_of) {
  for (const auto& d : stage_.cluster().fabric().devices())
    facts_.bytes.push_back({as_of, d.name, d.bytes_sent});
}

// -- faults ---------------------------------------------------------------------------------------

void play::plan() {
  auto& world = stage_.cluster().world();
  for (auto& f : flows_)
    world.at(zero_ + f.spec().start, [&f] { f.begin(); });
  sample_bytes({});
  for (const auto t : sample_times(what_))
    if (t.count() > 0)
      world.at(zero_ + t, [this, t] { sample_bytes(t); });
  std::set<std::string> hosts;
  for (const auto& f : what_.faults) {
    for (const auto& h : {f.host, f.from, f.to, host_of(f.device)})
      if (!h.empty())
        hosts.insert(h);
    // A traffic is what such a fault strikes at, not only what its time is counted by.
    if (const auto& keys = find_fault_kind(f.kind)->must_have;
        std::find(keys.begin(), keys.end(), "traffic") != keys.end())
      for (const auto& t : what_.traffic)
        if (t.name == f.traffic)
          hosts.insert(t.to);
    for (const auto& device : ruled_devices(f, stage_.cluster().fabric().devices()))
      hosts.insert(host_of(device));
  }
  facts_.faulted_hosts.assign(hosts.begin(), hosts.end());
  const auto at_once = agenda_.plan(random_, [&](base::duration due, const fault_spec& f) {
    world.at(zero_ + due, [this, &f] { begin_fault(f); });
  });
  for (const auto* f : at_once) // before the traffic of 0 ms
    begin_fault(*f);
}

void play::begin_fault(const fault_spec& what) {
  agenda_.begins(what);
  do_fault(what, false);
  if (!what.lasts)
    return;
  stage_.cluster().world().at(stage_.cluster().now() + *what.lasts, [this, &what] {
    agenda_.is_undone();
    do_fault(what, true);
  });
}

/// What rails carried before it says nothing.
void play::was_last_fault(base::duration at) {
  facts_.last_fault = at;
  for (auto& r : rails_)
    r.carried.reset();
}

void play::do_fault(const fault_spec& what, bool undo) {
  stage_.cluster().world().trace("fault: " + agenda_.trace_words(what, undo, stage_));
  const auto why_not = agenda_.act(what, undo, stage_, now());
  if (failure_.empty())
    failure_ = why_not;
  was_last_fault(now());
  if (agenda_.is_through())
    watch_rails();
}

void play::batch_ended() {
  for (const auto* f : agenda_.take_counted(flows_)) // not from inside a job of the lane
    stage_.cluster().world().at(stage_.cluster().now(), [this, f] { begin_fault(*f); });
}

// -- the main part --------------------------------------------------------------------------------

bool play::main_part() {
  plan();
  const auto over = [&] {
    if (!failure_.empty())
      return true;
    if (!agenda_.only_counted_are_left())
      return false;
    for (const auto& f : flows_)
      if (!f.is_over() || now() < f.spec().start)
        return false;
    return true;
  };
  const bool good = step_until(over, zero_ + what_.time_limit);
  if (!failure_.empty())
    return give_up(failure_);
  if (!good) {
    std::string open;
    for (const auto& f : flows_)
      if (!f.is_over())
        open += (open.empty() ? "" : ", ") + f.spec().name;
    return give_up(fmt::format("time_limit_ms is over at {} ms; not at their end: {}",
                               now() / std::chrono::milliseconds{1}, open.empty() ? "faults" : open));
  }
  const auto never = agenda_.never_happened();
  return never.empty() || give_up(never);
}

bool play::run() {
  const bool good = come_up() && main_part() && every_rail_carries() && come_to_rest() && take_down();
  facts_.ended = now();
  facts_.fingerprint = stage_.cluster().world().fingerprint();
  facts_.steps = stage_.cluster().world().steps();
  facts_.trace = stage_.cluster().world().lines();
  return good;
}

} // namespace actor_rdma::drill
