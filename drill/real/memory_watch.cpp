// SPDX-License-Identifier: Apache-2.0
// /proc/PID/statm, second number: resident pages.
#include "drill/real/memory_watch.hpp"

#include <algorithm>
#include <fstream>

#include <unistd.h>

namespace actor_rdma::drill {

namespace {

using namespace std::chrono_literals;

constexpr base::duration warm_up = 10s;
constexpr base::duration shortest = 60s;

} // namespace

void memory_watch::look(const std::string& host, pid_t process, base::time_point now) {
  std::ifstream statm("/proc/" + std::to_string(process) + "/statm");
  std::uint64_t size = 0;
  std::uint64_t resident = 0;
  std::uint64_t shared = 0; // the NIC's tables and the mapped memory: they have their size from the start
  if (statm >> size >> resident >> shared && resident > shared)
    add(host, process, now, (resident - shared) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)));
}

void memory_watch::add(const std::string& host, pid_t process, base::time_point now, std::uint64_t bytes) {
  lives_[{host, process}].emplace_back(now, bytes);
}

std::vector<growth_fact> memory_watch::result() const {
  std::vector<growth_fact> all;
  for (const auto& [who, life] : lives_) {
    const auto begin = life.front().first;
    const auto lasted = life.back().first - begin;
    if (lasted < shortest)
      continue;
    growth_fact g;
    g.host = who.first;
    g.watched = lasted;
    std::vector<std::uint64_t> late;
    for (const auto& [at, bytes] : life) {
      if (at >= begin + warm_up && at <= begin + warm_up + lasted / 10)
        g.early_bytes = std::max(g.early_bytes, bytes);
      if (at >= begin + lasted - lasted / 10)
        late.push_back(bytes);
    }
    std::nth_element(late.begin(), late.begin() + static_cast<std::ptrdiff_t>(late.size() / 2), late.end());
    g.late_bytes = late[late.size() / 2];
    all.push_back(std::move(g));
  }
  return all;
}

} // namespace actor_rdma::drill
