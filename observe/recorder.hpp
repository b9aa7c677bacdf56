// SPDX-License-Identifier: Apache-2.0
// The flight recorder that every actor carries: a fixed ring of its last transitions and notable events,
// always on. Entries are trivially copyable with a fixed layout and name things by small numbers, so that a
// ring can be copied out of a wedged or dead process and still be read.
#pragma once

#include "base/time.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace actor_rdma::observe {

enum class entry_kind : std::uint8_t {
  none,
  transition, ///< from -> to, because of event
  ignored,    ///< event that means nothing in this state
  note,       ///< something worth remembering; `event` is a note_kind
};

struct recorder_entry {
  std::int64_t at_ns = 0;
  std::uint64_t value = 0; ///< a wr_id, a byte count, an errno: the event says which
  entry_kind kind = entry_kind::none;
  std::uint8_t from = 0;
  std::uint8_t to = 0;
  std::uint8_t event = 0;
  std::uint32_t repeats = 0; ///< how often the same note followed at once
};
static_assert(sizeof(recorder_entry) == 24 && std::is_trivially_copyable_v<recorder_entry>);

class recorder {
public:
  static constexpr std::size_t capacity = 64;

  void add(base::time_point now, entry_kind kind, std::uint8_t from, std::uint8_t to, std::uint8_t event,
           std::uint64_t value = 0) noexcept {
    auto& e = ring_[next_ % capacity];
    ++next_;
    e = recorder_entry{now.time_since_epoch().count(), value, kind, from, to, event, 0};
  }
  /// Entries that are still there, oldest first, through `visit(entry)`.
  template <class Visit>
  void each(Visit&& visit) const {
    const auto first = next_ > capacity ? next_ - capacity : 0;
    for (auto i = first; i < next_; ++i)
      visit(ring_[i % capacity]);
  }
  std::uint64_t total() const noexcept { return next_; }

private:
  std::array<recorder_entry, capacity> ring_{};
  std::uint64_t next_ = 0;
};

} // namespace actor_rdma::observe
