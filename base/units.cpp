// SPDX-License-Identifier: Apache-2.0
//
// The parsers of sizes and times. Integers are computed exactly; only a number with a fraction goes through
// floating point.
#include "base/units.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <utility>

namespace actor_rdma::base {

namespace {

struct unit {
  std::string_view name;
  std::uint64_t factor;
};

constexpr std::array size_units{unit{"", 1},           unit{"B", 1},           unit{"K", 1U << 10},
                                unit{"k", 1U << 10},   unit{"KiB", 1U << 10},  unit{"M", 1U << 20},
                                unit{"m", 1U << 20},   unit{"MiB", 1U << 20},  unit{"G", 1U << 30},
                                unit{"g", 1U << 30},   unit{"GiB", 1U << 30},  unit{"T", 1ULL << 40},
                                unit{"t", 1ULL << 40}, unit{"TiB", 1ULL << 40}};

constexpr std::array time_units{unit{"ns", 1},
                                unit{"us", 1'000},
                                unit{"ms", 1'000'000},
                                unit{"s", 1'000'000'000},
                                unit{"min", 60'000'000'000},
                                unit{"h", 3'600'000'000'000}};

expected<std::uint64_t> parse(std::string_view text, const char* kind, std::span<const unit> units,
                              std::uint64_t most) {
  const auto refuse = [&](reason why, const char* what) {
    return fail(why, "base", "\"" + std::string{text} + "\" is no " + kind + ": " + what);
  };
  const char* const end = text.data() + text.size();
  std::uint64_t whole = 0;
  const auto [rest, status] = std::from_chars(text.data(), end, whole);
  if (status == std::errc::result_out_of_range)
    return refuse(reason::out_of_range, "too large");
  if (status != std::errc{})
    return refuse(reason::invalid_argument, "it must begin with a number");

  double fraction = 0;
  const char* unit_begin = rest;
  if (rest != end && *rest == '.') {
    double weight = 0.1;
    for (++unit_begin; unit_begin != end && *unit_begin >= '0' && *unit_begin <= '9'; ++unit_begin) {
      fraction += weight * (*unit_begin - '0');
      weight /= 10;
    }
  }

  const std::string_view name{unit_begin, static_cast<std::size_t>(end - unit_begin)};
  for (const auto& u : units) {
    if (u.name != name)
      continue;
    const auto extra = static_cast<std::uint64_t>(std::llround(fraction * static_cast<double>(u.factor)));
    if (whole > most / u.factor || extra > most - whole * u.factor)
      return refuse(reason::out_of_range, "too large");
    return whole * u.factor + extra;
  }
  std::string known = "its unit must be one of";
  for (const auto& u : units) {
    if (!u.name.empty())
      known.append(" ").append(u.name);
  }
  return refuse(reason::invalid_argument, known.c_str());
}

} // namespace

expected<std::uint64_t> parse_size(std::string_view text) {
  return parse(text, "size", size_units, std::numeric_limits<std::uint64_t>::max());
}

expected<duration> parse_duration(std::string_view text) {
  const auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  auto ns = parse(text, "duration", time_units, most);
  if (!ns)
    return fail(std::move(ns).error());
  return duration{static_cast<std::int64_t>(*ns)};
}

} // namespace actor_rdma::base
