// SPDX-License-Identifier: Apache-2.0
// The end of a run: does every rail carry again, does everything come to rest, is nothing left.
#include "drill/offers.hpp"
#include "drill/real/real_play.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace actor_rdma::drill {

namespace {

using namespace std::chrono_literals;

/// More than probes need.
constexpr std::uint64_t carried_bytes = 4096;
constexpr base::duration rest_patience = 10s;
constexpr base::duration rest_poll = 20ms;
constexpr base::duration answer_patience = 5s;
constexpr base::duration idle_patience = 60s;
/// A host ends its transport within 8 s, and joins what it began aside before.
constexpr base::duration stop_patience = 20s;

} // namespace

// -- convergence ----------------------------------------------------------------------------------

void real_play::watch_rails() {
  for (const auto& d : look_at_devices())
    for (auto& r : rails_)
      if (r.from == d.name)
        r.sent_at_fault = d.bytes_sent;
  loop_.at(loop_.now() + stage_.nics().look_period(), [this, since = facts_.faults.size()] {
    if (since == facts_.faults.size())
      look_at_rails();
  });
}

void real_play::look_at_rails() {
  for (const auto& d : look_at_devices())
    for (auto& r : rails_)
      if (!r.carried && r.from == d.name) {
        // A process that was started again counts from zero.
        r.sent_at_fault = std::min(r.sent_at_fault, d.bytes_sent);
        if (d.bytes_sent >= r.sent_at_fault + carried_bytes)
          r.carried = loop_.now();
      }
  // A process that is just starting has no devices yet, and its rails are looked at all the same.
  const bool all =
      std::all_of(rails_.begin(), rails_.end(), [](const rail& r) { return r.carried.has_value(); });
  const bool give_up_looking = facts_.converge_until.count() != 0 && now() > facts_.converge_until;
  if (!all && !give_up_looking)
    loop_.at(loop_.now() + stage_.nics().look_period(), [this, since = facts_.faults.size()] {
      if (since == facts_.faults.size())
        look_at_rails();
    });
}

/// Messages that a fault was told to meet come when they come, the last one later than the fault began.
void real_play::end_message_faults() {
  const auto last = stage_.end_message_faults();
  if (!last || *last - zero_ <= facts_.last_fault)
    return;
  was_last_fault(*last - zero_);
  watch_rails();
}

bool real_play::every_rail_carries() {
  if (what_.faults.empty())
    return true;
  const auto flows_over = now();
  end_message_faults();
  facts_.converge_until = std::max(flows_over, facts_.last_fault) + what_.bounds.converge_within;
  for (auto& f : after_flows_)
    f.begin();
  const auto may = [this](const rail& r) { return stage_.can_carry(r.from, r.to); };
  const auto all = [&] {
    return std::all_of(rails_.begin(), rails_.end(), [&](const rail& r) { return r.carried || !may(r); });
  };
  // A little longer than allowed, so that the check can say how late it was.
  turn_until(all, zero_ + facts_.converge_until + what_.bounds.converge_within);
  for (auto& f : after_flows_)
    f.finish();
  for (const auto& r : rails_)
    facts_.rails.push_back(fact_of_rail(facts_, r.from, r.to, may(r),
                                        r.carried ? std::optional{*r.carried - zero_} : std::nullopt,
                                        flows_over));
  const auto idle = [&] {
    return std::none_of(after_flows_.begin(), after_flows_.end(),
                        [](const real_flow& f) { return f.has_open(); });
  };
  turn_until(idle, loop_.now() + idle_patience); // their transfers are transfers like others
  return failure_.empty() || give_up(failure_);
}

// -- rest -----------------------------------------------------------------------------------------

