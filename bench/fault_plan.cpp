// SPDX-License-Identifier: Apache-2.0
// Parsing of fault plans.
#include "bench/fault_plan.hpp"

#include "base/units.hpp"
#include "bench/text.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

namespace actor_rdma::bench {

namespace {

constexpr std::array verbs{std::pair{"down", fault_verb::down}, std::pair{"up", fault_verb::up},
                           std::pair{"hang", fault_verb::hang}, std::pair{"heal", fault_verb::heal},
                           std::pair{"delay", fault_verb::delay}};

tl::unexpected<base::error> refuse(std::string_view step, const std::string& why) {
  return base::fail(base::reason::invalid_argument, "", fmt::format("\"{}\": {}", step, why));
}

base::expected<fault_step> parse_step(std::string_view text) {
  const auto colon = text.find(':');
  const auto at = text.rfind('@');
  if (colon == std::string_view::npos || at == std::string_view::npos || at < colon)
    return refuse(text, "a fault is written VERB:DEVICE@TIME, for example down:soft0@2s");
  const auto name = text.substr(0, colon);
  const auto known = std::find_if(verbs.begin(), verbs.end(), [&](const auto& v) { return name == v.first; });
  if (known == verbs.end())
    return refuse(text, "the verbs are down, up, hang, heal and delay");
  fault_step s;
  s.verb = known->second;
  auto device = text.substr(colon + 1, at - colon - 1);
  const auto equals = device.find('=');
  if ((s.verb == fault_verb::delay) != (equals != std::string_view::npos))
    return refuse(text, s.verb == fault_verb::delay ? "by how much? For example delay:soft0=10ms@2s"
                                                    : "only delay takes an amount");
  if (equals != std::string_view::npos) {
    const auto amount = base::parse_duration(device.substr(equals + 1));
    if (!amount)
      return refuse(text, amount.error().what);
    s.amount = *amount;
    device = device.substr(0, equals);
  }
  if (device.empty())
    return refuse(text, "which device?");
  s.device = device;
  const auto when = base::parse_duration(text.substr(at + 1));
  if (!when)
    return refuse(text, when.error().what);
  s.at = *when;
  return s;
}

} // namespace

const char* to_string(fault_verb verb) noexcept {
  return verbs[static_cast<std::size_t>(verb)].first;
}

bool fault_step::harms() const noexcept {
  return verb == fault_verb::down || verb == fault_verb::hang ||
         (verb == fault_verb::delay && amount > base::duration::zero());
}

std::string fault_step::to_string() const {
  return verb == fault_verb::delay ? fmt::format("delay:{}={}", device, time_text(amount))
                                   : fmt::format("{}:{}", bench::to_string(verb), device);
}

base::expected<fault_plan> parse_fault_plan(std::string_view text) {
  fault_plan plan;
  for (std::size_t begin = 0; begin <= text.size();) {
    const auto end = std::min(text.find(',', begin), text.size());
    auto step = parse_step(text.substr(begin, end - begin));
    if (!step)
      return base::fail(step.error());
    plan.push_back(std::move(*step));
    begin = end + 1;
  }
  std::stable_sort(plan.begin(), plan.end(), [](const auto& a, const auto& b) { return a.at < b.at; });
  return plan;
}

fault_plan with_host(fault_plan plan, const std::string& host) {
  for (auto& step : plan)
    if (step.device.find('/') == std::string::npos)
      step.device = host + '/' + step.device;
  return plan;
}

} // namespace actor_rdma::bench
