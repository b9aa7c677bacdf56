// SPDX-License-Identifier: Apache-2.0
// From a file to a scenario.
#include "drill/format/read.hpp"

#include "base/input.hpp"
#include "drill/format/cross_checks.hpp"
#include "drill/format/expand.hpp"
#include "drill/format/json_text.hpp"
#include "drill/format/tables.hpp"

namespace actor_rdma::drill {

namespace {

using format::complaints;

/// A file of this kind is a page or two.
constexpr std::size_t most_bytes = 4u << 20;

} // namespace

tl::expected<scenario, std::vector<std::string>> parse_scenario(const std::string& text) {
  complaints wrong;
  const auto root = format::parse_json(text, wrong);
  if (!root)
    return tl::unexpected{std::move(wrong)};
  scenario s;
  format::read_object(format::value{*root, "", wrong}, format::scenario_keys(), s);
  format::expand(s);
  if (wrong.empty())
    format::check_together(s, wrong);
  if (!wrong.empty())
    return tl::unexpected{std::move(wrong)};
  return s;
}

tl::expected<scenario, std::vector<std::string>> read_scenario(const std::string& path) {
  const auto text = base::read_regular_file(path, most_bytes);
  if (!text)
    return tl::unexpected{complaints{text.error().to_string()}};
  auto read = parse_scenario(*text);
  if (read) {
    read->path = path;
    return read;
  }
  for (auto& c : read.error())
    c.insert(0, path + ": ");
  return read;
}

} // namespace actor_rdma::drill
