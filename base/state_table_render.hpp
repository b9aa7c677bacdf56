// SPDX-License-Identifier: Apache-2.0
//
// A state table as text for people: the matrix of all pairs, and a Graphviz graph of the transitions. Both
// are kept under docs/ and compared by tests, so that a change of behaviour shows as a difference of text.
#pragma once

#include "base/state_table.hpp"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace actor_rdma::base {

/// How the values of a table are called: {to_string, to_string, to_string}.
template <class Table>
struct table_names {
  const char* (*state)(typename Table::state);
  const char* (*event)(typename Table::event);
  const char* (*action)(typename Table::action);
};

/// One line per column entry, every column as wide as its widest cell, nothing after the last.
[[nodiscard]] std::string render_columns(const std::vector<std::vector<std::string>>& lines);

/// Events down, states across. A cell says "next / action", or "- [n]" for an ignored pair, whose reason is
/// note n.
template <class Table>
[[nodiscard]] std::string render_matrix(const Table& table, const table_names<Table>& names) {
  std::vector<std::vector<std::string>> lines(1);
  lines[0].emplace_back("event");
  for (std::size_t s = 0; s < Table::states; ++s)
    lines[0].emplace_back(names.state(static_cast<typename Table::state>(s)));

  std::map<std::string, std::size_t> numbers;
  std::string notes;
  for (std::size_t e = 0; e < Table::events; ++e) {
    const auto event = static_cast<typename Table::event>(e);
    auto& line = lines.emplace_back();
    line.emplace_back(names.event(event));
    for (std::size_t s = 0; s < Table::states; ++s) {
      const auto& row = table.lookup(static_cast<typename Table::state>(s), event);
      if (!row.is_ignored()) {
        line.push_back(fmt::format("{} / {}", names.state(row.to), names.action(row.act)));
        continue;
      }
      const auto [it, is_new] = numbers.emplace(row.ignored_why, numbers.size() + 1);
      if (is_new)
        notes += fmt::format("[{}] {}\n", it->second, it->first);
      line.push_back(fmt::format("- [{}]", it->second));
    }
  }
  return render_columns(lines) + "\nIgnored, because:\n" + notes;
}

/// Transitions only. All events between the same two states share an arrow.
template <class Table>
[[nodiscard]] std::string render_dot(const Table& table, const table_names<Table>& names,
                                     const std::string& title) {
  std::string dot =
      fmt::format("digraph \"{}\" {{\n  rankdir=LR;\n  node [shape=box, style=rounded];\n", title);
  for (std::size_t s = 0; s < Table::states; ++s)
    dot += fmt::format("  \"{}\";\n", names.state(static_cast<typename Table::state>(s)));

  std::map<std::pair<std::size_t, std::size_t>, std::string> labels;
  for (std::size_t s = 0; s < Table::states; ++s) {
    for (std::size_t e = 0; e < Table::events; ++e) {
      const auto event = static_cast<typename Table::event>(e);
      const auto& row = table.lookup(static_cast<typename Table::state>(s), event);
      if (row.is_ignored())
        continue;
      auto& label = labels[{s, static_cast<std::size_t>(row.to)}];
      label +=
          fmt::format("{}{} / {}", label.empty() ? "" : "\\n", names.event(event), names.action(row.act));
    }
  }
  for (const auto& [ends, label] : labels) {
    dot += fmt::format("  \"{}\" -> \"{}\" [label=\"{}\"];\n",
                       names.state(static_cast<typename Table::state>(ends.first)),
                       names.state(static_cast<typename Table::state>(ends.second)), label);
  }
  return dot + "}\n";
}

} // namespace actor_rdma::base
