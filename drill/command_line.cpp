// SPDX-License-Identifier: Apache-2.0
// The commands.
#include "drill/command_line.hpp"

#include "base/command_line.hpp"
#include "drill/explain.hpp"
#include "drill/format/read.hpp"
#include "drill/measure.hpp"
#include "drill/pool.hpp"
#include "drill/random_scenario.hpp"
#include "drill/real/host_role.hpp"
#include "drill/real/real_runner.hpp"
#include "drill/real/suits_real.hpp"
#include "drill/sim/sim_runner.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <optional>
#include <ostream>
#include <thread>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace actor_rdma::drill {

namespace {

constexpr std::size_t shown_failures = 5; // of each file; the others are counted

struct seed_range {
  std::uint64_t first = 1;
  std::uint64_t last = 0;
};

struct wishes {
  std::vector<std::string> files;
  std::optional<std::uint64_t> seed;
  std::optional<seed_range> seeds;
  std::uint64_t seeds_at_most = 0; ///< 0: no limit
  unsigned jobs = 0;
  bool trace = false;
  bool json = false;
  bool real = false;
};

constexpr auto most_seed = std::uint64_t{1} << 62; ///< a negative one wraps to beyond it

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional{n} : std::nullopt;
}

seed_range parse_seeds(const std::string& text) {
  const auto dots = text.find("..");
  const auto first =
      dots == std::string::npos ? std::optional<std::uint64_t>{1} : number(text.substr(0, dots));
  const auto last = number(dots == std::string::npos ? text : text.substr(dots + 2));
  if (!first || !last || *last < *first || *last - *first >= 100'000'000)
    throw CLI::ValidationError("--seeds", "\"" + text + "\" is not a range: A..B with A <= B, or N for 1..N");
  return {*first, *last};
}

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
  int status = exit_good;

  void add(const verdict& v) {
    ++runs;
    failed += v.status == exit_good ? 0 : 1;
    status = std::max(status, v.status);
    for (const auto& [s, n] : v.transfers)
      transfers[s] += n;
  }
};

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
  nlohmann::json line{{"file", s.path},           {"id", s.id},
                      {"seed", v.seed},           {"status", v.status},
                      {"transfers", v.transfers}, {"virtual_ms", v.virtual_ms},
                      {"steps", v.steps},         {"fingerprint", fmt::format("{:016x}", v.fingerprint)},
                      {"findings", findings},     {"repeat", repeat_command(s, v.seed, v.in_real_time)}};
  if (v.in_real_time)
    line.update({{"real", true}, {"not_checked", v.not_checked}});
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
                             : v.report);
  return v.status;
}

/// One run after the other: each has the machine for itself.
int run_in_real_time(const std::vector<scenario>& all, const wishes& w, std::ostream& out) {
  real_runner with;
  int status = exit_good;
  for (const auto& file : all) {
    const auto s = with_real_time_slack(file);
    seed_range r = w.seed ? seed_range{*w.seed, *w.seed} : w.seeds.value_or(seed_range{1, 1});
    if (w.seeds_at_most != 0)
      r.last = std::min(r.last, r.first + w.seeds_at_most - 1);
    for (auto seed = r.first; seed <= r.last && !with.was_stopped(); ++seed) {
      const auto facts = with.run(s, seed, {w.trace});
      for (const auto& line : facts.trace)
        out << line << '\n';
      const auto v = judge(s, facts);
      status = std::max(status, v.status);
      if (w.json)
        print_json(out, s, v);
      else
        out << (v.report.empty() ? fmt::format("{}: seed {} is well in real time: {}\n", name_of(file, all),
                                               seed, counts(v.transfers))
                                 : v.report)
            << fmt::format("  not checked with --real: {}\n", fmt::join(v.not_checked, ", ")) << std::flush;
    }
  }
  return with.was_stopped() ? std::max<int>(status, exit_unfinished) : status;
}

