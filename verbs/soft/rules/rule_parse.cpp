// SPDX-License-Identifier: Apache-2.0
//
// Reading one line of the rule language. Each key has a reader; what keys and actions go together is checked
// when the whole line was read.
#include "base/input.hpp"
#include "verbs/soft/rules/raised.hpp"
#include "verbs/soft/rules/rule.hpp"
#include "verbs/soft/rules/rule_reading.hpp"
#include "verbs/soft/rules/rule_words.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <vector>

namespace actor_rdma::verbs::soft {

using namespace rule_reading;

namespace {

// -- keys
// ------------------------------------------------------------------------------------------------

done read_device(std::string& to, const char* key, std::string_view value) {
  const auto slash = value.find('/');
  if (value.empty() || slash == 0 || slash + 1 == value.size() || slash != value.rfind('/'))
    return refuse(std::string{key} + "=" + base::in_quotes(value) +
                  " names no device: say host/soft0, host, soft0 or any");
  to = value == "any" ? "" : std::string{value};
  return {};
}

done read_qp(rule& r, std::string_view value) {
  if (value == "any")
    return {};
  const auto number = parse_number("qp", value);
  if (!number)
    return base::fail(number.error());
  if (*number == 0 || *number > 0xffffff)
    return refuse("qp=" + std::string{value} + " is no queue pair number: 1 to 0xffffff, or any");
  r.qp = static_cast<std::uint32_t>(*number);
  return {};
}

template <class Bits>
done read_bits(Bits& to, std::span<const rule_word> words, std::string_view kind, std::string_view prefix,
               std::string_view value) {
  if (value.empty())
    return refuse(std::string{kind} + "= needs a value");
  for (const auto part : split(value, ",")) {
    if (part == "any") {
      for (const auto& w : words)
        to |= Bits{1} << w.value;
      continue;
    }
    const auto found = find_word(words, kind, without_prefix(part, prefix));
    if (!found)
      return base::fail(found.error());
    to |= Bits{1} << *found;
  }
  return {};
}

constexpr std::uint64_t verbs_of(verb first, verb last) {
  return ((std::uint64_t{1} << (static_cast<int>(last) + 1)) - 1) &
         ~((std::uint64_t{1} << static_cast<int>(first)) - 1);
}
template <class... Verbs>
constexpr std::uint64_t bits_of(Verbs... v) {
  return ((std::uint64_t{1} << static_cast<int>(v)) | ...);
}

constexpr std::array verb_groups{
    // Closing is closing a descriptor: no device makes that fail. Who wants it names it.
    std::pair{std::string_view{"any"},
              verbs_of(verb::open_device, verb::get_async_event) & ~bits_of(verb::close_device)},
    std::pair{std::string_view{"create"},
              bits_of(verb::alloc_pd, verb::reg_mr, verb::create_comp_channel, verb::create_cq,
                      verb::create_srq, verb::create_ah, verb::create_qp)},
    std::pair{std::string_view{"destroy"},
              bits_of(verb::close_device, verb::dealloc_pd, verb::dereg_mr, verb::destroy_comp_channel,
                      verb::destroy_cq, verb::destroy_srq, verb::destroy_ah, verb::destroy_qp)},
    std::pair{std::string_view{"query"}, bits_of(verb::query_device, verb::query_port, verb::query_gid,
                                                 verb::query_srq, verb::query_qp)}};

done read_verbs(rule& r, std::string_view value) {
  if (value.empty())
    return refuse("verb= needs a value");
  for (const auto part : split(value, ",")) {
    bool is_group = false;
    for (const auto& [name, bits] : verb_groups)
      if (part == name) {
        r.verbs |= bits;
        is_group = true;
      }
    if (is_group)
      continue;
    const auto found =
        find_word(verb_words(), "verb (or any, create, destroy, query)", without_prefix(part, "ibv_"));
    if (!found)
      return base::fail(found.error());
    r.verbs |= std::uint64_t{1} << *found;
  }
  return {};
}

done read_direction(rule& r, std::string_view value) {
  static constexpr std::array words{rule_word{"request", static_cast<std::uint32_t>(rule_direction::request)},
                                    rule_word{"ack", static_cast<std::uint32_t>(rule_direction::ack)},
                                    rule_word{"tx", static_cast<std::uint32_t>(rule_direction::tx)},
                                    rule_word{"rx", static_cast<std::uint32_t>(rule_direction::rx)}};
  const auto found = find_word(words, "direction", value);
  if (!found)
    return base::fail(found.error());
  r.direction = static_cast<rule_direction>(*found);
  return {};
}

/// "0", "1-1024", "1025-".
done read_range(size_range& to, const char* key, std::string_view value) {
  const auto dash = value.find('-');
  const auto low = parse_number(key, value.substr(0, dash));
  if (!low)
    return base::fail(low.error());
  to = {*low, *low};
  if (dash == std::string_view::npos)
    return {};
  to.most = UINT64_MAX;
  if (dash + 1 == value.size())
    return {};
  const auto high = parse_number(key, value.substr(dash + 1));
  if (!high)
    return base::fail(high.error());
  if (*high < *low)
    return refuse(std::string{key} + "=" + std::string{value} + " is empty: say " + key + "=LOW-HIGH");
  to.most = *high;
  return {};
}

done read_count(std::uint64_t& to, const char* key, std::string_view value) {
  const auto number = parse_number(key, value);
  if (!number)
    return base::fail(number.error());
  if (*number == 0)
    return refuse(std::string{key} + "=0 would never hit: matches are counted from 1");
  to = *number;
  return {};
}

/// Milliseconds, with decimals.
done read_ms(nanos& to, const char* key, std::string_view value) {
  const std::string copy{value};
  char* end = nullptr;
  const double ms = std::strtod(copy.c_str(), &end);
  if (copy.empty() || *end != '\0' || !(ms >= 0 && ms <= 1e12))
    return refuse(std::string{key} + "=" + base::in_quotes(copy) + " is no number of milliseconds");
  to = std::llround(ms * 1e6);
  return {};
}

done read_chance(rule& r, std::string_view value) {
  const std::string copy{value};
  char* end = nullptr;
  const double p = std::strtod(copy.c_str(), &end);
  if (copy.empty() || *end != '\0' || !(p > 0 && p <= 1))
    return refuse("chance=" + base::in_quotes(copy) + " is no probability: above 0, up to 1");
  r.chance_ppm = static_cast<std::uint32_t>(std::llround(p * 1e6));
  if (r.chance_ppm == 0)
    return refuse("chance=" + base::in_quotes(copy) + " would never hit: it is counted in millionths");
  return {};
}

struct key_reader {
  std::string_view name;
  done (*read)(rule&, std::string_view);
  std::uint32_t targets; ///< bits of rule_target for which it means something
};

constexpr std::uint32_t on_work = 1U << static_cast<int>(rule_target::work);
constexpr std::uint32_t on_verb = 1U << static_cast<int>(rule_target::verb);
constexpr std::uint32_t on_event = 1U << static_cast<int>(rule_target::event);
constexpr std::uint32_t on_timer = 1U << static_cast<int>(rule_target::timer);
constexpr std::uint32_t counted = on_work | on_verb | on_event;

constexpr std::array<key_reader, 21> keys{{
    {"dev", [](rule& r, std::string_view v) { return read_device(r.device, "dev", v); }, counted | on_timer},
    {"peer", [](rule& r, std::string_view v) { return read_device(r.peer, "peer", v); }, on_work},
    {"qp", read_qp, counted | on_timer},
    {"op", [](rule& r, std::string_view v) { return read_bits(r.ops, op_words(), "operation", "", v); },
     on_work},
    {"dir", read_direction, on_work},
    {"link", read_link_state, on_work},
    {"bytes", [](rule& r, std::string_view v) { return read_range(r.bytes, "bytes", v); }, on_work},
    {"region", [](rule& r, std::string_view v) { return read_range(r.region, "region", v); }, on_work},
    {"peer_region", [](rule& r, std::string_view v) { return read_range(r.peer_region, "peer_region", v); },
     on_work},
    {"verb", read_verbs, on_verb},
    {"state",
     [](rule& r, std::string_view v) {
       return read_bits(r.states_to, state_words(), "queue pair state", "IBV_QPS_", v);
     },
     on_verb},
    {"from",
     [](rule& r, std::string_view v) {
       return read_bits(r.states_from, state_words(), "queue pair state", "IBV_QPS_", v);
     },
     on_verb},
    {"event",
     [](rule& r, std::string_view v) { return read_bits(r.events, event_words(), "event", "IBV_EVENT_", v); },
     on_event},
    {"nth", [](rule& r, std::string_view v) { return read_count(r.nth, "nth", v); }, counted},
    {"every", [](rule& r, std::string_view v) { return read_count(r.every, "every", v); }, counted},
    {"first", [](rule& r, std::string_view v) { return read_count(r.first, "first", v); }, counted},
    {"skip", [](rule& r, std::string_view v) { return read_count(r.skip, "skip", v); }, counted},
    {"count", [](rule& r, std::string_view v) { return read_count(r.count, "count", v); }, counted},
    {"chance", read_chance, counted},
    {"after_ms", [](rule& r, std::string_view v) { return read_ms(r.after, "after_ms", v); },
     counted | on_timer},
    {"for_ms", [](rule& r, std::string_view v) { return read_ms(r.during, "for_ms", v); }, counted},
}};

/// Neither a terminal nor the rules' list should meet one.
bool is_control(char c) noexcept {
  return (static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\r' && c != '\n') || c == 0x7f;
}

std::string accepted_keys() {
  std::string all;
  for (const auto& key : keys)
    all += std::string{key.name} + ", ";
  return all + "do";
}

// -- what goes together
// -----------------------------------------------------------------------------------

std::uint32_t targets_of(rule_action action) noexcept {
  switch (action) {
  case rule_action::delay: return on_work | on_verb | on_event;
  case rule_action::fail:
  case rule_action::ignore:
  case rule_action::late_cqe:
  case rule_action::half: return on_verb;
  case rule_action::swallow:
  case rule_action::burst: return on_event;
  case rule_action::raise:
  case rule_action::link: return on_timer;
  default: return on_work;
  }
}

const char* name_of_target(rule_target t) noexcept {
  switch (t) {
  case rule_target::work: return "a rule about work requests";
  case rule_target::verb: return "a rule about verbs";
  case rule_target::event: return "a rule about events";
  case rule_target::timer: return "a rule that acts by itself";
  }
  return "a rule";
}

/// What can never hit would be a fault that nobody notices is missing.
done check_counts(const rule& r) {
  constexpr auto no_limit = UINT64_MAX;
  if (r.nth != 0 && (r.every != 0 || r.first != no_limit))
    return refuse("nth= is one match: it goes neither with every= nor with first=");
  if (r.every != 0 && r.first < r.every)
    return refuse("every=" + std::to_string(r.every) +
                  " would never hit among the first=" + std::to_string(r.first));
  if (r.during == 0)
    return refuse("for_ms=0 would never hit");
  return {};
}

done check_event(const rule& r) {
  if (!r.qp)
    return {};
  for (std::uint32_t type = 0; type < 64; ++type)
    if ((r.events >> type & 1) != 0 &&
        subject_of(static_cast<ibv_event_type>(type)) == event_subject::queue_pair)
      return {};
  return refuse("qp= goes with events of queue pairs only");
}

done check_work(const rule& r) {
  if (auto good = check_link_state(r); !good)
    return good;
  const bool is_packet = r.action == rule_action::drop || r.action == rule_action::delay ||
                         r.action == rule_action::duplicate || r.action == rule_action::reorder;
  const std::string action = name_of(action_words(), static_cast<std::uint32_t>(r.action));
  if (!is_packet && r.direction != rule_direction::request)
    return refuse("do=" + action + " is about requests: dir=request only");
  if ((r.action == rule_action::duplicate || r.action == rule_action::reorder) &&
      r.direction == rule_direction::ack)
    return refuse("do=" + action + " is about payload: dir=request, tx or rx");
  constexpr auto recv = std::uint32_t{1} << static_cast<int>(work_op::recv);
  const bool is_of_completion = r.action == rule_action::status || r.action == rule_action::hold_cqe ||
                                r.action == rule_action::cqe_behind || r.action == rule_action::no_flush;
  if ((r.ops & recv) != 0 && !is_of_completion)
    return refuse("do=" + action +
                  " means nothing for op=recv: say status, hold_cqe, cqe_behind or no_flush");
  return {};
}

done check_verb(const rule& r) {
  constexpr auto modify = bits_of(verb::modify_qp);
  constexpr auto of_qps =
      modify | bits_of(verb::destroy_qp, verb::query_qp, verb::post_send, verb::post_recv);
  if (r.qp && (r.verbs & of_qps) == 0)
    return refuse("qp= goes with verbs on a queue pair only");
  if ((r.states_to | r.states_from) != 0 && (r.verbs & modify) == 0)
    return refuse("state= and from= are about verb=modify_qp");
  if (r.action == rule_action::ignore && r.verbs != modify)
    return refuse("do=ignore is for verb=modify_qp only");
  if (r.action == rule_action::late_cqe && (r.verbs & ~(modify | bits_of(verb::destroy_qp))) != 0)
    return refuse("do=late_cqe is for verb=destroy_qp and verb=modify_qp only");
  constexpr auto of_room =
      modify | bits_of(verb::create_cq, verb::resize_cq, verb::create_srq, verb::create_qp);
  if (r.action == rule_action::half && (r.verbs & ~of_room) != 0)
    return refuse("do=half is for verb=create_cq, resize_cq, create_srq, create_qp and modify_qp only");
  return {};
}

} // namespace

base::expected<rule> parse_rule(std::string_view text) {
  if (text.size() > max_rule_text)
    return refuse("a rule has at most " + std::to_string(max_rule_text) + " characters");
  if (std::any_of(text.begin(), text.end(), is_control))
    return refuse("a rule is a line of text, " + base::in_quotes(text) + " is none");
  rule r;
  bool has_action = false;
  std::vector<const key_reader*> used;
  for (const auto token : split(text.substr(0, text.find('#')), " \t\r\n")) {
    if (token.empty())
      continue;
    const auto equals = token.find('=');
    if (equals == std::string_view::npos)
      return refuse(base::in_quotes(token) + " is no key=value; keys are " + accepted_keys());
    const auto name = token.substr(0, equals);
    const auto value = token.substr(equals + 1);
    if (name == "do") {
      if (has_action)
        return refuse("do= stands twice: one rule does one thing");
      has_action = true;
      if (auto read = read_action(r, value); !read)
        return base::fail(read.error());
      continue;
    }
    const key_reader* found = nullptr;
    for (const auto& key : keys)
      if (key.name == name)
        found = &key;
    if (found == nullptr)
      return refuse("there is no key " + base::in_quotes(name) + "; keys are " + accepted_keys());
    for (const auto* key : used)
      if (key == found)
        return refuse("the key \"" + std::string{name} + "\" stands twice");
    used.push_back(found);
    if (auto read = found->read(r, value); !read)
      return base::fail(read.error());
  }
  if (!has_action)
    return refuse("a rule needs do=ACTION");
  if (r.verbs != 0 && r.events != 0)
    return refuse("verb= and event= exclude each other");
  const bool acts_alone = r.action == rule_action::raise || r.action == rule_action::link;
  r.target = acts_alone      ? rule_target::timer
             : r.verbs != 0  ? rule_target::verb
             : r.events != 0 ? rule_target::event
                             : rule_target::work;
  const auto bit = 1U << static_cast<int>(r.target);
  if ((targets_of(r.action) & bit) == 0)
    return refuse("do=" + std::string{name_of(action_words(), static_cast<std::uint32_t>(r.action))} +
                  " does not go with " + name_of_target(r.target));
  for (const auto* key : used)
    if ((key->targets & bit) == 0)
      return refuse("the key \"" + std::string{key->name} + "\" does not go with " +
                    name_of_target(r.target));
  if (auto good = check_counts(r); !good)
    return base::fail(good.error());
  if (r.per != 0 && r.verbs != bits_of(verb::reg_mr))
    return refuse("do=delay:T/KiB, T/MiB and T/GiB are for verb=reg_mr only");
  if (r.target == rule_target::event)
    if (auto good = check_event(r); !good)
      return base::fail(good.error());
  if (r.target == rule_target::work)
    if (auto good = check_work(r); !good)
      return base::fail(good.error());
  if (r.target == rule_target::verb)
    if (auto good = check_verb(r); !good)
      return base::fail(good.error());
  return r;
}

} // namespace actor_rdma::verbs::soft
