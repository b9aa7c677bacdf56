// SPDX-License-Identifier: Apache-2.0
// The runs of a file, their percentiles, and the table.
#include "drill/measure.hpp"

#include "drill/checks/expectations.hpp"
#include "drill/checks/statistics.hpp"
#include "drill/judge.hpp"
#include "drill/pool.hpp"
#include "drill/real/real_runner.hpp"
#include "drill/real/suits_real.hpp"
#include "drill/sim/sim_runner.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <ostream>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace actor_rdma::drill {

namespace {

constexpr std::array columns{"detect_ms", "reissue_ms", "settle_ms", "full_rate_ms"};

struct row {
  const scenario* what = nullptr;
  std::uint64_t runs = 0;
  std::uint64_t void_runs = 0;
  std::uint64_t failed = 0;
  bool was_stopped = false;
  std::array<std::vector<double>, columns.size()> values;
  int status = exit_good;
};

/// Its place in the file's expectations.
std::optional<std::size_t> expectation(const scenario& s, const char* kind) {
  const auto found =
      std::find_if(s.expect.begin(), s.expect.end(), [&](const expect_spec& e) { return e.kind == kind; });
  return found == s.expect.end() ? std::nullopt : std::optional<std::size_t>{found - s.expect.begin()};
}

void add(row& r, const verdict& v, std::ostream& output) {
  r.status = std::max(r.status, v.status);
  r.failed += v.status == exit_good ? 0 : 1;
  if (!v.report.empty())
    output << v.report << std::flush;
  if (v.is_void) {
    ++r.void_runs;
    return;
  }
  ++r.runs;
  for (std::size_t i = 0; i < columns.size(); ++i)
    if (const auto e = expectation(*r.what, columns[i]); e && *e < v.figures.size() && v.figures[*e])
      r.values[i].push_back(*v.figures[*e]);
}

/// What says now how far a row has come, if anybody wants to know.
std::function<void()> watch(const row& r, const measure_wishes& w, progress& how_far) {
  if (!how_far.is_on())
    return {};
  return [&] {
    how_far.look(base::mono_clock::now(), [&] {
      return fmt::format("{}: {} of {} runs done, {} void, {} failed", r.what->id, r.runs, w.runs,
                         r.void_runs, r.failed);
    });
  };
}

row in_virtual_time(const scenario& s, const measure_wishes& w, progress& how_far, std::ostream& output) {
  row r;
  r.what = &s;
  std::vector<task> tasks;
  for (std::uint64_t seed = 1; seed <= w.runs; ++seed)
    tasks.push_back({&s, seed});
  sim_runner with;
  run_in_processes(
      tasks, w.jobs, with, [&](const task&, const verdict& v) { add(r, v, output); }, watch(r, w, how_far));
  return r;
}

row in_real_time(const scenario& s, const measure_wishes& w, progress& how_far, std::ostream& output) {
  row r;
  r.what = &s;
  const auto slack = with_real_time_slack(s);
  real_runner with;
  run_wishes how;
  if (const auto look = watch(r, w, how_far))
    how.look = [look](base::duration, std::uint64_t) { look(); };
  for (std::uint64_t seed = 1; r.runs < w.runs && r.void_runs <= w.runs && !with.was_stopped(); ++seed)
    add(r, judge(slack, with.run(slack, seed, how)), output);
  if (r.runs < w.runs) {
    r.was_stopped = with.was_stopped();
    r.status = std::max<int>(r.status, exit_unfinished);
  }
  return r;
}

std::string cell(const row& r, std::size_t column) {
  if (!expectation(*r.what, columns[column]))
    return "-";
  const auto& v = r.values[column];
  if (v.empty())
    return "none";
  auto text =
      fmt::format("{:.1f} / {:.1f} / {:.1f}", *percentile(v, 50), *percentile(v, 99), *percentile(v, 100));
  if (v.size() < r.runs)
    text += fmt::format(" (in {})", v.size());
  return text;
}

nlohmann::json to_json(const row& r, bool real) {
  nlohmann::json j{{"file", r.what->path}, {"id", r.what->id},   {"real", real},      {"runs", r.runs},
                   {"void", r.void_runs},  {"failed", r.failed}, {"status", r.status}};
  for (std::size_t i = 0; i < columns.size(); ++i)
    if (const auto& v = r.values[i]; !v.empty())
      j[columns[i]] = {{"runs", v.size()},
                       {"p50", *percentile(v, 50)},
                       {"p95", *percentile(v, 95)},
                       {"p99", *percentile(v, 99)},
                       {"max", *percentile(v, 100)}};
  return j;
}

} // namespace

int measure(const std::vector<scenario>& all, const measure_wishes& w, progress& how_far,
            std::ostream& output) {
  if (!w.json)
    output << "| fault | runs | void | failed | detected | first re-issue | all open ones ended | full rate "
              "after the "
              "heal |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n"
           << std::flush;
  int status = exit_good;
  for (const auto& s : all) {
    const auto r = w.real ? in_real_time(s, w, how_far, output) : in_virtual_time(s, w, how_far, output);
    status = std::max(status, r.status);
    if (w.json)
      output << to_json(r, w.real).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
    else
      output << fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} |\n", s.title, r.runs, r.void_runs,
                            r.failed, cell(r, 0), cell(r, 1), cell(r, 2), cell(r, 3));
    output << std::flush;
    if (r.was_stopped)
      break;
  }
  return status;
}

} // namespace actor_rdma::drill