void real_play::ask_actors() {
  std::size_t missing = 0;
  for (const auto& [name, host] : stage_.hosts()) {
    if (!host->is_alive() || host->is_frozen())
      continue;
    ++missing;
    host->ask({{"do", "snapshot"}}, [this, &missing](const auto& answer) {
      --missing;
      for (const auto& a : answer.at("actors")) {
        const auto kind = a.at(0).template get<std::string>();
        const auto who = a.at(1).template get<std::string>();
        const auto state = a.at(2).template get<std::string>();
        if (state == "SILENT")
          facts_.counters.push_back({fmt::format("silent actors: {} {}", kind, who), 0, 1});
        if (kind != "qp" && kind != "peer")
          continue;
        facts_.counters.push_back({fmt::format("WRs or transfers out at {} {}", kind, who), 0,
                                   a.at(3).template get<std::uint64_t>()});
        facts_.counters.push_back(
            {fmt::format("slices waiting at {} {}", kind, who), 0, a.at(4).template get<std::uint64_t>()});
      }
    });
  }
  if (!turn_until([&] { return missing == 0; }, loop_.now() + answer_patience))
    fail("a host does not answer a snapshot request");
}

void real_play::ask_for_changes() {
  std::size_t missing = 0;
  for (const auto& [name, host] : stage_.hosts()) {
    if (!host->is_alive() || host->is_frozen())
      continue;
    ++missing;
    host->ask({{"do", "changed"}}, [this, &missing](const auto& answer) {
      --missing;
      for (const auto& c : answer.at("changed"))
        each_flow([&](real_flow& f) {
          f.changed(c.at(0).template get<std::uint64_t>(), c.at(1).template get<std::size_t>(),
                    static_cast<transfer_status>(c.at(2).template get<unsigned>()));
        });
    });
  }
  if (!turn_until([&] { return missing == 0; }, loop_.now() + answer_patience))
    fail("a host does not say whether statuses changed");
}

bool real_play::come_to_rest() {
  // Counters can come back only where nothing is broken for good.
  const bool whole = std::all_of(rails_.begin(), rails_.end(),
                                 [&](const rail& r) { return stage_.can_carry(r.from, r.to); });
  auto next = loop_.now();
  const auto is_as_before = [&] {
    if (loop_.now() < next)
      return false;
    next = loop_.now() + rest_poll;
    return count() == at_start_;
  };
  if (whole) {
    turn_until(is_as_before, loop_.now() + rest_patience);
    const auto is = count();
    for (const auto& [name, n] : at_start_) {
      const auto found =
          std::find_if(is.begin(), is.end(), [&n = name](const auto& c) { return c.first == n; });
      facts_.counters.push_back({name, n, found == is.end() ? 0 : found->second});
    }
  }
  ask_actors();
  ask_for_changes();
  if (!failure_.empty())
    return give_up(failure_);
  each_flow([](real_flow& f) { f.look_again(); });
  sample_bytes(now());
  return true;
}

bool real_play::take_down() {
  shutting_down_ = true;
  for (const auto& [name, host] : stage_.hosts()) {
    if (!host->is_there())
      continue;
    if (host->is_frozen())
      host->freeze(false);
    bool has_answered = false;
    host->ask({{"do", "stop"}}, [&, who = name](const auto& answer) {
      has_answered = true;
      for (const auto& what : answer.at("left"))
        facts_.counters.push_back(
            {"could not be released on " + who + ": " + what.template get<std::string>(), 0, 1});
      const auto fds = answer.at("fds").template get<std::pair<std::uint64_t, std::uint64_t>>();
      facts_.counters.push_back({"open file descriptors of " + who, fds.first, fds.second});
    });
    if (!turn_until([&] { return has_answered; }, loop_.now() + stop_patience))
      fail(fmt::format("host {} does not stop: {}; its threads wait for: {}", name, host->wait_for_end({}),
                       host->waits_for()));
    else if (const auto wrong = host->wait_for_end(stop_patience); !wrong.empty())
      fail(fmt::format("host {}: {}", name, wrong));
  }
  for (const auto& d : look_at_devices()) {
    if (stage_.nics().keeps_objects(d.name))
      continue; // what it had is with the device
    facts_.counters.push_back({"QPs of " + d.name + " after the shutdown", 0, d.qps});
    facts_.counters.push_back({"memory regions of " + d.name + " after the shutdown", 0, d.mrs});
  }
  if (const auto closed = stage_.nics().close(); !closed)
    fail(closed.error().to_string());
  return failure_.empty() || give_up(failure_);
}

} // namespace actor_rdma::drill
