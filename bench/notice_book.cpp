// SPDX-License-Identifier: Apache-2.0
// Reading and checking notices.
#include "bench/notice_book.hpp"

#include "bench/pattern.hpp"

#include <cstdio>
#include <cstring>

#include <fmt/format.h>

namespace actor_rdma::bench {

namespace {

constexpr const char* notice_name = "actor-rdma-bench";
/// More batches than a thread of a run has.
constexpr std::uint64_t most_numbers = 1ull << 32;

} // namespace

notice to_notice(const notice_text& what) {
  notice n;
  n.name = notice_name;
  n.payload.resize(sizeof what);
  std::memcpy(n.payload.data(), &what, sizeof what);
  return n;
}

std::optional<notice_text> from_notice(const notice& what) {
  notice_text text;
  if (what.name != notice_name || what.payload.size() != sizeof text)
    return std::nullopt;
  std::memcpy(&text, what.payload.data(), sizeof text);
  return text;
}

notice_counts notice_counts::since(const notice_counts& before) const noexcept {
  return {received - before.received, repeated - before.repeated, foreign - before.foreign,
          checked_bytes - before.checked_bytes, missing_bytes - before.missing_bytes};
}

std::string to_text(const notice_counts& what) {
  auto text = fmt::format("{} received, {} of them twice, {} bytes checked at their arrival, {} missing",
                          what.received, what.repeated, what.checked_bytes, what.missing_bytes);
  if (what.foreign > 0)
    text += fmt::format(", {} of unknown origin", what.foreign);
  return text;
}

void notice_book::enter(const received_notice& what, std::span<const std::byte> memory) {
  const auto text = from_notice(what.what);
  std::lock_guard lock(mutex_);
  ++counts_.received;
  if (!text || text->number >= most_numbers || text->length > memory.size() ||
      text->offset > memory.size() - text->length) {
    ++counts_.foreign;
    return;
  }
  auto& seen = seen_[{what.incarnation, text->source}];
  if (seen.size() <= text->number)
    seen.resize(text->number + 1);
  counts_.repeated += seen[text->number] ? 1 : 0;
  seen[text->number] = true;
  if (text->length == 0)
    return;
  const auto found = memory.subspan(text->offset, text->length);
  const auto c = compare_pattern_since(found, text->offset, text->round);
  counts_.checked_bytes += found.size();
  counts_.missing_bytes += c.wrong_bytes;
  if (c.wrong_bytes > 0)
    fmt::print(
        stderr,
        "notice {} of source {}: {} of the {} bytes that it tells of are not there, the first at {:#x}\n",
        text->number, text->source, c.wrong_bytes, found.size(), c.first_wrong);
}

notice_counts notice_book::so_far() const {
  std::lock_guard lock(mutex_);
  return counts_;
}

} // namespace actor_rdma::bench
