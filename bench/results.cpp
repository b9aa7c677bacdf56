// SPDX-License-Identifier: Apache-2.0
// Figures of a run.
#include "bench/results.hpp"

#include "bench/text.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

namespace actor_rdma::bench {

namespace {

double per(base::duration span, std::uint64_t n) {
  return n == 0 ? 0 : static_cast<double>(span.count()) / static_cast<double>(n);
}

double us(std::uint64_t ns) {
  return static_cast<double>(ns) / 1e3;
}

template <class Get>
std::vector<double> values_of(const std::vector<trial>& trials, Get get) {
  std::vector<double> v;
  for (const auto& t : trials) {
    const double x = get(t);
    v.push_back(x < 0 ? std::numeric_limits<double>::infinity() : x);
  }
  return v;
}

nlohmann::ordered_json number_or_null(double x) {
  return std::isfinite(x) && x >= 0 ? nlohmann::ordered_json(x) : nlohmann::ordered_json(nullptr);
}

nlohmann::ordered_json ms_or_null(const std::optional<base::duration>& d) {
  return d ? nlohmann::ordered_json(to_ms(*d)) : nlohmann::ordered_json(nullptr);
}

nlohmann::ordered_json trials_json(const fault_outcome& f) {
  nlohmann::ordered_json j;
  const auto reissue = values_of(f.trials, [](const trial& t) { return t.first_reissue_ms; });
  j["detected_ms"] =
      number_or_null(quantile(values_of(f.trials, [](const trial& t) { return t.detected_ms; }), 0.5));
  j["first_reissue_ms"] = number_or_null(quantile(reissue, 0.5));
  j["full_rate_ms"] =
      number_or_null(quantile(values_of(f.trials, [](const trial& t) { return t.full_rate_ms; }), 0.5));
  std::uint64_t rebuilds = 0;
  for (const auto& t : f.trials)
    rebuilds += t.rebuilds;
  j["rebuilds"] = rebuilds;
  j["trials"] = f.trials.size();
  j["first_reissue_ms_p95"] = number_or_null(quantile(reissue, 0.95));
  j["first_reissue_ms_p99"] = number_or_null(quantile(reissue, 0.99));
  j["first_reissue_ms_max"] = number_or_null(quantile(reissue, 1));
  return j;
}

nlohmann::ordered_json recovery_json(const settings& what, const fault_outcome& f) {
  if (what.trials > 0)
    return f.no_result || f.trials.empty() ? nlohmann::ordered_json(nullptr) : trials_json(f);
  if (!f.once)
    return nullptr;
  nlohmann::ordered_json j;
  j["detected_ms"] = ms_or_null(f.once->detected);
  j["first_reissue_ms"] = ms_or_null(f.once->first_reissue);
  j["full_rate_ms"] = ms_or_null(f.once->full_rate);
  j["rebuilds"] = f.once->rebuilds;
  j["timeline"] = nlohmann::ordered_json::array();
  for (const auto& m : f.once->timeline)
    j["timeline"].push_back({{"ms", to_ms(m.after)}, {"what", m.what}});
  return j;
}

std::string ms_text(double ms) {
  return ms >= 0 && std::isfinite(ms) ? fmt::format("{:.1f} ms", ms) : "never";
}

std::string timeline_text(const recovery& r) {
  std::string out;
  for (const auto& m : r.timeline)
    out += fmt::format("  {:>9.1f} ms  {}\n", to_ms(m.after), m.what);
  return out;
}

std::string trials_text(const settings& what, const fault_outcome& f) {
  const auto run = f.trials.size() + f.void_trials;
  if (f.no_result)
    return fmt::format(
        "recovery      no result: {} of {} trials are void, because a 1 ms timer was more than {} late\n",
        f.void_trials, run, time_text(base::sentinel::tolerance));
  std::string out =
      fmt::format("recovery      {} of {} trials, {} void\n", f.trials.size(), what.trials, f.void_trials);
  const auto line = [&](const char* name, const std::vector<double>& v) {
    out += fmt::format("  {:<11} median {}, p95 {}, p99 {}, max {}\n", name, ms_text(quantile(v, 0.5)),
                       ms_text(quantile(v, 0.95)), ms_text(quantile(v, 0.99)), ms_text(quantile(v, 1)));
  };
  line("detected", values_of(f.trials, [](const trial& t) { return t.detected_ms; }));
  line("re-issued", values_of(f.trials, [](const trial& t) { return t.first_reissue_ms; }));
  line("full rate", values_of(f.trials, [](const trial& t) { return t.full_rate_ms; }));
  if (f.once)
    out += "  the trial with the slowest re-issue:\n" + timeline_text(*f.once);
  return out;
}

std::string recovery_text(const settings& what, const fault_outcome& f) {
  if (what.trials > 0)
    return trials_text(what, f);
  if (!f.once)
    return "recovery      nothing to recover from: no WR met a fault and no port went down\n";
  const auto& r = *f.once;
  std::string out = fmt::format("recovery      times since {}\n", r.zero_is);
  out += timeline_text(r);
  const auto ms = [](const std::optional<base::duration>& d) { return d ? ms_text(to_ms(*d)) : "never"; };
  out += fmt::format("  detected {}, first re-issue {}, full rate {}, {} QPs rebuilt\n", ms(r.detected),
                     ms(r.first_reissue), ms(r.full_rate), r.rebuilds);
  if (f.lateness > base::sentinel::tolerance)
    out +=
        fmt::format("  (the machine was busy: a 1 ms timer was {} late in between)\n", time_text(f.lateness));
  return out;
}

} // namespace

double run_result::seconds() const noexcept {
  return to_seconds(measured);
}
double run_result::throughput() const noexcept {
  return measured.count() == 0 ? 0 : static_cast<double>(count.bytes) / seconds();
}
double run_result::ops() const noexcept {
  return measured.count() == 0 ? 0 : static_cast<double>(count.completed) / seconds();
}
double run_result::cpu_ns_per_op() const noexcept {
  return per(cpu, count.completed);
}
double run_result::submit_ns_per_descriptor() const noexcept {
  return per(count.submit_cpu, count.submit_sampled);
}
bool run_result::is_good() const noexcept {
  return count.is_good() && (!faults || faults->failure.empty()) &&
         (!notices || (notices->is_good() && notices->received >= count.notices_delivered));
}

double quantile(std::vector<double> values, double q) {
  if (values.empty())
    return -1;
  std::sort(values.begin(), values.end());
  const auto rank = static_cast<std::size_t>(std::ceil(q * static_cast<double>(values.size())));
  const auto x = values[std::clamp<std::size_t>(rank, 1, values.size()) - 1];
  return std::isfinite(x) ? x : -1;
}

nlohmann::ordered_json to_json(const settings& what, const run_result& r) {
  nlohmann::ordered_json j;
  const auto& c = r.count;
  j["engine"] = to_string(what.engine);
  j["op"] = to_string(what.op);
  j["size"] = what.size;
  j["batch"] = what.batch;
  j["threads"] = what.threads;
  j["nics"] = what.nics;
  j["seconds"] = r.seconds();
  j["throughput_bytes_s"] = r.throughput();
  j["ops_s"] = r.ops();
  j["latency_us"] = {{"p50", us(c.latency.quantile(0.5))},
                     {"p99", us(c.latency.quantile(0.99))},
                     {"p999", us(c.latency.quantile(0.999))},
                     {"max", us(c.latency.max())}};
  j["cpu_ns_per_op"] = r.cpu_ns_per_op();
  j["submit_ns_per_descriptor"] = r.submit_ns_per_descriptor();
  j["verified_bytes"] = c.verified_bytes;
  j["mismatched_bytes"] = c.mismatched_bytes;
  j["completed"] = c.completed;
  j["failed"] = c.failed + c.stuck;
  j["timed_out"] = c.timed_out;
  j["stuck"] = c.stuck;
  j["depth"] = what.depth;
  j["latency_of"] = what.batch == 1 ? "transfer" : "batch";
  j["failure_causes"] = nlohmann::ordered_json::object();
  for (const auto& [cause, n] : c.causes)
    j["failure_causes"][base::to_string(cause)] = n;
  if (what.notices) {
    j["notices"] = {{"delivered", c.notices_delivered}, {"not_delivered", c.notices_not_delivered}};
    if (r.notices)
      j["notices"].update({{"received", r.notices->received},
                           {"repeated", r.notices->repeated},
                           {"checked_bytes", r.notices->checked_bytes},
                           {"missing_bytes", r.notices->missing_bytes}});
  }
  j["health"] = {{"suspected", r.state.suspected},
                 {"false_alarms", r.state.false_alarms},
                 {"wr_errors", r.state.wr_errors},
                 {"fenced", r.state.fenced},
                 {"rebuilt", r.state.rebuilt},
                 {"peers_lost", r.state.peers_lost},
                 {"devices_lost", r.state.devices_lost},
                 {"lane_gap_max_ms", static_cast<double>(r.state.lane_gap_max_ns) / 1e6}};
  if (r.core_round_trip)
    j["core_round_trip_ns"] = r.core_round_trip->count();
  if (r.faults) {
    j["recovery"] = recovery_json(what, *r.faults);
    if (what.trials > 0)
      j["void_trials"] = r.faults->void_trials;
  }
  return j;
}

std::string to_table(const settings& what, const run_result& r) {
  const auto& c = r.count;
  std::string out;
  const auto line = [&](const char* name, const std::string& text) {
    out += fmt::format("{:<13} {}\n", name, text);
  };
  line("run", fmt::format("{} {} of {}, {} per batch, {} open at once, {} thread{}, {} device{}, {} per side",
                          to_string(what.engine), to_string(what.op), size_text(what.size), what.batch,
                          what.depth, what.threads, what.threads == 1 ? "" : "s", what.nics,
                          what.nics == 1 ? "" : "s", size_text(what.range)));
  line("throughput", fmt::format("{}, {}op/s for {:.2f} s{}", rate_text(r.throughput()), count_text(r.ops()),
                                 r.seconds(), what.verify ? " (with the checking)" : ""));
  line("latency",
       fmt::format("p50 {:.1f} us, p99 {:.1f} us, p99.9 {:.1f} us, max {:.1f} us (per {})",
                   us(c.latency.quantile(0.5)), us(c.latency.quantile(0.99)), us(c.latency.quantile(0.999)),
                   us(c.latency.max()), what.batch == 1 ? "transfer" : "batch"));
  line("CPU", what.engine == engine_kind::raw
                  ? fmt::format("{:.0f} ns per transfer", r.cpu_ns_per_op())
                  : fmt::format("{:.0f} ns per transfer, {:.0f} ns of it in submit()", r.cpu_ns_per_op(),
                                r.submit_ns_per_descriptor()));
  if (r.core_round_trip)
    line("machine", fmt::format("{} from core to core and back", time_text(*r.core_round_trip)));
  line("transfers", fmt::format("{} completed, {} failed, {} timed out{}", c.completed, c.failed, c.timed_out,
                                c.stuck > 0 ? fmt::format(", {} STILL OPEN", c.stuck) : ""));
  for (const auto& [cause, n] : c.causes)
    line("", fmt::format("{} x {}", n, base::to_string(cause)));
  if (what.verify)
    line("content", fmt::format("{} bytes checked, {} wrong", c.verified_bytes, c.mismatched_bytes));
  if (what.notices)
    line("notices", fmt::format("{} delivered, {} not", c.notices_delivered, c.notices_not_delivered) +
                        (r.notices ? ", " + to_text(*r.notices) : ""));
  if (what.engine == engine_kind::actor)
    line("health", to_text(r.state));
  if (r.faults)
    out += recovery_text(what, *r.faults);
  return out;
}

} // namespace actor_rdma::bench
