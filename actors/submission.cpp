// SPDX-License-Identifier: Apache-2.0
// Validation of requests.
#include "actors/submission.hpp"

#include "bootstrap/limits.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace actor_rdma::actors {

namespace {

static_assert(notice::max_name_bytes == bootstrap::max_notice_name_bytes);
static_assert(notice::max_payload_bytes == bootstrap::max_notice_bytes);

constexpr std::size_t max_batch = 1u << 24;
constexpr std::uint64_t max_transfer = 1ull << 40;

/// The buffer of a list sorted by address that holds the whole range. The last hit is tried first: batches
/// have locality.
std::size_t find_buffer(const buffer_view::list& list, std::uint64_t addr, std::uint64_t length,
                        std::size_t last) {
  if (last < list.size() && list[last]->holds(addr, length))
    return last;
  auto at =
      static_cast<std::size_t>(std::upper_bound(list.begin(), list.end(), addr,
                                                [](std::uint64_t a, const auto& b) { return a < b->addr; }) -
                               list.begin());
  // Ranges may overlap, so an earlier buffer may be the longer one.
  while (at-- > 0)
    if (list[at]->holds(addr, length))
      return at;
  return list.size();
}

base::error bad(std::size_t index, base::reason why, std::string what) {
  base::error e;
  e.why = why;
  e.layer = "transport";
  e.what = fmt::format("request {}: {}", index, what);
  return e;
}

/// Takes back what make_batch counted when it fails half-way.
struct counted {
  std::shared_ptr<batch_state> batch;
  bool keep = false;
  ~counted() {
    if (!keep)
      for (const auto& b : batch->locals)
        b->open_batches.fetch_sub(1, std::memory_order_acq_rel);
  }
};

base::expected<void> attach(batch_state& batch, notice what) {
  if (what.name.size() > notice::max_name_bytes)
    return base::fail(base::reason::invalid_argument, "transport",
                      fmt::format("the name of a notice has {} bytes, at most {} are allowed",
                                  what.name.size(), notice::max_name_bytes));
  if (what.payload.size() > notice::max_payload_bytes)
    return base::fail(base::reason::invalid_argument, "transport",
                      fmt::format("the payload of a notice has {} bytes, at most {} are allowed",
                                  what.payload.size(), notice::max_payload_bytes));
  if ((batch.target().features & bootstrap::feature_notices) == 0)
    return base::fail(base::reason::unsupported, "transport",
                      fmt::format("{} does not take notices", batch.target().published.name));
  batch.attach(std::make_shared<const notice>(std::move(what)));
  return {};
}

} // namespace

base::expected<std::shared_ptr<batch_state>> make_batch(const buffer_view& ours,
                                                        const std::shared_ptr<const remote_memory>& theirs,
                                                        std::span<const transfer_request> requests,
                                                        base::time_point now, base::time_point deadline,
                                                        std::optional<notice> with) {
  if (requests.empty() || requests.size() > max_batch)
    return base::fail(base::reason::invalid_argument, "transport",
                      fmt::format("a batch has 1 to {} requests, not {}", max_batch, requests.size()));
  const auto list = ours.buffers();
  counted made{std::make_shared<batch_state>(theirs, requests.size())};
  auto& batch = *made.batch;
  batch.submitted = now;
  batch.deadline = deadline;
  const auto items = batch.transfers();
  std::size_t local = list->size();
  std::size_t remote = 0;
  std::size_t local_index = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const auto& r = requests[i];
    if (r.op != operation::read && r.op != operation::write)
      return base::fail(bad(i, base::reason::invalid_argument, "the operation is neither read nor write"));
    if (r.length == 0 || r.length > max_transfer)
      return base::fail(bad(i, base::reason::invalid_argument,
                            fmt::format("a transfer has 1 byte to 1 TiB, not {}", r.length)));
    const auto from = reinterpret_cast<std::uint64_t>(r.local);
    const auto l = find_buffer(*list, from, r.length, local);
    if (l == list->size())
      return base::fail(
          bad(i, base::reason::out_of_range,
              fmt::format("{} bytes at {:#x} are not within one registered buffer of ours", r.length, from)));
    const auto p = theirs->find(r.remote, r.length, remote);
    if (!p)
      return base::fail(bad(i, base::reason::out_of_range,
                            fmt::format("{} bytes at {:#x} are not within one buffer that the peer publishes",
                                        r.length, r.remote)));
    if (l != local) {
      local = l;
      const auto& buffer = (*list)[l];
      const auto known = std::find(batch.locals.begin(), batch.locals.end(), buffer);
      local_index = static_cast<std::size_t>(known - batch.locals.begin());
      if (known == batch.locals.end()) {
        if (batch.locals.size() > 0xffff)
          return base::fail(bad(i, base::reason::invalid_argument, "the batch uses more than 65536 buffers"));
        buffer->open_batches.fetch_add(1, std::memory_order_seq_cst);
        batch.locals.push_back(buffer);
        if (buffer->closing.load(std::memory_order_seq_cst))
          return base::fail(
              bad(i, base::reason::not_found, fmt::format("buffer {} is being deregistered", buffer->id)));
      }
    }
    remote = *p;
    auto& t = items[i];
    t.op = r.op;
    t.local = from;
    t.remote = r.remote;
    t.length = r.length;
    t.local_buffer = static_cast<std::uint16_t>(local_index);
    t.remote_buffer = static_cast<std::uint16_t>(*p);
  }
  if (with)
    if (auto attached = attach(batch, std::move(*with)); !attached)
      return base::fail(attached.error());
  made.keep = true;
  return made.batch;
}

base::expected<std::shared_ptr<batch_state>> make_notice(const std::shared_ptr<const remote_memory>& theirs,
                                                         notice what, base::time_point now,
                                                         base::time_point deadline) {
  auto batch = std::make_shared<batch_state>(theirs, 0);
  batch->submitted = now;
  batch->deadline = deadline;
  if (auto attached = attach(*batch, std::move(what)); !attached)
    return base::fail(attached.error());
  return batch;
}

} // namespace actor_rdma::actors
