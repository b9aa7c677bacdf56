// SPDX-License-Identifier: Apache-2.0
// Coming up and the main part.
#include "drill/real/real_play.hpp"

#include "drill/checks/expectations.hpp"
#include "drill/checks/statistics.hpp"
#include "drill/set_up.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <poll.h>

namespace actor_rdma::drill {

namespace {

using namespace std::chrono_literals;

/// An emulated machine needs a good part of it.
constexpr base::duration come_up_patience = 60s;
/// The NIC's log is a ring, and somebody has to look whether the run is over.
constexpr base::duration longest_turn = 10ms;

} // namespace

real_play::real_play(const scenario& what, std::uint64_t seed, std::unique_ptr<real_devices> devices,
                     const run_wishes& wishes, stop_signals& signals, run_facts& into)
    : what_(what), facts_(into), traces_(wishes.trace), watcher_(wishes.look), signals_(signals),
      stage_(what, std::move(devices), loop_), random_(seed * 0x9e3779b97f4a7c15 + 1), zero_(loop_.now()),
      agenda_(what, into) {
  for (const auto& [name, host] : stage_.hosts())
    listen_to(*host);
  stage_.killed = [this](const real_host& h) {
    active_qps_[h.name()].clear();
    each_flow([&](real_flow& f) { f.host_killed(h); });
  };
  stage_.stopping = [this](const real_host& h) { each_flow([&](real_flow& f) { f.host_stopping(h); }); };
  stage_.stopped = [this](const real_host& h, const std::vector<std::string>& left) {
    each_flow([&](const real_flow& f) {
      if (f.spec().from == h.name())
        facts_.counters.push_back(
            {"batches of " + f.spec().name + " that " + h.name() + " left open when it stopped", 0,
             f.accepted_open()});
    });
    for (const auto& one : left)
      facts_.counters.push_back({"could not be released on " + h.name() + ": " + one, 0, 1});
  };
  stage_.revoked = [this](const std::string& traffic, bool on) -> stage::done {
    for (auto& f : flows_)
      if (f.spec().name == traffic)
        f.revoke(on);
    return {};
  };
  loop_.watch(signals.fd(), {[] { return static_cast<short>(POLLIN); },
                             [this](short) {
                               if (const auto came = signals_.came())
                                 fail(fmt::format("it was asked to stop by {}", ::strsignal(*came)));
                             }});
}

real_play::~real_play() = default;

void real_play::listen_to(real_host& host) {
  host.ready = [this, &host] {
    stage_.is_listening(host);
    each_flow([&](real_flow& f) { f.host_restarted(host); });
  };
  host.event = [this, name = host.name()](const observe::event& e) { hear(name, e); };
  host.log = [this](base::time_point at, const std::string& text) {
    facts_.log.push_back({at - zero_, text});
    trace(at - zero_, "log: " + text);
  };
  host.ended = [this](std::uint64_t batch, base::time_point at, const nlohmann::json& results) {
    each_flow([&](real_flow& f) {
      if (f.owns(batch))
        f.batch_ended(batch, at, results);
    });
  };
  host.crashed = [this, name = host.name()](const std::string& how) { fail("host " + name + ": " + how); };
}

bool real_play::give_up(std::string why) {
  facts_.unfinished = std::move(why);
  return false;
}

void real_play::fail(std::string why) {
  if (failure_.empty())
    failure_ = std::move(why);
}

void real_play::each_flow(const std::function<void(real_flow&)>& what) {
  for (auto* flows : {&flows_, &after_flows_})
    for (auto& f : *flows)
      what(f);
}

void real_play::trace(base::duration at, const std::string& text) {
  if (traces_)
    facts_.trace.push_back(fmt::format("{:12.3f} ms  {}", in_ms(at), text));
}

void real_play::hear(const std::string& host, observe::event what) {
  for (auto* text : {&what.subject, &what.detail})
    stage_.use_names_of_scenario(*text);
  trace(what.at - zero_, fmt::format("{}: {} {} -> {} {} [{:#x}]", what.subject, to_string(what.kind),
                                     what.from, what.to, what.detail, what.value));
  facts_.events.push_back({host, what.at - zero_, what, shutting_down_});
  if (what.kind != observe::event_kind::transition || what.subject.find('#') == std::string::npos)
    return;
  if (what.to == "ACTIVE") {
    active_qps_[host].insert(what.subject);
    if (what.from == "REBUILDING" && !stage_.nics().logs_qps()) // those that did not come up are not seen
      made_qp(what.subject.substr(0, what.subject.find_first_of("<>")), what.at);
  } else {
    active_qps_[host].erase(what.subject);
  }
}

bool real_play::turn_until(const std::function<bool()>& done, base::time_point until) {
  while (failure_.empty() && !done()) {
    if (loop_.now() > until)
      return false;
    loop_.turn(std::min(longest_turn, stage_.nics().look_period()));
    look_at_log();
    if (watcher_)
      watcher_(now(), ended());
  }
  return failure_.empty();
}

void real_play::look_at_log() {
  for (const auto& e : stage_.nics().new_log()) {
    trace(e.at - zero_,
          fmt::format("{}: {} qp {:#x} wr {:#x} {} bytes ({}{}{})", e.device, to_string(e.kind), e.qp_num,
                      e.wr_id, e.length, e.detail, e.verdict.empty() ? "" : ", ", e.verdict));
    if (e.kind == verbs::soft::log_kind::rule)
      facts_.verdicts.push_back({e.at - zero_, e.device, e.op, e.verdict, e.rule});
    if (e.kind == verbs::soft::log_kind::qp_created)
      made_qp(e.device, e.at);
  }
}

void real_play::made_qp(const std::string& device, base::time_point at) {
  event_fact made;
  made.host = host_of(device);
  made.at = at - zero_;
  made.what.subject = device;
  facts_.made_qps.push_back(std::move(made));
}

// -- coming up ------------------------------------------------------------------------------------

void real_play::make_flow(const traffic_spec& spec, bool is_after_traffic) {
  real_flow::place p;
  p.loop = &loop_;
  p.from = &stage_.host(spec.from);
  p.to = &stage_.host(spec.to);
  p.facts = &facts_;
  p.zero = &zero_;
  const auto index = flows_.size() + after_flows_.size();
  p.key = index * 2;
  p.first_batch = std::uint64_t{index} << 40;
  p.dial = [this, from = p.from, to = p.to] { return stage_.dial(*from, *to); };
  p.carried = [this](const std::string& by, std::uint64_t bytes) { stage_.nics().carried(by, bytes); };
  p.ended = [this] { batch_ended(); };
  (is_after_traffic ? after_flows_ : flows_).emplace_back(spec, std::move(p), is_after_traffic);
}

void real_play::make_rails(const traffic_spec& spec) {
  for (const auto& [from, to] : carrying_rails_of(what_, spec.from, spec.to))
    rails_.push_back({from, to, 0, {}});
}

void real_play::make_flows() {
  for (const auto& t : what_.traffic)
    make_flow(t, false);
  for (const auto& t : what_.traffic) {
    if (!pairs_.insert({t.from, t.to}).second || what_.faults.empty())
      continue;
    make_rails(t);
    traffic_spec after;
    after.name = fmt::format("(after the faults, {} to {})", t.from, t.to);
    after.from = t.from;
    after.to = t.to;
    after.sizes = {32 * 1024};
    after.verify = what_.host(t.from)->moves_payload();
    after.batch = rails_of(what_, t.from, t.to).size() * 2;
    after.depth = 2;
    // A rail that was slow once gets some again after half a second: no need for full speed until then.
    after.rate_per_s = 2000;
    after.repeat_until = base::duration::max();
    after.deadline = t.deadline;
    make_flow(after, true);
  }
}

std::size_t real_play::expected_qps() const {
  std::size_t n = 0;
  for (const auto& [from, to] : pairs_)
    n += rails_of(what_, from, to).size() * what_.host(from)->config.qps_per_endpoint;
  return n;
}

std::size_t real_play::usable_qps() const {
  std::size_t n = 0;
  for (const auto& [host, qps] : active_qps_) // the acceptors' are named "b/soft0<a/soft0#0"
    n += static_cast<std::size_t>(std::count_if(
        qps.begin(), qps.end(), [](const std::string& q) { return q.find('>') != std::string::npos; }));
  return n;
}

bool real_play::come_up() {
  if (const auto why = too_much_memory(what_, physical_memory()); !why.empty())
    return give_up("set-up: " + why);
  make_flows();
  std::optional<base::error> wrong;
  const auto keep = [&wrong](const base::expected<void>& outcome) {
    if (!outcome && !wrong)
      wrong = outcome.error();
  };
  each_flow([&](real_flow& f) { keep(f.make_memory()); });
  keep(stage_.open([this](const real_host& host) {
    std::vector<int> all;
    each_flow([&](real_flow& f) { f.add_descriptors_of(host, all); });
    return all;
  }));
  if (wrong)
    return give_up("set-up: " + wrong->to_string());
  const auto until = loop_.now() + come_up_patience;
  const auto every_flow = [this](bool (real_flow::*is)() const) {
    bool all = true;
    each_flow([&](real_flow& f) { all = all && (f.*is)(); });
    return all;
  };
  const auto not_up = [this](const std::string& what) {
    if (!failure_.empty())
      return give_up("set-up: " + failure_);
    auto why = fmt::format("set-up: {} after {} s, before any fault", what, come_up_patience / 1s);
    each_flow([&](real_flow& f) {
      if (!f.last_error().empty())
        why += fmt::format("; {}: {}", f.spec().name, f.last_error());
    });
    return give_up(why);
  };
  const auto all_alive = [this] {
    return std::all_of(stage_.hosts().begin(), stage_.hosts().end(),
                       [](const auto& h) { return h.second->is_alive(); });
  };
  if (!turn_until(all_alive, until))
    return not_up("not every process was ready");
  each_flow([](real_flow& f) { f.prepare(); });
  if (!turn_until([&] { return every_flow(&real_flow::has_memory); }, until))
    return not_up("not all memory was registered");
  each_flow([](real_flow& f) { f.connect(); });
  const auto want = expected_qps();
  if (!turn_until([&] { return every_flow(&real_flow::is_ready) && usable_qps() >= want; }, until))
    return not_up(fmt::format("{} of {} QPs were usable{}", usable_qps(), want, why_not_up(what_, facts_)));
  start_time();
  return true;
}

void real_play::start_time() {
  const auto old_zero = zero_;
  zero_ = loop_.now();
  const auto by = zero_ - old_zero;
  for (auto& e : facts_.events)
    e.at -= by;
  for (auto& q : facts_.made_qps)
    q.at -= by;
  for (auto& l : facts_.log)
    l.at -= by;
  trace({}, "all rails are up, the scenario's time begins");
  at_start_ = count();
}

/// None, and the run has failed, if they cannot be looked at.
std::vector<real_devices::state> real_play::look_at_devices() {
  auto all = stage_.nics().look();
  if (all)
    return std::move(*all);
  fail(all.error().to_string());
  return {};
}

real_play::counters real_play::count() {
  counters all;
  for (const auto& d : look_at_devices()) {
    all.emplace_back("QPs of " + d.name, d.qps);
    all.emplace_back("memory regions of " + d.name, d.mrs);
  }
  return all;
}

/// `as_of` is the time that was asked for, which is not quite when its turn comes.
void real_play::sample_bytes(base::duration as_of) {
  for (const auto& d : look_at_devices())
    facts_.bytes.push_back({as_of, d.name, d.bytes_sent});
}

// -- the main part --------------------------------------------------------------------------------

/// Until the main part's end only: then processes go.
void real_play::look_at_memory() {
  for (const auto& [name, host] : stage_.hosts())
    if (host->is_alive())
      memory_.look(name, host->process(), loop_.now());
  loop_.at(loop_.now() + memory_watch::period, [this] {
    if (!shutting_down_)
      look_at_memory();
  });
}

bool real_play::main_part() {
  plan();
  look_at_memory();
  const auto over = [&] {
    if (!agenda_.only_counted_are_left())
      return false;
    return std::all_of(flows_.begin(), flows_.end(),
                       [&](const real_flow& f) { return f.is_over() && now() >= f.spec().start; });
  };
  const bool good = turn_until(over, zero_ + what_.time_limit);
  if (!failure_.empty())
    return give_up(failure_);
  if (!good) {
    std::string open;
    for (const auto& f : flows_)
      if (!f.is_over())
        open += (open.empty() ? "" : ", ") + f.spec().name +
                (f.last_error().empty() ? "" : " (last: " + f.last_error() + ")");
    return give_up(fmt::format("time_limit_ms is over at {} ms; not at their end: {}", now() / 1ms,
                               open.empty() ? "faults" : open));
  }
  const auto never = agenda_.never_happened();
  return never.empty() || give_up(never);
}

bool real_play::run() {
  const bool good = come_up() && main_part() && every_rail_carries() && come_to_rest() && take_down();
  if (!good)
    each_flow([](real_flow& f) { f.look_again(); }); // what is open is among the facts too
  facts_.ended = now();
  facts_.growth = memory_.result();
  for (const auto& d : sentinel_.delays())
    facts_.machine_gaps.push_back({d.due - zero_, d.came - d.due});
  return good;
}

} // namespace actor_rdma::drill
