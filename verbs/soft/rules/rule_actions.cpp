// SPDX-License-Identifier: Apache-2.0
//
// Reading what a rule does: the action's name and its arguments.
#include "base/input.hpp"
#include "verbs/soft/rules/rule_reading.hpp"
#include "verbs/soft/rules/rule_words.hpp"

#include <algorithm>

namespace actor_rdma::verbs::soft {

using namespace rule_reading;

namespace rule_reading {

std::vector<std::string_view> split(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const auto end = text.find_first_of(separators);
    parts.push_back(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
  }
  return parts;
}

} // namespace rule_reading

namespace {

struct action_text {
  std::string_view name;
  std::vector<std::string_view> arguments;
};

tl::unexpected<base::error> unknown_argument(const action_text& a, std::string_view which, const char* form) {
  return refuse("do=" + std::string{a.name} + ": " + base::in_quotes(which) +
                " is not understood, say do=" + form);
}

/// "KiB", "MiB", "GiB"; 0 is none of them.
std::uint64_t unit_bytes(std::string_view unit) noexcept {
  return unit == "KiB" ? 1ULL << 10 : unit == "MiB" ? 1ULL << 20 : unit == "GiB" ? 1ULL << 30 : 0;
}

/// T, or T for each unit of a length.
done read_delay(rule& r, const action_text& a) {
  constexpr const char* form = "delay:T, or of verb=reg_mr delay:T/KiB, T/MiB or T/GiB";
  if (a.arguments.size() != 1)
    return refuse("do=delay needs one time: say do=" + std::string{form});
  const auto slash = a.arguments[0].find('/');
  const auto t = parse_span(a.arguments[0].substr(0, slash));
  r.per = slash == std::string_view::npos ? 0 : unit_bytes(a.arguments[0].substr(slash + 1));
  if (!t || (slash != std::string_view::npos && r.per == 0))
    return unknown_argument(a, a.arguments[0], form);
  r.time = *t;
  return {};
}

/// Reads T as the first argument. `is_optional`: it may be missing.
done read_time(rule& r, const action_text& a, const char* form, bool is_optional) {
  if (a.arguments.empty())
    return is_optional ? done{} : done{refuse("do=" + std::string{a.name} + " needs a time: say do=" + form)};
  const auto t = parse_span(a.arguments[0]);
  if (!t)
    return unknown_argument(a, a.arguments[0], form);
  r.time = *t;
  if (a.arguments.size() > 1)
    return unknown_argument(a, a.arguments[1], form);
  return {};
}

done read_status(rule& r, const action_text& a) {
  constexpr const char* form = "status:STATUS[,garbage][,landed]";
  if (a.arguments.empty())
    return refuse("do=status needs a status: say do=" + std::string{form});
  const auto found =
      find_word(status_words(), "completion status", without_prefix(a.arguments[0], "IBV_WC_"));
  if (!found)
    return base::fail(found.error());
  r.value = *found;
  for (std::size_t i = 1; i < a.arguments.size(); ++i) {
    if (a.arguments[i] == "garbage")
      r.is_garbage = true;
    else if (a.arguments[i] == "landed")
      r.lands = true;
    else
      return unknown_argument(a, a.arguments[i], form);
  }
  return {};
}

done read_hold(rule& r, const action_text& a) {
  constexpr const char* form = "hold_cqe[:T][,alone]";
  for (const auto part : a.arguments) {
    if (part == "alone") {
      r.is_alone = true;
    } else if (const auto t = parse_span(part); t) {
      r.time = *t;
    } else {
      return unknown_argument(a, part, form);
    }
  }
  return {};
}

done read_behind(rule& r, const action_text& a) {
  constexpr const char* form = "cqe_behind:send|recv|other[,T]";
  r.time = 10'000'000; // nobody waits for ever for what may never come
  if (a.arguments.empty() || a.arguments.size() > 2)
    return refuse("do=cqe_behind needs what may pass: say do=" + std::string{form});
  if (a.arguments[0] == "send")
    r.behind = cqe_class::send;
  else if (a.arguments[0] == "recv")
    r.behind = cqe_class::recv;
  else if (a.arguments[0] != "other")
    return unknown_argument(a, a.arguments[0], form);
  if (a.arguments.size() == 2) {
    const auto t = parse_span(a.arguments[1]);
    if (!t)
      return unknown_argument(a, a.arguments[1], form);
    r.time = *t;
  }
  return {};
}

done read_word(bool& to, const action_text& a, std::string_view on, std::string_view off, const char* form) {
  if (a.arguments.size() > 1 || (!a.arguments.empty() && a.arguments[0] != on && a.arguments[0] != off))
    return unknown_argument(a, a.arguments.back(), form);
  to = !a.arguments.empty() && a.arguments[0] == on;
  return {};
}

done read_errno(rule& r, const action_text& a) {
  if (a.arguments.size() != 1)
    return refuse("do=errno needs one name: say do=errno:ENOMEM");
  const auto found = find_word(errno_words(), "errno", a.arguments[0]);
  if (!found)
    return base::fail(found.error());
  r.value = *found;
  return {};
}

done read_repeat(std::uint32_t& to, const action_text& a, std::string_view text, const char* form) {
  const auto n = parse_number(a.name, text);
  if (!n || *n == 0 || *n > 100'000)
    return refuse("do=" + std::string{a.name} + ": \"" + std::string{text} +
                  "\" is no number of times from 1 to 100000, say do=" + form);
  to = static_cast<std::uint32_t>(*n);
  return {};
}

done read_raise(rule& r, const action_text& a) {
  constexpr const char* form = "raise:EVENT[,N]";
  if (a.arguments.empty() || a.arguments.size() > 2)
    return refuse("do=raise needs an event: say do=" + std::string{form});
  const auto type = parse_event(a.arguments[0]);
  if (!type)
    return base::fail(type.error());
  r.value = static_cast<std::uint32_t>(*type);
  return a.arguments.size() == 2 ? read_repeat(r.repeat, a, a.arguments[1], form) : done{};
}

done read_link(rule& r, const action_text& a) {
  constexpr const char* form = "link:up|down[,quiet]";
  if (a.arguments.empty() || a.arguments.size() > 2 || (a.arguments.size() == 2 && a.arguments[1] != "quiet"))
    return refuse("do=link is not understood: say do=" + std::string{form});
  if (a.arguments[0] != "up" && a.arguments[0] != "down")
    return unknown_argument(a, a.arguments[0], form);
  r.value = a.arguments[0] == "up" ? 1 : 0;
  r.is_quiet = a.arguments.size() == 2;
  return {};
}

} // namespace

done rule_reading::read_link_state(rule& r, std::string_view value) {
  if (value != "down")
    return refuse("link=" + base::in_quotes(value) + " is not understood: say link=down");
  r.at_link_down = true;
  return {};
}

done rule_reading::check_link_state(const rule& r) {
  if (r.action == rule_action::hold && !r.at_link_down)
    return refuse("do=hold is for work that meets its port down: it needs link=down");
  constexpr auto recv = std::uint32_t{1} << static_cast<int>(work_op::recv);
  const bool is_good =
      r.action == rule_action::status || r.action == rule_action::hang || r.action == rule_action::hold;
  if (r.at_link_down && (!is_good || (r.ops & recv) != 0))
    return refuse("link=down goes with do=status, hang and hold, and not with op=recv");
  return {};
}

done rule_reading::read_action(rule& r, std::string_view value) {
  const auto colon = value.find(':');
  // Without a colon a comma may still begin the words behind a missing time: hold_cqe,alone.
  const auto name_end = std::min(colon, value.find(','));
  const action_text a{value.substr(0, name_end), name_end == std::string_view::npos
                                                     ? std::vector<std::string_view>{}
                                                     : split(value.substr(name_end + 1), ",")};
  const auto found = find_word(action_words(), "action", a.name);
  if (!found)
    return base::fail(found.error());
  r.action = static_cast<rule_action>(*found);
  switch (r.action) {
  case rule_action::delay: return read_delay(r, a);
  case rule_action::hold_dma: return read_time(r, a, "hold_dma:T", false);
  case rule_action::reorder: return read_time(r, a, "reorder[:T]", true);
  case rule_action::duplicate: return read_time(r, a, "duplicate[:T]", true);
  case rule_action::status: return read_status(r, a);
  case rule_action::hold_cqe: return read_hold(r, a);
  case rule_action::cqe_behind: return read_behind(r, a);
  case rule_action::hang: return read_word(r.is_hard, a, "hard", "soft", "hang[:soft|hard]");
  case rule_action::no_flush: return read_word(r.is_marker, a, "marker", "any", "no_flush[:any|marker]");
  case rule_action::fail: return read_errno(r, a);
  case rule_action::burst:
    if (a.arguments.size() != 1)
      return refuse("do=burst needs a number: say do=burst:N");
    return read_repeat(r.repeat, a, a.arguments[0], "burst:N");
  case rule_action::raise: return read_raise(r, a);
  case rule_action::link: return read_link(r, a);
  case rule_action::drop:
  case rule_action::hold:
  case rule_action::ignore:
  case rule_action::late_cqe:
  case rule_action::half:
  case rule_action::swallow: break;
  }
  if (!a.arguments.empty())
    return refuse("do=" + std::string{a.name} + " takes no argument");
  return {};
}

} // namespace actor_rdma::verbs::soft
