// SPDX-License-Identifier: Apache-2.0
// Names of ports.
#include "actors/port_name.hpp"

#include <algorithm>
#include <charconv>

namespace actor_rdma::actors {

namespace {
constexpr unsigned most_ports = 254; // IB spec: the numbers of an adapter's ports
} // namespace

std::string port_name::text() const {
  return port == 1 ? device : device + ':' + std::to_string(port);
}

port_name parse_port_name(std::string_view text) {
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos)
    return {std::string{text}, 1};
  const auto digits = text.substr(colon + 1);
  unsigned number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc{} || end != digits.data() + digits.size() || number < 1 || number > most_ports)
    return {std::string{text}, 1};
  return {std::string{text.substr(0, colon)}, static_cast<std::uint8_t>(number)};
}

std::vector<std::uint8_t> wanted_ports(const std::string& device, const std::vector<std::string>& only) {
  if (only.empty())
    return {1};
  std::vector<std::uint8_t> all;
  for (const auto& name : only)
    if (const auto wanted = parse_port_name(name);
        wanted.device == device && std::find(all.begin(), all.end(), wanted.port) == all.end())
      all.push_back(wanted.port);
  std::sort(all.begin(), all.end());
  return all;
}

} // namespace actor_rdma::actors
