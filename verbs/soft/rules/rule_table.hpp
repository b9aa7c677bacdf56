// SPDX-License-Identifier: Apache-2.0
//
// Rules in the fabric's shared tables, as text with counters: one write reaches every process. A slot is
// claimed, written and then published by its state word, so that no lock is needed and a writer that dies
// half-way costs one slot.
#pragma once

#include "base/error.hpp"
#include "verbs/soft/layout.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace actor_rdma::verbs::soft {

struct stored_rule {
  std::uint32_t id = 0;
  std::uint32_t slot = 0;
  nanos added_at = 0;
  std::uint64_t matches = 0;
  std::uint64_t hits = 0;
  std::string text;
};

/// The new rule's id. Refuses what parse_rule() refuses.
[[nodiscard]] base::expected<std::uint32_t> store_rule(layout::tables& t, nanos now, std::string_view text);
[[nodiscard]] bool drop_rule(layout::tables& t, std::uint32_t id) noexcept;
void drop_rules(layout::tables& t) noexcept;
/// In the order in which they were added.
[[nodiscard]] std::vector<stored_rule> stored_rules(const layout::tables& t);

/// Adds the rules of a file, one a line, comments and empty lines apart. A line that the fabric has already
/// is left as it is, so that every process of a fabric may name the same file. An error names the line.
[[nodiscard]] base::expected<void> load_rules(layout::tables& t, nanos now, const std::string& path);

} // namespace actor_rdma::verbs::soft
