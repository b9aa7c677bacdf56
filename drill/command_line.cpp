// SPDX-License-Identifier: Apache-2.0
// The commands.
#include "drill/command_line.hpp"

#include "base/command_line.hpp"
#include "drill/explain.hpp"
#include "drill/format/read.hpp"
#include "drill/judge.hpp"
#include "drill/kernel/devices_file.hpp"
#include "drill/kernel/suits_kernel.hpp"
#include "drill/measure.hpp"
#include "drill/play_command.hpp"
#include "drill/random_scenario.hpp"
#include "drill/real/host_role.hpp"
#include "drill/real/suits_real.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <optional>
#include <thread>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <unistd.h>

namespace actor_rdma::drill {

namespace {

constexpr auto most_seed = std::uint64_t{1} << 62; ///< a negative one wraps to beyond it

/// When to say how far a long command has come.
struct talk_wishes {
  bool always = false;
  std::optional<double> every_s;

  void add_to(CLI::App& command) {
    command.add_flag("--progress", always,
                     "Say every 10 s how far it has come, also if standard error is no terminal");
    command.add_option("--progress-every", every_s, "The same, every so many seconds")
        ->check(CLI::Range(0.001, 86400.0));
  }
  progress make(std::ostream& errors) const {
    const bool is_watched = &errors == &std::cerr && ::isatty(STDERR_FILENO) == 1;
    if (!always && !every_s && !is_watched)
      return {};
    return {errors,
            std::chrono::duration_cast<base::duration>(std::chrono::duration<double>(every_s.value_or(10))),
            base::mono_clock::now()};
  }
};

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

std::optional<scenario> read(const std::string& path, std::ostream& errors) {
  auto s = read_scenario(path);
  if (s)
    return std::move(*s);
  for (const auto& c : s.error())
    errors << c << '\n';
  return std::nullopt;
}

void warn(const scenario& s, std::ostream& errors) {
  for (const auto& warning : s.warnings())
    errors << s.path << ": warning: " << warning << '\n';
}

/// Fewer than files if one could not be read.
std::vector<scenario> read_all(const std::vector<std::string>& files, std::ostream& errors) {
  std::vector<scenario> all;
  for (const auto& path : files)
    if (auto s = read(path, errors))
      all.push_back(std::move(*s));
  return all;
}

/// False, with complaints, if one of them cannot be played in real time, or in virtual time.
bool suit_time(const std::vector<scenario>& all, bool real, std::ostream& errors) {
  bool good = true;
  for (const auto& s : all)
    for (const auto& complaint : real ? refuse_in_real_time(s) : refuse_in_virtual_time(s)) {
      errors << s.path << ": " << complaint << '\n';
      good = false;
    }
  return good;
}

/// The same of devices of the kernel, if there are any.
bool suit_devices(const std::vector<scenario>& all, const std::string& devices_file, std::ostream& errors) {
  if (devices_file.empty())
    return true;
  const auto devices = read_devices_file(devices_file);
  if (!devices) {
    errors << "actor-rdma-drill: " << devices.error().to_string() << '\n';
    return false;
  }
  bool good = true;
  for (const auto& s : all)
    for (const auto& complaint : refuse_on_kernel(s, *devices)) {
      errors << s.path << ": " << complaint << '\n';
      good = false;
    }
  return good;
}

int command_run(const std::vector<std::string>& files, const play_wishes& w, progress& how_far,
                std::ostream& output, std::ostream& errors) {
  const auto all = read_all(files, errors);
  if (all.size() != files.size())
    return exit_usage;
  bool good = !w.trace || (all.size() == 1 && w.seed);
  if (!good)
    errors << "actor-rdma-drill: --trace goes with one file and --seed\n";
  good = suit_time(all, w.real, errors) && good;
  good = suit_devices(all, w.devices_file, errors) && good;
  if (!good)
    return exit_usage;
  for (const auto& s : all)
    warn(s, errors);
  return play_files(all, w, how_far, output);
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

int command_measure(const std::vector<std::string>& files, const measure_wishes& w, progress& how_far,
                    std::ostream& output, std::ostream& errors) {
  const auto all = read_all(files, errors);
  if (all.size() != files.size() || !suit_time(all, w.real, errors))
    return exit_usage;
  return measure(all, w, how_far, output);
}

} // namespace

int run_command_line(int argc, const char* const* argv, std::ostream& output, std::ostream& errors) {
  CLI::App app{
      "Plays fault scenarios from files in virtual time, every order of events drawn from a seed, and checks "
      "what must always hold. docs/scenarios.md describes the files. Exit status: 0 all is well, 1 an "
      "expectation failed, 2 arguments or file, 3 an invariant was broken, 4 crashed or not finished.",
      "actor-rdma-drill"};
  app.require_subcommand(1);
  play_wishes w;
  std::vector<std::string> files;
  auto& run = *app.add_subcommand("run", "Play scenarios and check them");
  run.add_option("files", files, "Scenario files")->required();
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
  std::string fabric = "soft";
  auto* of_devices = run.add_option("--devices", w.devices_file,
                                    "Which devices of the kernel stand for which of the scenarios (JSON)");
  run.add_option("--fabric", fabric,
                 "soft: the software NIC; verbs: devices of the kernel, in real time, see --devices")
      ->check(CLI::IsMember({"soft", "verbs"}))
      ->capture_default_str();
  talk_wishes talk;
  talk.add_to(run);
  host_wishes self;
  auto& host = *app.add_subcommand("host", "One host of a scenario that is played with --real")->group("");
  host.add_option("--file", self.file)->required();
  host.add_option("--name", self.name)->required();
  host.add_option("--fabric", self.fabric);
  host.add_option("--devices", self.devices);
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
  talk.add_to(measuring);
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
    if ((fabric == "verbs") != (of_devices->count() != 0))
      throw CLI::ValidationError("--fabric",
                                 "verbs goes with --devices FILE, and --devices with --fabric verbs");
    w.real = w.real || fabric == "verbs";
  } catch (const CLI::ParseError& e) {
    if (const auto unknown = base::name_unknown_command(app); !unknown.empty()) {
      errors << "actor-rdma-drill: " << unknown << '\n';
      return exit_usage;
    }
    return app.exit(e, output, errors) == 0 ? exit_good : exit_usage;
  }
  auto how_far = talk.make(errors);
  if (host.parsed())
    return run_host(self);
  if (list.parsed())
    return command_list(directory, output, errors);
  if (run.parsed())
    return command_run(files, w, how_far, output, errors);
  if (made_up.parsed()) {
    drawn.lasts = std::chrono::duration_cast<base::duration>(std::chrono::duration<double>(seconds));
    output << random_scenario(drawn);
    return exit_good;
  }
  if (measuring.parsed())
    return command_measure(measured, figures, how_far, output, errors);
  const auto s = read(file, errors);
  if (!s)
    return exit_usage;
  warn(*s, errors);
  output << explain(*s);
  return exit_good;
}

} // namespace actor_rdma::drill
