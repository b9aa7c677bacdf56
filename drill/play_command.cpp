// SPDX-License-Identifier: Apache-2.0
// Playing in processes, in real time, or one run with its trace, and what is printed of it.
#include "drill/play_command.hpp"

#include "drill/judge.hpp"
#include "drill/pool.hpp"
#include "drill/real/real_runner.hpp"
#include "drill/real/suits_real.hpp"
#include "drill/sim/sim_runner.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <ostream>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace actor_rdma::drill {

namespace {

constexpr std::size_t shown_failures = 5; // of each file; the others are counted

std::string counts(const std::map<std::string, std::uint64_t>& transfers) {
  std::string text;
  for (const auto& [status, n] : transfers)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", n, status);
  return text.empty() ? "no transfers" : text;
}

/// What a file's runs came to.
struct tally {
  std::uint64_t runs = 0;
  std::uint64_t failed = 0;
  std::map<std::string, std::uint64_t> transfers;
  std::map<std::size_t, std::uint64_t> void_faults;
  int status = exit_good;

  void add(const verdict& v) {
    ++runs;
    failed += v.status == exit_good ? 0 : 1;
    status = std::max(status, v.status);
    for (const auto& [s, n] : v.transfers)
      transfers[s] += n;
    for (const auto& [which, n] : v.void_faults)
      void_faults[which] += n;
  }
};

/// A scenario that breaks nothing though it says so tests nothing.
std::string words_of(const std::map<std::size_t, std::uint64_t>& void_faults) {
  std::string text;
  for (const auto& [which, n] : void_faults)
    text += fmt::format("  faults[{}] found nothing that it could befall, {} time{}\n", which, n,
                        n == 1 ? "" : "s");
  return text;
}

/// What the lines about a file's runs begin with: several files may have one id.
std::string name_of(const scenario& s, const std::vector<scenario>& all) {
  const bool is_alone =
      std::none_of(all.begin(), all.end(), [&](const auto& x) { return &x != &s && x.id == s.id; });
  return is_alone ? s.id : fmt::format("{} ({})", s.id, s.path);
}

void print_json(std::ostream& out, const scenario& s, const verdict& v) {
  nlohmann::json findings = nlohmann::json::array();
  for (const auto& f : v.findings)
    findings.push_back({{"class", f.what == check_class::invariant     ? "invariant"
                                  : f.what == check_class::expectation ? "expectation"
                                                                       : "unfinished"},
                        {"check", f.check},
                        {"about", f.about},
                        {"text", f.text}});
  nlohmann::json line{
      {"file", s.path},           {"id", s.id},
      {"seed", v.seed},           {"status", v.status},
      {"transfers", v.transfers}, {"virtual_ms", v.virtual_ms},
      {"steps", v.steps},         {"fingerprint", fmt::format("{:016x}", v.fingerprint)},
      {"findings", findings},     {"repeat", repeat_command(s, v.seed, v.in_real_time, v.devices_file)}};
  if (v.in_real_time)
    line.update({{"real", true}, {"not_checked", v.not_checked}});
  if (!v.devices_file.empty())
    line["devices"] = v.devices_file;
  if (!v.void_faults.empty()) {
    auto& list = line["void_faults"] = nlohmann::json::array();
    for (const auto& [which, n] : v.void_faults)
      list.push_back({{"fault", which}, {"times", n}});
  }
  out << line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
}

int run_one_with_trace(const scenario& s, std::uint64_t seed, bool json, std::ostream& out) {
  sim_runner with;
  const auto facts = with.run(s, seed, {true});
  for (const auto& line : facts.trace)
    out << line << '\n';
  const auto v = judge(s, facts);
  if (json)
    print_json(out, s, v);
  else
    out << (v.report.empty() ? fmt::format("{}: seed {} is well: {}\n", s.id, seed, counts(v.transfers))
                             : v.report)
        << words_of(v.void_faults);
  return v.status;
}

/// Those that are wished for, else the first `usual` ones.
seed_range seeds_of(const play_wishes& w, std::uint64_t usual) {
  auto r = w.seed ? seed_range{*w.seed, *w.seed} : w.seeds.value_or(seed_range{1, usual});
  if (w.seeds_at_most != 0)
    r.last = std::min(r.last, r.first + w.seeds_at_most - 1);
  return r;
}

/// One run after the other: each has the machine for itself.
int run_in_real_time(const std::vector<scenario>& all, const play_wishes& w, progress& how_far,
                     std::ostream& out) {
  real_runner with(w.devices_file);
  int status = exit_good;
  const auto r = seeds_of(w, 1);
  const auto total = (r.last - r.first + 1) * all.size();
  std::uint64_t done = 0;
  for (const auto& file : all) {
    const auto s = with_real_time_slack(file);
    for (auto seed = r.first; seed <= r.last && !with.was_stopped(); ++seed) {
      const auto words = [&](base::duration at, std::uint64_t ended) {
        return fmt::format("{} of {} runs done; {}: seed {} is at {:.1f} s, {} transfers have ended", done,
                           total, name_of(file, all), seed, std::chrono::duration<double>(at).count(), ended);
      };
      run_wishes how{w.trace, {}};
      if (how_far.is_on())
        how.look = [&](base::duration at, std::uint64_t ended) {
          how_far.look(base::mono_clock::now(), [&] { return words(at, ended); });
        };
      const auto facts = with.run(s, seed, how);
      ++done;
      for (const auto& line : facts.trace)
        out << line << '\n';
      const auto v = judge(s, facts);
      status = std::max(status, v.status);
      if (w.json)
        print_json(out, s, v);
      else
        out << (v.report.empty() ? fmt::format("{}: seed {} is well in real time{}: {}\n", name_of(file, all),
                                               seed, w.devices_file.empty() ? "" : " on the kernel's devices",
                                               counts(v.transfers))
                                 : v.report)
            << words_of(v.void_faults)
            << fmt::format("  not checked with --real: {}\n", fmt::join(v.not_checked, ", ")) << std::flush;
    }
  }
  return with.was_stopped() ? std::max<int>(status, exit_unfinished) : status;
}

int run_many(const std::vector<scenario>& all, const play_wishes& w, progress& how_far, std::ostream& out) {
  std::vector<task> tasks;
  for (const auto& s : all) {
    const auto r = seeds_of(w, s.seeds);
    for (auto seed = r.first; seed <= r.last; ++seed)
      tasks.push_back({&s, seed});
  }
  const auto jobs = w.jobs != 0 ? w.jobs : std::max(1u, std::thread::hardware_concurrency());
  std::map<const scenario*, tally> sums;
  std::map<const scenario*, std::uint64_t> left;
  for (const auto& t : tasks)
    ++left[t.what];
  const auto begin = std::chrono::steady_clock::now();
  sim_runner with;
  std::uint64_t done = 0;
  std::uint64_t failed = 0;
  const auto look = [&] {
    how_far.look(base::mono_clock::now(),
                 [&] { return fmt::format("{} of {} runs done, {} failed", done, tasks.size(), failed); });
  };
  const auto ended = [&](const task& t, const verdict& v) {
    auto& sum = sums[t.what];
    sum.add(v);
    ++done;
    failed += v.status == exit_good ? 0 : 1;
    if (w.json)
      print_json(out, *t.what, v);
    else if (!v.report.empty() && sum.failed <= shown_failures)
      out << v.report << std::flush;
    if (--left[t.what] == 0 && !w.json)
      out << fmt::format("{}: {} of {} seeds well; {}\n", name_of(*t.what, all), sum.runs - sum.failed,
                         sum.runs, counts(sum.transfers))
          << words_of(sum.void_faults) << std::flush;
  };
  run_in_processes(tasks, jobs, with, ended, how_far.is_on() ? look : std::function<void()>{});
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  int status = exit_good;
  for (const auto& [s, sum] : sums)
    status = std::max(status, sum.status);
  if (!w.json)
    out << fmt::format("{} runs in {:.1f} s, {} failed\n", tasks.size(), took.count(), failed);
  return status;
}

} // namespace

int play_files(const std::vector<scenario>& all, const play_wishes& w, progress& how_far,
               std::ostream& output) {
  if (w.real)
    return run_in_real_time(all, w, how_far, output);
  return w.trace ? run_one_with_trace(all.front(), *w.seed, w.json, output)
                 : run_many(all, w, how_far, output);
}

} // namespace actor_rdma::drill
