// SPDX-License-Identifier: Apache-2.0
// Forked workers that write one JSON line when they begin a task and one when it is done.
#include "drill/pool.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace actor_rdma::drill {

namespace {

using json = nlohmann::json;

constexpr int look_period_ms = 1000;

json to_json(const verdict& v) {
  json figures = json::array();
  for (const auto& f : v.figures)
    figures.push_back(f ? json(*f) : json());
  json findings = json::array();
  for (const auto& f : v.findings)
    findings.push_back({static_cast<int>(f.what), f.check, f.about, f.text});
  return {{"status", v.status},         {"findings", findings},         {"report", v.report},
          {"transfers", v.transfers},   {"fingerprint", v.fingerprint}, {"steps", v.steps},
          {"virtual_ms", v.virtual_ms}, {"figures", figures},           {"void_faults", v.void_faults}};
}

verdict from_json(const json& j, std::uint64_t seed) {
  verdict v;
  v.seed = seed;
  v.status = j.at("status").get<int>();
  for (const auto& f : j.at("findings"))
    v.findings.push_back({static_cast<check_class>(f.at(0).get<int>()),
                          f.at(1).get<std::string>(),
                          f.at(2).get<std::string>(),
                          f.at(3).get<std::string>(),
                          {}});
  v.report = j.at("report").get<std::string>();
  v.transfers = j.at("transfers").get<std::map<std::string, std::uint64_t>>();
  v.void_faults = j.at("void_faults").get<std::map<std::size_t, std::uint64_t>>();
  v.fingerprint = j.at("fingerprint").get<std::uint64_t>();
  v.steps = j.at("steps").get<std::uint64_t>();
  v.virtual_ms = j.at("virtual_ms").get<double>();
  for (const auto& f : j.at("figures"))
    v.figures.push_back(f.is_null() ? std::nullopt : std::optional{f.get<double>()});
  return v;
}

void write_line(int fd, const json& what) {
  const auto line = what.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  for (std::size_t at = 0; at < line.size();) {
    const auto n = ::write(fd, line.data() + at, line.size() - at);
    if (n < 0 && errno != EINTR)
      return; // nobody listens any more
    at += n > 0 ? static_cast<std::size_t>(n) : 0;
  }
}

struct worker {
  pid_t pid = -1;
  int fd = -1;
  std::size_t next = 0; ///< first task that is its own and not begun
  std::optional<std::size_t> running;
  std::string buffer;
};

/// In the child; never returns.
[[noreturn]] void work(int fd, const std::vector<task>& tasks, std::size_t first, std::size_t step,
                       runner& with) {
  for (auto i = first; i < tasks.size(); i += step) {
    write_line(fd, {{"begin", i}});
    const auto facts = with.run(*tasks[i].what, tasks[i].seed, {});
    write_line(fd, {{"end", i}, {"verdict", to_json(judge(*tasks[i].what, facts))}});
  }
  ::_exit(0);
}

bool start(worker& w, const std::vector<task>& tasks, std::size_t step, runner& with,
           const std::vector<worker>& others) {
  int ends[2];
  if (::pipe(ends) != 0)
    return false;
  std::cout.flush();
  std::cerr.flush();
  const auto parent = ::getpid();
  w.pid = ::fork();
  if (w.pid == 0) {
    // A run that nobody waits for any more must not go on.
    if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || ::getppid() != parent)
      ::_exit(1);
    ::close(ends[0]);
    for (const auto& o : others)
      if (o.fd >= 0)
        ::close(o.fd);
    work(ends[1], tasks, w.next, step, with);
  }
  ::close(ends[1]);
  w.fd = ends[0];
  w.buffer.clear();
  if (w.pid > 0)
    return true;
  ::close(w.fd);
  w.fd = -1;
  return false;
}

verdict lost_run(const task& t, const std::string& why) {
  verdict v;
  v.seed = t.seed;
  v.findings.push_back({check_class::unfinished, "end", "the run", why, {}});
  v.status = exit_unfinished;
  v.report = fmt::format("FAILED {} ({}), seed {}\n  {}\n  repeat it: {}\n", t.what->path, t.what->id, t.seed,
                         why, repeat_command(*t.what, t.seed));
  return v;
}

std::string how_it_ended(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status))
    return fmt::format("the process was ended by signal {} ({})", WTERMSIG(status),
                       ::strsignal(WTERMSIG(status)));
  return fmt::format("the process ended with status {}", WEXITSTATUS(status));
}

} // namespace

void run_in_processes(const std::vector<task>& tasks, unsigned jobs, runner& with,
                      const std::function<void(const task&, const verdict&)>& done,
                      const std::function<void()>& look) {
  const auto step = std::clamp<std::size_t>(jobs, 1, std::max<std::size_t>(tasks.size(), 1));
  std::vector<worker> workers(step);
  for (std::size_t i = 0; i < step && i < tasks.size(); ++i) {
    workers[i].next = i;
    if (!start(workers[i], tasks, step, with, workers))
      for (auto k = i; k < tasks.size(); k += step)
        done(tasks[k], lost_run(tasks[k], "cannot start a process: " + base::errno_text(errno)));
  }
  const auto heard = [&](worker& w, const std::string& line) {
    const auto j = json::parse(line, nullptr, false);
    if (j.is_discarded())
      return;
    if (j.contains("begin")) {
      w.running = j["begin"].get<std::size_t>();
      w.next = *w.running + step;
    } else {
      const auto i = j["end"].get<std::size_t>();
      w.running.reset();
      done(tasks[i], from_json(j["verdict"], tasks[i].seed));
    }
  };
  for (;;) {
    std::vector<pollfd> fds;
    for (const auto& w : workers)
      if (w.fd >= 0)
        fds.push_back({w.fd, POLLIN, 0});
    if (fds.empty())
      return;
    if (look)
      look();
    if (::poll(fds.data(), fds.size(), look ? look_period_ms : -1) < 0)
      continue;
    for (const auto& p : fds) {
      if (p.revents == 0)
        continue;
      auto& w = *std::find_if(workers.begin(), workers.end(), [&](const auto& x) { return x.fd == p.fd; });
      char chunk[65536];
      const auto n = ::read(w.fd, chunk, sizeof(chunk));
      if (n < 0)
        continue;
      if (n > 0) {
        w.buffer.append(chunk, static_cast<std::size_t>(n));
        for (auto end = w.buffer.find('\n'); end != std::string::npos; end = w.buffer.find('\n')) {
          heard(w, w.buffer.substr(0, end));
          w.buffer.erase(0, end + 1);
        }
        continue;
      }
      ::close(w.fd);
      w.fd = -1;
      const auto how = how_it_ended(w.pid);
      if (w.running)
        done(tasks[*w.running], lost_run(tasks[*w.running], how));
      w.running.reset();
      if (w.next < tasks.size())
        start(w, tasks, step, with, workers);
    }
  }
}

} // namespace actor_rdma::drill
