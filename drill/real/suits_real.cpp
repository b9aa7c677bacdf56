// SPDX-License-Identifier: Apache-2.0
// The limits of real time.
#include "drill/real/suits_real.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace actor_rdma::drill {

namespace {

using namespace std::chrono_literals;

constexpr auto longest = 7200s;
/// A machine that is busy may keep any process waiting for so long.
constexpr auto slack = 1s;

} // namespace

std::vector<std::string> refuse_in_real_time(const scenario& what) {
  std::vector<std::string> wrong;
  const auto too_long = [&](const std::string& where, base::duration t) {
    if (t > longest)
      wrong.push_back(fmt::format("{}: lasts until {} s, accepted with --real are {} s", where,
                                  t / std::chrono::seconds{1}, longest / std::chrono::seconds{1}));
  };
  for (std::size_t i = 0; i < what.faults.size(); ++i) {
    const auto& f = what.faults[i];
    const auto last =
        f.at.value_or(base::duration::zero()) + f.spread + f.lasts.value_or(base::duration::zero());
    too_long(fmt::format("faults[{}] ({})", i, f.kind), last);
    if (f.times > 1 && f.every.count() > 0 && f.times - 1 > static_cast<std::uint64_t>(longest / f.every))
      too_long(fmt::format("faults[{}].times", i), base::duration::max());
  }
  for (std::size_t i = 0; i < what.traffic.size(); ++i) {
    const auto& t = what.traffic[i];
    too_long(fmt::format("traffic[{}]", i),
             std::max(t.start, t.repeat_until.value_or(base::duration::zero())));
    if (t.notice || t.notices_only)
      wrong.push_back(
          fmt::format("traffic[{}].notice: notices are sent in virtual time only, not with --real", i));
  }
  return wrong;
}

std::vector<std::string> refuse_in_virtual_time(const scenario& what) {
  std::vector<std::string> wrong;
  for (std::size_t i = 0; i < what.faults.size(); ++i)
    if (what.faults[i].kind == "host_fork")
      wrong.push_back(
          fmt::format("faults[{}].kind: host_fork is accepted with --real only: in virtual time all hosts "
                      "are one process, which does not fork",
                      i));
  return wrong;
}

const std::vector<std::string>& not_checked_in_real_time() {
  static const std::vector<std::string> all{"isolation", "progress"};
  return all;
}

scenario with_real_time_slack(scenario what) {
  what.bounds.converge_within += slack;
  what.bounds.end_grace += slack;
  return what;
}

} // namespace actor_rdma::drill
