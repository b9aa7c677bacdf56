// SPDX-License-Identifier: Apache-2.0
// Memory in regions: devices limit how much one region may cover (max_mr_size), so a buffer is one region or
// several adjoining ones per device. A peer publishes each as an entry of its own, all with the buffer's id;
// here they are put together again, so that a transfer may cross their borders. Slices may not.
#pragma once

#include "bootstrap/messages.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace actor_rdma::actors {

/// A range of memory that is registered in chunks of equal length; only the last may be shorter.
struct chunked_range {
  std::uint64_t addr = 0;
  std::uint64_t length = 0;
  std::uint64_t chunk_bytes = UINT64_MAX;

  bool holds(std::uint64_t at, std::uint64_t bytes) const noexcept {
    return at >= addr && at - addr <= length && bytes <= length - (at - addr);
  }
  std::size_t chunk_at(std::uint64_t at) const noexcept {
    return chunk_bytes >= length ? 0 : static_cast<std::size_t>((at - addr) / chunk_bytes);
  }
  /// Bytes from here to where the next chunk begins.
  std::uint64_t to_border(std::uint64_t at) const noexcept {
    return chunk_bytes >= length ? UINT64_MAX : chunk_bytes - (at - addr) % chunk_bytes;
  }
  std::size_t chunks() const noexcept {
    return chunk_bytes >= length ? 1 : static_cast<std::size_t>((length - 1) / chunk_bytes + 1);
  }
};

/// A buffer of a peer's.
struct remote_range : chunked_range {
  std::uint64_t id = 0;
  bool writable = true;
  std::size_t devices = 0;
  std::vector<std::uint32_t> rkeys; ///< by chunk, then by device

  /// 0 when it is not registered there.
  std::uint32_t rkey(std::uint64_t at, std::size_t device) const noexcept {
    const auto i = chunk_at(at) * devices + device;
    return device < devices && i < rkeys.size() ? rkeys[i] : 0;
  }
};

/// A peer's published memory at one time.
struct remote_memory {
  bootstrap::incarnation owner = 0;
  bootstrap::segment published;     ///< as it came, by buffer
  std::uint64_t features = 0;       ///< what the peer offered in its hello
  std::vector<remote_range> ranges; ///< sorted by address

  /// The index of a range that holds all of these bytes. `last` is tried first.
  std::optional<std::size_t> find(std::uint64_t at, std::uint64_t bytes, std::size_t last = 0) const noexcept;
};

std::shared_ptr<const remote_memory>
make_remote_memory(bootstrap::incarnation owner, bootstrap::segment published, std::uint64_t features = 0);

/// The length of one region of a buffer, so that every device takes it: whole pages, all of it if it fits.
/// `limits` are the devices' max_mr_size.
std::uint64_t chunk_bytes_for(std::uint64_t length, const std::vector<std::uint64_t>& limits) noexcept;

/// The next smaller length to try when a device has no room for regions of `chunk_bytes`: half of it, in
/// whole pages, `least` at the end. 0 when there is none, or a buffer of `length` would take more than
/// `most_chunks`.
std::uint64_t smaller_chunk_bytes(std::uint64_t chunk_bytes, std::uint64_t length, std::uint64_t least,
                                  std::size_t most_chunks) noexcept;

} // namespace actor_rdma::actors
