// SPDX-License-Identifier: Apache-2.0
// Children and their figures.
#include "bench/compare.hpp"

#include "bench/command_line.hpp"
#include "bench/results.hpp"
#include "bench/text.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <optional>

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace actor_rdma::bench {

namespace {

using nlohmann::ordered_json;

/// Standard output of this program with other arguments; nothing if it failed.
std::optional<std::string> output_of(std::vector<std::string> arguments) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0)
    return std::nullopt;
  std::vector<char*> argv;
  for (auto& a : arguments)
    argv.push_back(a.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addclose(&actions, ends[0]);
  posix_spawn_file_actions_addclose(&actions, ends[1]);
  // The signals that this process blocks are the child's business.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t child = 0;
  const int error = ::posix_spawn(&child, "/proc/self/exe", &actions, &attributes, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  ::close(ends[1]);
  std::string text;
  std::array<char, 4096> part{};
  while (error == 0) {
    const auto n = ::read(ends[0], part.data(), part.size());
    if (n > 0)
      text.append(part.data(), static_cast<std::size_t>(n));
    else if (n == 0 || errno != EINTR)
      break;
  }
  ::close(ends[0]);
  int status = 0;
  if (error != 0 || ::waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return std::nullopt;
  return text;
}

std::vector<std::string> without_own_options(const std::vector<std::string>& arguments) {
  std::vector<std::string> kept;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const auto& a = arguments[i];
    if (a == "--compare" || a == "--engine")
      ++i;
    else if (a != "--json" && a.rfind("--compare=", 0) != 0 && a.rfind("--engine=", 0) != 0)
      kept.push_back(a);
  }
  return kept;
}

struct pair_of_runs {
  ordered_json actor;
  ordered_json raw;
  double ratio() const {
    return actor["throughput_bytes_s"].get<double>() / raw["throughput_bytes_s"].get<double>();
  }
  double difference(const char* key) const { return actor[key].get<double>() - raw[key].get<double>(); }
  double p50_difference_us() const {
    return actor["latency_us"]["p50"].get<double>() - raw["latency_us"]["p50"].get<double>();
  }
};

template <class Get>
double median(const std::vector<pair_of_runs>& pairs, Get get) {
  std::vector<double> v;
  for (const auto& p : pairs)
    v.push_back(get(p));
  std::sort(v.begin(), v.end());
  const auto n = v.size();
  return n % 2 == 1 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

ordered_json summary(const std::vector<pair_of_runs>& pairs) {
  ordered_json j;
  const auto of = [&](const char* engine, const char* key) {
    return median(pairs, [&](const pair_of_runs& p) {
      return (engine == std::string("actor") ? p.actor : p.raw)[key].get<double>();
    });
  };
  j["pairs"] = pairs.size();
  j["throughput_ratio"] = median(pairs, [](const auto& p) { return p.ratio(); });
  j["added_cpu_ns_per_op"] = median(pairs, [](const auto& p) { return p.difference("cpu_ns_per_op"); });
  j["added_p50_us"] = median(pairs, [](const auto& p) { return p.p50_difference_us(); });
  for (const auto* engine : {"actor", "raw"}) {
    j[engine]["throughput_bytes_s"] = of(engine, "throughput_bytes_s");
    j[engine]["ops_s"] = of(engine, "ops_s");
    j[engine]["cpu_ns_per_op"] = of(engine, "cpu_ns_per_op");
    j[engine]["p50_us"] = median(pairs, [&](const pair_of_runs& p) {
      return (engine == std::string("actor") ? p.actor : p.raw)["latency_us"]["p50"].get<double>();
    });
  }
  j["actor"]["submit_ns_per_descriptor"] = of("actor", "submit_ns_per_descriptor");
  if (pairs.front().raw.contains("core_round_trip_ns"))
    j["core_round_trip_ns"] =
        median(pairs, [](const auto& p) { return p.raw["core_round_trip_ns"].template get<double>(); });
  j["ratios"] = ordered_json::array();
  for (const auto& p : pairs)
    j["ratios"].push_back(p.ratio());
  return j;
}

std::string table(const ordered_json& j) {
  std::string out;
  for (const auto* engine : {"actor", "raw"})
    out += fmt::format("{:<7} {:>12}  {:>9}op/s  CPU {:>6.0f} ns/op  p50 {:>8.1f} us\n", engine,
                       rate_text(j[engine]["throughput_bytes_s"].get<double>()),
                       count_text(j[engine]["ops_s"].get<double>()), j[engine]["cpu_ns_per_op"].get<double>(),
                       j[engine]["p50_us"].get<double>());
  out += fmt::format(
      "actor/raw throughput {:.3f}, CPU {:+.0f} ns/op, p50 {:+.2f} us, submit {:.1f} ns/descriptor "
      "(medians of {} pairs)\n",
      j["throughput_ratio"].get<double>(), j["added_cpu_ns_per_op"].get<double>(),
      j["added_p50_us"].get<double>(), j["actor"]["submit_ns_per_descriptor"].get<double>(),
      j["pairs"].get<std::size_t>());
  if (j.contains("core_round_trip_ns"))
    out += fmt::format("core to core and back {:.0f} ns\n", j["core_round_trip_ns"].get<double>());
  return out;
}

} // namespace

int run_comparison(const settings& what, const std::vector<std::string>& arguments) {
  std::vector<pair_of_runs> pairs;
  for (std::uint32_t i = 0; i < what.compare; ++i) {
    pair_of_runs p;
    // Which one goes first changes, so that a drift of the machine does not favour one.
    for (std::uint32_t k = 0; k < 2; ++k) {
      const bool is_actor = (i + k) % 2 == 0;
      auto child = without_own_options(arguments);
      child.insert(child.end(), {"--engine", is_actor ? "actor" : "raw", "--json"});
      const auto text = output_of(std::move(child));
      auto result = text ? ordered_json::parse(*text, nullptr, false) : ordered_json();
      if (!text || result.is_discarded()) {
        fmt::print(stderr, "actor-rdma-bench: the {} run of pair {} failed\n", is_actor ? "actor" : "raw",
                   i + 1);
        return exit_transfers_failed;
      }
      (is_actor ? p.actor : p.raw) = std::move(result);
    }
    fmt::print(stderr, "pair {}: actor {}, raw {}, ratio {:.3f}\n", i + 1,
               rate_text(p.actor["throughput_bytes_s"].get<double>()),
               rate_text(p.raw["throughput_bytes_s"].get<double>()), p.ratio());
    pairs.push_back(std::move(p));
  }
  const auto j = summary(pairs);
  if (what.json)
    std::cout << j.dump() << std::endl;
  else
    std::cout << table(j) << std::flush;
  return exit_good;
}

} // namespace actor_rdma::bench
