// SPDX-License-Identifier: Apache-2.0
// The table of expectations.
#include "drill/checks/expectations.hpp"

#include "drill/checks/recovery.hpp"
#include "drill/checks/statistics.hpp"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

namespace actor_rdma::drill {

namespace {

using spec = const expect_spec&;
using facts = const run_facts&;
using figure = std::optional<double>;
using time_of_recovery = std::optional<base::duration> recovery::*;

bool within(base::duration t, base::duration after, const std::optional<base::duration>& before) {
  return t >= after && (!before || t < *before);
}

/// By when they ended.
bool selects(spec e, const transfer_fact& t) {
  return !t.is_after_traffic && (e.traffic.empty() || t.traffic == e.traffic) && t.ended &&
         within(*t.ended, e.after, e.before);
}

figure count_transfers(spec e, facts f) {
  return static_cast<double>(std::count_if(f.transfers.begin(), f.transfers.end(), [&](const auto& t) {
    return selects(e, t) && (e.status.empty() || e.status == to_string(t.status)) &&
           (e.cause.empty() || e.cause == base::to_string(t.cause));
  }));
}

figure count_notices(spec e, facts f) {
  return static_cast<double>(std::count_if(f.notices.begin(), f.notices.end(), [&](const notice_fact& n) {
    return n.told && within(*n.told, e.after, e.before) && (e.traffic.empty() || n.traffic == e.traffic) &&
           (e.status.empty() || e.status == to_string(n.status)) &&
           (e.cause.empty() || e.cause == base::to_string(n.cause));
  }));
}

template <class Status>
std::vector<std::string> names_of(std::initializer_list<Status> all) {
  std::vector<std::string> names;
  for (const auto s : all)
    names.emplace_back(to_string(s));
  return names;
}

figure last_end(spec e, facts f) {
  figure last;
  for (const auto& t : f.transfers)
    if (selects(e, t))
      last = std::max(last.value_or(0), in_ms(*t.ended));
  return last;
}

figure count_bytes(spec e, facts f) {
  figure from;
  figure to;
  for (const auto& s : f.bytes)
    if (s.device == e.device) {
      if (s.at <= e.after || !from)
        from = static_cast<double>(s.sent);
      if (!e.before || s.at <= *e.before)
        to = static_cast<double>(s.sent);
    }
  return from && to ? figure{*to - *from} : std::nullopt;
}

/// A machine that let nobody run says nothing about lanes.
figure longest_lane_gap(spec e, facts f) {
  base::duration longest{};
  for (const auto& x : f.events) {
    if (x.what.kind != observe::event_kind::lane_gap || x.in_shutdown ||
        (!e.host.empty() && x.host != e.host) || !within(x.at, e.after, e.before))
      continue;
    base::duration gap{static_cast<std::int64_t>(x.what.value)};
    for (const auto& m : f.machine_gaps)
      gap -= std::max(base::duration::zero(),
                      std::min(m.at + m.lasted, x.at) -
                          std::max(m.at, x.at - base::duration{static_cast<std::int64_t>(x.what.value)}));
    longest = std::max(longest, gap);
  }
  return in_ms(longest);
}

figure count_events(spec e, facts f) {
  return static_cast<double>(std::count_if(f.events.begin(), f.events.end(), [&](const event_fact& x) {
    return !x.in_shutdown && (e.host.empty() || x.host == e.host) && e.event == to_string(x.what.kind) &&
           x.what.subject.find(e.subject) != std::string::npos &&
           (x.what.detail.find(e.detail) != std::string::npos || x.what.to == e.detail) &&
           within(x.at, e.after, e.before);
  }));
}

/// A rail is named before the '#' of its QPs.
figure most_reissued(spec e, facts f) {
  struct reissue {
    base::duration at;
    std::uint64_t slices;
  };
  std::map<std::string, std::vector<reissue>> rails;
  for (const auto& x : f.events)
    if (!x.in_shutdown && x.what.kind == observe::event_kind::reissued &&
        (e.host.empty() || x.host == e.host) && x.what.subject.find(e.subject) != std::string::npos &&
        within(x.at, e.after, e.before))
      rails[x.what.subject.substr(0, x.what.subject.find('#'))].push_back({x.at, x.what.value});
  std::uint64_t most = 0;
  for (const auto& [name, all] : rails) {
    std::uint64_t now = 0;
    for (std::size_t first = 0, i = 0; i < all.size(); ++i) {
      now += all[i].slices;
      while (all[i].at - all[first].at >= e.window)
        now -= all[first++].slices;
      most = std::max(most, now);
    }
  }
  return static_cast<double>(most);
}

figure count_qps(spec e, facts f) {
  return static_cast<double>(std::count_if(f.made_qps.begin(), f.made_qps.end(), [&](const event_fact& x) {
    return (e.host.empty() || x.host == e.host) && (e.device.empty() || x.what.subject == e.device) &&
           within(x.at, e.after, e.before);
  }));
}

figure count_verdicts(spec e, facts f) {
  return static_cast<double>(std::count_if(f.verdicts.begin(), f.verdicts.end(), [&](const verdict_fact& v) {
    return (e.device.empty() || v.device == e.device) && within(v.at, e.after, e.before) &&
           (v.op + " " + v.verdict).find(e.detail) != std::string::npos;
  }));
}

figure count_log(spec e, facts f) {
  return static_cast<double>(std::count_if(f.log.begin(), f.log.end(), [&](const log_fact& l) {
    return within(l.at, e.after, e.before) && l.text.find(e.detail) != std::string::npos;
  }));
}

/// By when they were submitted: a fault shows in what was begun during it.
figure latency(spec e, facts f, base::duration after, const std::optional<base::duration>& before) {
  std::vector<base::duration> all;
  for (const auto& t : f.transfers)
    if (!t.is_after_traffic && (e.traffic.empty() || t.traffic == e.traffic) && t.ended &&
        t.status == transfer_status::completed && within(t.submitted, after, before))
      all.push_back(*t.ended - t.submitted);
  const auto p = percentile(std::move(all), e.percentile);
  return p ? figure{in_ms(*p)} : std::nullopt;
}

figure throughput(spec e, facts f, base::duration after, const std::optional<base::duration>& before) {
  double bytes = 0;
  auto last = after;
  for (const auto& t : f.transfers)
    if (!t.is_after_traffic && (e.traffic.empty() || t.traffic == e.traffic) && t.ended &&
        t.status == transfer_status::completed && within(*t.ended, after, before)) {
      bytes += static_cast<double>(t.bytes);
      last = std::max(last, *t.ended);
    }
  const auto span = before.value_or(last) - after;
  return span.count() > 0 ? figure{bytes * 8 / static_cast<double>(span.count())} : std::nullopt;
}

figure ratio(figure now, figure base) {
  return now && base && *base > 0 ? figure{*now / *base} : std::nullopt;
}

/// One of the four times of getting over a fault.
expect_kind recovery_kind(std::string name, std::string meaning, time_of_recovery which) {
  return {std::move(name),
          std::move(meaning),
          {},
          {"fault", "traffic"},
          {},
          [which](spec e, facts f) {
            const auto t = recovery_from(f, e.fault, e.traffic).*which;
            return t ? figure{in_ms(*t)} : std::nullopt;
          },
          true};
}

std::vector<expect_kind> make_kinds() {
  return {
      {"transfers",
       "how many transfers ended so in this time",
       {},
       {"traffic", "status", "cause", "after_ms", "before_ms"},
       names_of({transfer_status::completed, transfer_status::failed, transfer_status::timed_out,
                 transfer_status::cancelled}),
       count_transfers},
      {"notices",
       "how many notices' end was told so in this time",
       {},
       {"traffic", "status", "cause", "after_ms", "before_ms"},
       names_of(
           {notice_status::delivered, notice_status::withheld, notice_status::lost, notice_status::unknown}),
       count_notices},
      {"last_end_ms",
       "when the last of these transfers ended, in ms",
       {},
       {"traffic", "after_ms", "before_ms"},
       {},
       last_end},
      {"device_bytes",
       "bytes of the requests that the device made in this time; a target's are none",
       {"device"},
       {"after_ms", "before_ms"},
       {},
       count_bytes},
      {"events",
       "how many such events there were",
       {"event"},
       {"host", "subject", "detail", "after_ms", "before_ms"},
       {},
       count_events},
      {"lane_gap_ms",
       "the longest time for which a lane did not run, less what the machine is to blame for, ms",
       {},
       {"host", "after_ms", "before_ms"},
       {},
       longest_lane_gap},
      {"reissued_slices",
       "the most slices that one rail gave to others within a window",
       {},
       {"host", "subject", "window_ms", "after_ms", "before_ms"},
       {},
       most_reissued},
      {"made_qps",
       "how many QPs were made again",
       {},
       {"host", "device", "after_ms", "before_ms"},
       {},
       count_qps},
      {"verdicts",
       "how often rules of the NIC acted",
       {},
       {"device", "detail", "after_ms", "before_ms"},
       {},
       count_verdicts},
      {"log_lines", "how many log lines there were", {}, {"detail", "after_ms", "before_ms"}, {}, count_log},
      {"latency_ms",
       "a percentile of the completed transfers' times, in ms, by when they were submitted",
       {},
       {"traffic", "percentile", "after_ms", "before_ms"},
       {},
       [](spec e, facts f) { return latency(e, f, e.after, e.before); }},
      {"latency_ratio",
       "that percentile, divided by the same of another time",
       {},
       {"traffic", "percentile", "after_ms", "before_ms", "base_after_ms", "base_before_ms"},
       {},
       [](spec e, facts f) {
         return ratio(latency(e, f, e.after, e.before), latency(e, f, e.base_after, e.base_before));
       }},
      {"throughput_gbit_s",
       "completed bytes per time, in Gbit/s",
       {},
       {"traffic", "after_ms", "before_ms"},
       {},
       [](spec e, facts f) { return throughput(e, f, e.after, e.before); }},
      {"throughput_ratio",
       "the same, divided by that of another time",
       {},
       {"traffic", "after_ms", "before_ms", "base_after_ms", "base_before_ms"},
       {},
       [](spec e, facts f) {
         return ratio(throughput(e, f, e.after, e.before), throughput(e, f, e.base_after, e.base_before));
       }},
      {"refused_submits",
       "how many submits were refused at once because the peer was not there",
       {},
       {},
       {},
       [](spec, facts f) { return figure{static_cast<double>(f.refused_submits)}; }},
      recovery_kind("detect_ms", "ms from the fault until its initiator said that something is wrong",
                    &recovery::detected),
      recovery_kind("reissue_ms", "ms from the fault until a slice was issued once more",
                    &recovery::reissued),
      recovery_kind("settle_ms", "ms from the fault until all transfers that were open had ended",
                    &recovery::settled),
      recovery_kind("full_rate_ms", "ms from the fault's end until 95 % of the rate before the fault",
                    &recovery::full_rate),
  };
}

} // namespace

const std::vector<expect_kind>& expect_kinds() {
  static const auto kinds = make_kinds();
  return kinds;
}

const expect_kind* find_expect_kind(const std::string& name) {
  const auto& all = expect_kinds();
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& k) { return k.name == name; });
  return found == all.end() ? nullptr : &*found;
}

