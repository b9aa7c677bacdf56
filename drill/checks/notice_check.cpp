// SPDX-License-Identifier: Apache-2.0
// One row for each end that a sender can be told, and what may be seen of the notice then.
#include "drill/checks/notice_check.hpp"

#include "drill/checks/statistics.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include <fmt/format.h>

namespace actor_rdma::drill {

namespace {

using observe::event_kind;

struct rule {
  notice_status told;
  std::uint32_t seen_at_least;
  std::uint32_t seen_at_most;
  bool may_have_left; ///< it may have been handed to a control link
  event_kind told_by; ///< of the one event that says so
  bool needs_cause;
};

constexpr std::array rules{
    rule{notice_status::delivered, 1, 1, true, event_kind::notice_delivered, false},
    rule{notice_status::withheld, 0, 0, false, event_kind::notice_lost, true},
    rule{notice_status::lost, 0, 0, false, event_kind::notice_lost, true},
    rule{notice_status::unknown, 0, 1, true, event_kind::notice_lost, true},
};

const rule* rule_of(notice_status told) {
  const auto* at = std::find_if(rules.begin(), rules.end(), [told](const rule& r) { return r.told == told; });
  return at == rules.end() ? nullptr : at;
}

/// What the transport's events say of one notice.
struct trail {
  std::uint32_t sent = 0;
  std::uint32_t received = 0;
  std::uint32_t delivered = 0;
  std::uint32_t not_delivered = 0;
  std::string how; ///< of the last of those
  std::uint32_t told_by(event_kind kind) const {
    return kind == event_kind::notice_delivered ? delivered : not_delivered;
  }
};

using trails = std::map<std::string, trail>;
using transfer_index = std::map<std::pair<std::string, std::uint64_t>, const transfer_fact*>;

trails read_trails(const run_facts& f) {
  trails all;
  for (const auto& e : f.events) {
    const auto& w = e.what;
    switch (w.kind) {
    case event_kind::notice_sent: ++all[w.detail].sent; break;
    case event_kind::notice_received: ++all[w.detail].received; break;
    case event_kind::notice_delivered: ++all[w.detail].delivered; break;
    case event_kind::notice_lost: { // "name: cause"
      auto& t = all[w.detail.substr(0, w.detail.find(": "))];
      ++t.not_delivered;
      t.how = w.to;
      break;
    }
    default: break;
    }
  }
  return all;
}

class notice_judge {
public:
  notice_judge(const scenario& s, const run_facts& f, std::vector<finding>& all)
      : scenario_(s), facts_(f), all_(all), trails_(read_trails(f)) {
    if (!f.notices.empty())
      for (const auto& t : f.transfers)
        transfers_.emplace(std::pair{t.traffic, t.number}, &t);
  }

  void judge_all() {
    for (const auto& n : facts_.notices) {
      const auto at = trails_.find(n.name);
      judge(n, at == trails_.end() ? trail{} : at->second);
      if (at != trails_.end())
        trails_.erase(at);
    }
    for (const auto& [name, t] : trails_)
      add(name, {},
          t.received > 0 ? "arrived, and nobody submitted it" : "is told of, and nobody submitted it");
  }

private:
  void add(const std::string& name, std::vector<std::string> actors, std::string text) {
    all_.push_back({check_class::invariant, "notice after data, once", "notice " + name, std::move(text),
                    std::move(actors)});
  }
  void say(const notice_fact& n, std::string text) { add(n.name, {n.from, n.to}, std::move(text)); }

  void judge(const notice_fact& n, const trail& t) {
    if (n.seen > 1)
      say(n, fmt::format("was seen {} times", n.seen));
    if (n.wrong)
      say(n, fmt::format("was seen at {:.3f} ms, and {}", in_ms(n.first_seen.value_or(base::duration{})),
                         *n.wrong));
    if (t.received != n.seen)
      say(n, fmt::format("was seen {} times, and arrived {} times by the events", n.seen, t.received));
    if (n.seen > 0 || n.status == notice_status::delivered)
      judge_data(n);
    if (n.told)
      judge_told(n, t);
    else if (!n.sender_died && !(facts_.unfinished && facts_.ended <= limit(n)))
      say(n, fmt::format("its end was never told; its limit was {:.3f} ms", in_ms(n.limit)));
  }

  /// It may leave only when every transfer of its batch has completed.
  void judge_data(const notice_fact& n) {
    for (auto i = n.first_transfer; i < n.first_transfer + n.transfers; ++i) {
      const auto at = transfers_.find({n.traffic, i});
      if (at != transfers_.end() && at->second->ended && at->second->status != transfer_status::completed)
        say(n,
            fmt::format("{}, but transfer {} of its batch ended as {}",
                        n.seen > 0 ? "was seen" : "was told as delivered", i, to_string(at->second->status)));
    }
  }

  void judge_told(const notice_fact& n, const trail& t) {
    const auto* r = rule_of(n.status);
    const auto* name = to_string(n.status);
    if (r == nullptr)
      return say(n, fmt::format("its batch was told to be over while it was {}", name));
    if (n.seen < r->seen_at_least)
      say(n, fmt::format("its sender was told {}, and nobody saw it", name));
    if (n.seen == 1 && r->seen_at_most == 0)
      say(n, fmt::format("its sender was told {}, and it was seen at {:.3f} ms", name,
                         in_ms(n.first_seen.value_or(base::duration{}))));
    if (t.sent > 0 && !r->may_have_left)
      say(n, fmt::format("its sender was told {}, and it was sent", name));
    if (r->needs_cause && n.cause == base::reason::none)
      say(n, fmt::format("its sender was told {} without a cause", name));
    if (t.told_by(r->told_by) != 1 || t.delivered + t.not_delivered != 1 ||
        (r->told_by == event_kind::notice_lost && t.how != name))
      say(n, fmt::format("its sender was told {}, but the events say {} times delivered and {} times not{}",
                         name, t.delivered, t.not_delivered, t.how.empty() ? "" : " (" + t.how + ")"));
    if (n.ends != 1)
      say(n, fmt::format("its end was told {} times", n.ends));
    if (!facts_.unfinished && n.final_status != n.status)
      say(n, fmt::format("was told as {} and is {} now", name, to_string(n.final_status)));
    if (*n.told > limit(n))
      say(n, fmt::format("was told as {} at {:.3f} ms; {:.3f} ms would have been in time", name,
                         in_ms(*n.told), in_ms(limit(n))));
  }

  base::duration limit(const notice_fact& n) const { return n.limit + scenario_.bounds.end_grace; }

  const scenario& scenario_;
  const run_facts& facts_;
  std::vector<finding>& all_;
  trails trails_;
  transfer_index transfers_;
};

} // namespace

void check_notices(const scenario& what, const run_facts& facts, std::vector<finding>& all) {
  notice_judge{what, facts, all}.judge_all();
}

} // namespace actor_rdma::drill
