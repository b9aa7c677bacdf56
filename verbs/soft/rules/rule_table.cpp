// SPDX-License-Identifier: Apache-2.0
//
// Writing and reading the rules' slots.
#include "verbs/soft/rules/rule_table.hpp"

#include "base/input.hpp"
#include "verbs/soft/rules/rule.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace actor_rdma::verbs::soft {

namespace {

constexpr const char* layer = "soft NIC rule";
/// All rules that a fabric holds, with plenty of comments.
constexpr std::size_t most_file_bytes = 1u << 20;
using text_bytes = std::array<std::uint64_t, layout::rule_text_words>;
static_assert(sizeof(text_bytes) == max_rule_text + 1);

std::string_view trimmed(std::string_view text) noexcept {
  constexpr const char* blanks = " \t\r\n";
  const auto first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos)
    return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

/// False if the slot holds no rule, or another by the time it was read.
bool read_slot(const layout::rule_slot& slot, stored_rule& out) {
  if (slot.state.load(std::memory_order_acquire) != layout::rule_live)
    return false;
  out.id = slot.id.load(std::memory_order_acquire);
  out.added_at = slot.added_at.load(std::memory_order_acquire);
  out.matches = slot.matches.load(std::memory_order_acquire);
  out.hits = slot.hits.load(std::memory_order_acquire);
  text_bytes words;
  for (std::size_t i = 0; i < words.size(); ++i)
    words[i] = slot.text[i].load(std::memory_order_acquire);
  if (slot.state.load(std::memory_order_acquire) != layout::rule_live ||
      slot.id.load(std::memory_order_acquire) != out.id)
    return false;
  std::array<char, sizeof words> bytes;
  std::memcpy(bytes.data(), words.data(), sizeof words);
  bytes.back() = '\0';
  out.text = bytes.data();
  return true;
}

void announce(layout::tables& t) noexcept {
  t.head.rules_epoch.fetch_add(1, std::memory_order_seq_cst);
}

} // namespace

base::expected<std::uint32_t> store_rule(layout::tables& t, nanos now, std::string_view text) {
  text = trimmed(text);
  if (auto good = parse_rule(text); !good)
    return base::fail(std::move(good.error()));
  for (auto& slot : t.rules) {
    auto free = layout::rule_free;
    if (!slot.state.compare_exchange_strong(free, layout::rule_written, std::memory_order_acq_rel))
      continue;
    const auto id = t.head.next_rule.fetch_add(1, std::memory_order_relaxed) + 1;
    text_bytes words{};
    std::memcpy(words.data(), text.data(), text.size());
    for (std::size_t i = 0; i < words.size(); ++i)
      slot.text[i].store(words[i], std::memory_order_relaxed);
    slot.id.store(id, std::memory_order_relaxed);
    slot.added_at.store(now, std::memory_order_relaxed);
    slot.matches.store(0, std::memory_order_relaxed);
    slot.hits.store(0, std::memory_order_relaxed);
    slot.state.store(layout::rule_live, std::memory_order_release);
    announce(t);
    return id;
  }
  return base::fail(base::reason::resource, layer,
                    "the fabric has no room for more than " + std::to_string(layout::max_rules) + " rules");
}

bool drop_rule(layout::tables& t, std::uint32_t id) noexcept {
  for (auto& slot : t.rules) {
    auto live = layout::rule_live;
    if (slot.id.load(std::memory_order_acquire) == id &&
        slot.state.compare_exchange_strong(live, layout::rule_free, std::memory_order_acq_rel)) {
      announce(t);
      return true;
    }
  }
  return false;
}

void drop_rules(layout::tables& t) noexcept {
  for (auto& slot : t.rules) {
    auto live = layout::rule_live;
    slot.state.compare_exchange_strong(live, layout::rule_free, std::memory_order_acq_rel);
  }
  announce(t);
}

std::vector<stored_rule> stored_rules(const layout::tables& t) {
  std::vector<stored_rule> all;
  for (std::uint32_t i = 0; i < layout::max_rules; ++i)
    if (stored_rule r; read_slot(t.rules[i], r)) {
      r.slot = i;
      all.push_back(std::move(r));
    }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  return all;
}

base::expected<void> load_rules(layout::tables& t, nanos now, const std::string& path) {
  auto file = base::read_regular_file(path, most_file_bytes);
  if (!file) {
    file.error().layer = layer;
    file.error().what.insert(0, "rule file ");
    return base::fail(std::move(file.error()));
  }
  std::string_view rest = *file;
  for (int number = 1; !rest.empty(); ++number) {
    const auto line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    const auto text = trimmed(line);
    if (text.empty() || text.front() == '#')
      continue;
    const auto present = stored_rules(t);
    if (std::any_of(present.begin(), present.end(), [&](const auto& r) { return r.text == text; }))
      continue;
    if (auto added = store_rule(t, now, text); !added) {
      added.error().what = path + ':' + std::to_string(number) + ": " + added.error().what;
      return base::fail(std::move(added.error()));
    }
  }
  return {};
}

} // namespace actor_rdma::verbs::soft
