// SPDX-License-Identifier: Apache-2.0
//
// The layout of a rendered table.
#include "base/state_table_render.hpp"

#include <algorithm>

namespace actor_rdma::base {

std::string render_columns(const std::vector<std::vector<std::string>>& lines) {
  std::vector<std::size_t> widths;
  for (const auto& line : lines) {
    widths.resize(std::max(widths.size(), line.size()));
    for (std::size_t i = 0; i < line.size(); ++i)
      widths[i] = std::max(widths[i], line[i].size());
  }
  std::string text;
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) {
      text += line[i];
      if (i + 1 < line.size())
        text.append(widths[i] - line[i].size() + 3, ' ');
    }
    text += '\n';
  }
  return text;
}

} // namespace actor_rdma::base