std::string describe(const expect_spec& e) {
  std::string text = e.kind;
  const auto say = [&](const char* name, const std::string& value) {
    if (!value.empty())
      text += fmt::format(" {} {}", name, value);
  };
  say("of", e.traffic);
  say("on", e.host);
  say("of", e.device);
  say("that are", e.status);
  say("because of", e.cause);
  say("of kind", e.event);
  say("about", e.subject);
  say("saying", e.detail);
  if (e.kind == "reissued_slices")
    text += fmt::format(" of {:g} ms", in_ms(e.window));
  if (e.kind.rfind("latency", 0) == 0)
    text += fmt::format(" (p{:g})", e.percentile);
  const auto window = [](base::duration after, const std::optional<base::duration>& before) {
    return before ? fmt::format("{:g} to {:g} ms", in_ms(after), in_ms(*before))
                  : fmt::format("{:g} ms to the end", in_ms(after));
  };
  if (e.after.count() != 0 || e.before)
    text += ", from " + window(e.after, e.before);
  if (e.kind.find("ratio") != std::string::npos)
    text += ", against that from " + window(e.base_after, e.base_before);
  if (e.equals)
    text += fmt::format(": exactly {:g}", *e.equals);
  if (e.at_least)
    text += fmt::format(": at least {:g}", *e.at_least);
  if (e.at_most)
    text += fmt::format(": at most {:g}", *e.at_most);
  return text;
}