int run_many(const std::vector<scenario>& all, const wishes& w, std::ostream& out) {
  std::vector<task> tasks;
  for (const auto& s : all) {
    seed_range r{1, s.seeds};
    if (w.seed)
      r = {*w.seed, *w.seed};
    else if (w.seeds)
      r = *w.seeds;
    if (w.seeds_at_most != 0)
      r.last = std::min(r.last, r.first + w.seeds_at_most - 1);
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
  run_in_processes(tasks, jobs, with, [&](const task& t, const verdict& v) {
    auto& sum = sums[t.what];
    sum.add(v);
    if (w.json)
      print_json(out, *t.what, v);
    else if (!v.report.empty() && sum.failed <= shown_failures)
      out << v.report << std::flush;
    if (--left[t.what] == 0 && !w.json)
      out << fmt::format("{}: {} of {} seeds well; {}\n", name_of(*t.what, all), sum.runs - sum.failed,
                         sum.runs, counts(sum.transfers))
          << std::flush;
  });
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  int status = exit_good;
  std::uint64_t failed = 0;
  for (const auto& [s, sum] : sums) {
    status = std::max(status, sum.status);
    failed += sum.failed;
  }
  if (!w.json)
    out << fmt::format("{} runs in {:.1f} s, {} failed\n", tasks.size(), took.count(), failed);
  return status;
}

std::optional<scenario> read(const std::string& path, std::ostream& errors) {
  auto s = read_scenario(path);
  if (s)
    return std::move(*s);
  for (const auto& c : s.error())
    errors << c << '\n';
  return std::nullopt;
}

/// Fewer than files if one could not be read.
std::vector<scenario> read_all(const std::vector<std::string>& files, std::ostream& errors) {
  std::vector<scenario> all;
  for (const auto& path : files)
    if (auto s = read(path, errors))
      all.push_back(std::move(*s));
  return all;
}

/// False, with complaints, if one of them cannot be played in real time.
bool suit_real_time(const std::vector<scenario>& all, std::ostream& errors) {
  bool good = true;
  for (const auto& s : all)
    for (const auto& complaint : refuse_in_real_time(s)) {
      errors << s.path << ": " << complaint << '\n';
      good = false;
    }
  return good;
}

int command_run(const wishes& w, std::ostream& output, std::ostream& errors) {
  const auto all = read_all(w.files, errors);
  if (all.size() != w.files.size())
    return exit_usage;
  if (w.real) {
    bool good = !w.trace || (all.size() == 1 && w.seed);
    if (!good)
      errors << "actor-rdma-drill: --trace goes with one file and --seed\n";
    good = suit_real_time(all, errors) && good;
    return good ? run_in_real_time(all, w, output) : exit_usage;
  }
  if (!w.trace)
    return run_many(all, w, output);
  if (all.size() != 1 || !w.seed) {
    errors << "actor-rdma-drill: --trace goes with one file and --seed\n";
    return exit_usage;
  }
  return run_one_with_trace(all.front(), *w.seed, w.json, output);
}

int command_list(const std::string& directory, std::ostream& output, std::ostream& errors) {
  std::error_code failed;
  std::vector<std::string> paths;
  for (std::filesystem::recursive_directory_iterator it(directory, failed), end; !failed && it != end;
       it.increment(failed))
    if (it->path().extension() == ".json")
      paths.push_back(it->path().string());
  if (failed) {
    errors << fmt::format("actor-rdma-drill: {}: {}\n", directory, failed.message());
    return exit_usage;
  }
  std::sort(paths.begin(), paths.end());
  int status = exit_good;
  for (const auto& path : paths)
    if (const auto s = read(path, errors))
      output << fmt::format("{:16} {:5} seeds  {}  ({})\n", s->id, s->seeds, s->title, path);
    else
      status = exit_usage;
  return status;
}

int command_measure(const std::vector<std::string>& files, const measure_wishes& w, std::ostream& output,
                    std::ostream& errors) {
  const auto all = read_all(files, errors);
  if (all.size() != files.size() || (w.real && !suit_real_time(all, errors)))
    return exit_usage;
  return measure(all, w, output);
}

} // namespace

