// SPDX-License-Identifier: Apache-2.0
// Filling, comparing and reporting.
#include "bench/content.hpp"

#include "bench/pattern.hpp"

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>

namespace actor_rdma::bench {

namespace {

/// Of one thread; the counts go on.
constexpr std::uint32_t reports_per_thread = 4;

} // namespace

void prepare_local(const settings& what, std::span<std::byte> local) {
  if (what.moves_payload())
    fill_pattern(local, 0, poison_round);
}

void prepare_target(const settings& what, std::span<std::byte> target) {
  if (what.moves_payload())
    fill_pattern(target, 0, initial_round);
}

void content::before(place& p) {
  if (!what_.verify)
    return;
  const auto length = what_.batch_bytes();
  const bool makes_a_round = writes() || !memory_.peer.empty();
  if (makes_a_round && ++p.round == poison_round)
    p.round = initial_round + 1;
  if (writes())
    fill_pattern(memory_.local.subspan(p.offset, length), p.offset, p.round);
  else if (makes_a_round)
    fill_pattern(memory_.peer.subspan(p.offset, length), p.offset, p.round);
  else
    fill_pattern(memory_.local.subspan(p.offset, length), p.offset, poison_round);
}

void content::after(place& p, tally& count) {
  if (!what_.verify)
    return;
  p.holds = p.round;
  const auto found = destination(p.offset, what_.batch_bytes());
  // What could not be read back was counted as a failed transfer already.
  p.known =
      found.size() == what_.batch_bytes() && compare(found, p.offset, p.round, "after its batch", count);
}

void content::target_restarted() noexcept {
  if (!writes())
    return;
  for (auto& p : places_.all()) {
    p.holds = initial_round;
    p.known = true;
  }
}

void content::sweep(tally& count) {
  if (!what_.verify)
    return;
  const auto step = read_back_bytes(what_);
  ahead_ = {};
  const auto region = [&](std::uint64_t from, std::uint64_t until, std::uint32_t round, const char* when) {
    for (; from < until; from += std::min(step, until - from)) {
      const auto length = std::min(step, until - from);
      if (const auto found = destination_ahead(from, length); found.size() == length)
        compare(found, from, round, when, count);
    }
  };
  auto at = places_.begin();
  for (auto& p : places_.all()) {
    region(at, p.offset, untouched(), "at the end, between the batches");
    at = p.offset + what_.batch_bytes();
    if (p.known)
      region(p.offset, at, p.holds, "at the end");
  }
  region(at, places_.end(), untouched(), "at the end, behind the batches");
}

std::uint64_t content::read_back_bytes(const settings& what) noexcept {
  constexpr std::uint64_t window = 4 << 20;
  return std::max(what.batch_bytes(), std::min(window, what.range / what.threads));
}

std::span<const std::byte> content::destination(std::uint64_t offset, std::uint64_t length) {
  if (!writes())
    return memory_.local.subspan(offset, length);
  return memory_.peer.empty() ? remote_(offset, length) : memory_.peer.subspan(offset, length);
}

std::span<const std::byte> content::destination_ahead(std::uint64_t offset, std::uint64_t length) {
  if (!writes() || !memory_.peer.empty())
    return destination(offset, length);
  if (offset < ahead_from_ || offset + length > ahead_from_ + ahead_.size()) {
    ahead_ = remote_(offset, std::min(read_back_bytes(what_), places_.end() - offset));
    ahead_from_ = offset;
  }
  return ahead_.empty() ? ahead_ : ahead_.subspan(offset - ahead_from_, length);
}

bool content::compare(std::span<const std::byte> found, std::uint64_t offset, std::uint32_t round,
                      const char* when, tally& count) {
  const auto c = compare_pattern(found, offset, round);
  count.verified_bytes += found.size();
  count.mismatched_bytes += c.wrong_bytes;
  if (c.wrong_bytes > 0 && reported_++ < reports_per_thread)
    fmt::print(
        stderr,
        "mismatch {} (thread {}): {} of {} bytes at position {:#x} are not those of round {}, the first at "
        "{:#x}: {}\n",
        when, thread_, c.wrong_bytes, found.size(), offset, round, c.first_wrong,
        explain_mismatch(found.subspan(c.first_wrong - offset), c.first_wrong, round, what_.range));
  return c.wrong_bytes == 0;
}

} // namespace actor_rdma::bench
