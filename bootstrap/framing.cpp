// SPDX-License-Identifier: Apache-2.0
//
// The frame decoder. It checks as much of a header as there is, so that garbage is refused at once and not
// after a wait for bytes that never come.
#include "bootstrap/framing.hpp"

#include <algorithm>
#include <string>

#include <fmt/format.h>

namespace actor_rdma::bootstrap {

namespace {

// A link that once received a large segment does not hold on to the room for it.
constexpr std::size_t keep_bytes = std::size_t{256} << 10;

} // namespace

std::vector<std::uint8_t> make_frame(std::span<const std::uint8_t> payload) {
  std::vector<std::uint8_t> frame;
  frame.reserve(frame_header_bytes + payload.size());
  frame.assign(frame_magic.begin(), frame_magic.end());
  for (int shift = 24; shift >= 0; shift -= 8)
    frame.push_back(static_cast<std::uint8_t>(payload.size() >> shift));
  frame.insert(frame.end(), payload.begin(), payload.end());
  return frame;
}

void frame_decoder::push(std::span<const std::uint8_t> bytes) {
  buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(begin_));
  begin_ = 0;
  if (buffer_.empty() && buffer_.capacity() > keep_bytes)
    buffer_.shrink_to_fit();
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

base::expected<std::optional<std::span<const std::uint8_t>>> frame_decoder::next() {
  const auto waiting = std::span<const std::uint8_t>{buffer_}.subspan(begin_);
  const auto seen = std::min(waiting.size(), frame_magic.size());
  if (!std::equal(frame_magic.begin(), frame_magic.begin() + static_cast<std::ptrdiff_t>(seen),
                  waiting.begin())) {
    std::string start;
    for (const auto byte : waiting.first(std::min(waiting.size(), frame_header_bytes)))
      start += fmt::format(" {:02x}", byte);
    return base::fail(base::reason::protocol, "bootstrap", "not this protocol, the bytes are" + start);
  }
  if (waiting.size() < frame_header_bytes)
    return std::optional<std::span<const std::uint8_t>>{};

  std::size_t length = 0;
  for (const auto byte : waiting.subspan(frame_magic.size(), frame_header_bytes - frame_magic.size()))
    length = length << 8 | byte;
  if (length > max_payload_)
    return base::fail(base::reason::protocol, "bootstrap",
                      fmt::format("frame of {} bytes, at most {} are allowed", length, max_payload_));
  if (waiting.size() - frame_header_bytes < length)
    return std::optional<std::span<const std::uint8_t>>{};
  begin_ += frame_header_bytes + length;
  return std::optional{waiting.subspan(frame_header_bytes, length)};
}

} // namespace actor_rdma::bootstrap
