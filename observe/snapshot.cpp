// SPDX-License-Identifier: Apache-2.0
// Text forms of a snapshot.
#include "observe/snapshot.hpp"

#include <iterator>

#include <fmt/format.h>

namespace actor_rdma::observe {

namespace {

double ms(base::duration d) {
  return std::chrono::duration<double, std::milli>(d).count();
}

} // namespace

std::string to_line(const actor_snapshot& s) {
  std::string out = fmt::format("{} {}: {} for {:.1f} ms", s.kind, s.name, s.state, ms(s.age));
  auto to = std::back_inserter(out);
  fmt::format_to(to, ", {} queued, {} outstanding", s.queued, s.outstanding);
  if (s.outstanding > 0)
    fmt::format_to(to, " (oldest {:.1f} ms)", ms(s.oldest));
  if (s.qp_num != 0)
    fmt::format_to(to, ", QP {:#x} generation {}", s.qp_num, s.generation);
  if (s.ignored_events > 0)
    fmt::format_to(to, ", {} ignored events", s.ignored_events);
  if (!s.cause.empty())
    fmt::format_to(to, ", last cause: {}", s.cause);
  return out;
}

std::string to_text(const actor_snapshot& s, base::time_point now) {
  auto out = to_line(s);
  for (const auto& t : s.last)
    fmt::format_to(std::back_inserter(out), "\n    {:10.1f} ms ago  {} -> {}  ({})", ms(now - t.at), t.from,
                   t.to, t.event);
  return out;
}

} // namespace actor_rdma::observe