std::vector<figure> figures_of(const scenario& what, const run_facts& f) {
  std::vector<figure> all;
  for (const auto& e : what.expect) {
    const auto* kind = find_expect_kind(e.kind); // the reader refuses others
    all.push_back(kind == nullptr ? figure{} : kind->figure(e, f));
  }
  return all;
}

std::vector<finding> check_expectations(const scenario& what, const run_facts& f,
                                        const std::vector<figure>& figures) {
  std::vector<finding> all;
  for (std::size_t i = 0; i < what.expect.size(); ++i) {
    const auto& e = what.expect[i];
    const auto* kind = find_expect_kind(e.kind);
    if (kind == nullptr || (kind->is_time_of_recovery && f.in_real_time))
      continue;
    const auto& is = figures[i];
    const bool good = is && (!e.at_least || *is >= *e.at_least) && (!e.at_most || *is <= *e.at_most) &&
                      (!e.equals || *is == *e.equals);
    if (good)
      continue;
    std::vector<std::string> actors;
    for (const auto& a : {e.host, e.device, e.subject})
      if (!a.empty())
        actors.push_back(a);
    for (const auto& t : what.traffic)
      if (t.name == e.traffic)
        actors.insert(actors.end(), {t.from, t.to});
    all.push_back({check_class::expectation, fmt::format("expect[{}]", i), describe(e),
                   is ? fmt::format("it is {:g}", *is) : "there is nothing to compute it from",
                   std::move(actors)});
  }
  return all;
}

std::vector<base::duration> sample_times(const scenario& what) {
  std::set<base::duration> times;
  for (const auto& e : what.expect)
    if (!e.device.empty()) {
      times.insert(e.after);
      if (e.before)
        times.insert(*e.before);
    }
  return {times.begin(), times.end()};
}

} // namespace actor_rdma::drill