int run_command_line(int argc, const char* const* argv, std::ostream& output, std::ostream& errors) {
  CLI::App app{
      "Plays fault scenarios from files in virtual time, every order of events drawn from a seed, and checks "
      "what must always hold. docs/scenarios.md describes the files. Exit status: 0 all is well, 1 an "
      "expectation failed, 2 arguments or file, 3 an invariant was broken, 4 crashed or not finished.",
      "actor-rdma-drill"};
  app.require_subcommand(1);
  wishes w;
  auto& run = *app.add_subcommand("run", "Play scenarios and check them");
  run.add_option("files", w.files, "Scenario files")->required();
  auto* seed = run.add_option("--seed", w.seed, "One seed")->check(CLI::Range(std::uint64_t{0}, most_seed));
  run.add_option_function<std::string>(
         "--seeds", [&w](const std::string& text) { w.seeds = parse_seeds(text); },
         "These seeds: A..B, or N for 1..N [what the file says]")
      ->excludes(seed);
  run.add_option("--seeds-at-most", w.seeds_at_most, "Only the first so many of the seeds");
  run.add_option("--jobs", w.jobs, "Processes [the number of cores]")->check(CLI::Range(1, 1024));
  run.add_flag("--trace", w.trace, "Print everything that happens; with one file and --seed");
  run.add_flag("--json", w.json, "One JSON object for each run, on a line");
  run.add_flag(
      "--real", w.real,
      "In real time, with one process for each host; one run after the other, seed 1 if none is named");
  host_wishes self;
  auto& host = *app.add_subcommand("host", "One host of a scenario that is played with --real")->group("");
  host.add_option("--file", self.file)->required();
  host.add_option("--name", self.name)->required();
  host.add_option("--fabric", self.fabric)->required();
  host.add_option("--listen", self.listen)->required();
  host.add_option("--socket", self.socket)->required();
  std::string directory = "tests/scenarios";
  auto& list = *app.add_subcommand("list", "Name the scenarios below a directory");
  list.add_option("directory", directory, "Where to look")->capture_default_str();
  std::vector<std::string> measured;
  measure_wishes figures;
  figures.jobs = std::max(1u, std::thread::hardware_concurrency());
  auto& measuring =
      *app.add_subcommand("measure", "Play scenarios many times, and print a table of their recovery times: "
                                     "p50 / p99 / greatest, in ms");
  measuring.add_option("files", measured, "Scenario files")->required();
  measuring.add_option("--runs", figures.runs, "So many of each, not counting void ones")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  measuring.add_option("--jobs", figures.jobs, "Processes [the number of cores]")->check(CLI::Range(1, 1024));
  measuring.add_flag("--real", figures.real, "In real time, one run after the other");
  measuring.add_flag("--json", figures.json, "One JSON object for each file, on a line");
  random_wishes drawn;
  double seconds = 10;
  auto& made_up =
      *app.add_subcommand("random", "Print a scenario file with faults that are drawn from a seed");
  made_up.add_option("--seed", drawn.seed, "The seed")
      ->check(CLI::Range(std::uint64_t{0}, most_seed))
      ->required();
  made_up.add_option("--seconds", seconds, "How long traffic and faults last")
      ->check(CLI::Range(1.0, 7200.0))
      ->capture_default_str();
  made_up.add_flag("--real", drawn.for_real_time, "Only what run --real can play");
  std::string file;
  auto& explained = *app.add_subcommand("explain", "Say in words what a scenario does and what is checked");
  explained.add_option("file", file, "Scenario file")->required();
  base::refuse_empty_values(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (const auto unknown = base::name_unknown_command(app); !unknown.empty()) {
      errors << "actor-rdma-drill: " << unknown << '\n';
      return exit_usage;
    }
    return app.exit(e, output, errors) == 0 ? exit_good : exit_usage;
  }
  if (host.parsed())
    return run_host(self);
  if (list.parsed())
    return command_list(directory, output, errors);
  if (run.parsed())
    return command_run(w, output, errors);
  if (made_up.parsed()) {
    drawn.lasts = std::chrono::duration_cast<base::duration>(std::chrono::duration<double>(seconds));
    output << random_scenario(drawn);
    return exit_good;
  }
  if (measuring.parsed())
    return command_measure(measured, figures, output, errors);
  const auto s = read(file, errors);
  if (!s)
    return exit_usage;
  output << explain(*s);
  return exit_good;
}

} // namespace actor_rdma::drill
