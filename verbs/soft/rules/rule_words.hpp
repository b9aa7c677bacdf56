// SPDX-License-Identifier: Apache-2.0
//
// The words of the rule language: names of actions, verbs, statuses, events, errno values and the like, and
// spans of time. One table for each, for reading and for printing.
#pragma once

#include "base/error.hpp"
#include "verbs/soft/rules/rule.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace actor_rdma::verbs::soft {

struct rule_word {
  const char* name;
  std::uint32_t value;
};

[[nodiscard]] std::span<const rule_word> action_words() noexcept;
[[nodiscard]] std::span<const rule_word> op_words() noexcept;
[[nodiscard]] std::span<const rule_word> verb_words() noexcept;
[[nodiscard]] std::span<const rule_word> state_words() noexcept;
[[nodiscard]] std::span<const rule_word> status_words() noexcept;
[[nodiscard]] std::span<const rule_word> event_words() noexcept;
[[nodiscard]] std::span<const rule_word> errno_words() noexcept;

/// The value, or an error that names the word and what would be accepted.
[[nodiscard]] base::expected<std::uint32_t> find_word(std::span<const rule_word> words, std::string_view kind,
                                                      std::string_view name);
/// The name, or "unknown".
[[nodiscard]] const char* name_of(std::span<const rule_word> words, std::uint32_t value) noexcept;

/// "250us", "20ms", "1.5s", "0".
[[nodiscard]] base::expected<nanos> parse_span(std::string_view text);
[[nodiscard]] base::expected<std::uint64_t> parse_number(std::string_view key, std::string_view text);

/// PORT_ERR, with or without IBV_EVENT_ in front.
[[nodiscard]] base::expected<ibv_event_type> parse_event(std::string_view name);

} // namespace actor_rdma::verbs::soft
