// SPDX-License-Identifier: Apache-2.0
//
// Messages on a byte stream: each is preceded by four magic bytes and its length, 32 bits, most significant
// byte first. The magic tells at the first byte that a stranger speaks something else. No sockets here: bytes
// go in as they come, payloads come out.
#pragma once

#include "base/error.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace actor_rdma::bootstrap {

inline constexpr std::array<std::uint8_t, 4> frame_magic = {0xa7, 'r', 'd', 'm'};
inline constexpr std::size_t frame_header_bytes = 8;

/// Header and payload in one buffer.
[[nodiscard]] std::vector<std::uint8_t> make_frame(std::span<const std::uint8_t> payload);

/// Cuts a stream into payloads. It holds at most one unfinished frame and what was pushed last, and grows
/// only by bytes that have arrived, whatever a header claims.
class frame_decoder {
public:
  explicit frame_decoder(std::size_t max_payload) : max_payload_{max_payload} {}

  void push(std::span<const std::uint8_t> bytes);

  /// The next whole payload, valid until the next call of either function; nothing while it is incomplete.
  /// After an error the stream cannot be followed any more, and every further call returns that error.
  [[nodiscard]] base::expected<std::optional<std::span<const std::uint8_t>>> next();

  /// Bytes of an unfinished frame.
  [[nodiscard]] std::size_t held() const noexcept { return buffer_.size() - begin_; }

private:
  std::size_t max_payload_;
  std::vector<std::uint8_t> buffer_;
  std::size_t begin_ = 0; // what lies before it has been handed out
};

} // namespace actor_rdma::bootstrap
