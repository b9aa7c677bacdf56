// SPDX-License-Identifier: Apache-2.0
//
// Reading and checking the variables.
#include "verbs/dropin/environment.hpp"

#include "base/input.hpp"
#include "base/units.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>
#include <string_view>
#include <vector>

namespace actor_rdma::verbs::dropin {

namespace {

/// Room for "/soft15" and for a suffix behind it in the name of a device.
constexpr std::size_t max_host_name = 40;

auto refuse(const char* variable, std::string_view value, std::string_view accepted) {
  return base::fail(base::reason::invalid_argument, "soft NIC",
                    std::string{variable} + "=" + base::in_quotes(value) + " is not " +
                        std::string{accepted} + ": there are no devices");
}

bool is_name(std::string_view text, std::size_t longest) {
  return !text.empty() && text.size() <= longest && text.front() != '.' &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-';
         });
}

/// All of the text: neither blanks around it nor, for whole numbers, 1e1 or 0x10.
template <class T>
std::optional<T> number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional{value} : std::nullopt;
}

std::optional<soft::nic_mode> mode_of(std::string_view name) {
  if (name == "inline")
    return soft::nic_mode::immediate;
  if (name == "paced")
    return soft::nic_mode::paced;
  return name == "null" ? std::optional{soft::nic_mode::null} : std::nullopt;
}

/// One for each device, or one for all.
std::optional<std::vector<std::uint8_t>> link_layers_of(std::string_view text, std::size_t devices) {
  std::vector<std::uint8_t> all;
  for (;;) {
    const auto comma = text.find(',');
    const auto one = soft::parse_link_layer(text.substr(0, comma));
    if (!one)
      return std::nullopt;
    all.push_back(*one);
    if (comma == std::string_view::npos)
      break;
    text.remove_prefix(comma + 1);
  }
  if (all.size() == 1)
    all.resize(devices, all.front());
  return all.size() == devices ? std::optional{all} : std::nullopt;
}

} // namespace

base::expected<settings> read_environment(const lookup& get) {
  settings s;
  unsigned count = 1;
  soft::device_options device;
  // An empty variable counts as one that is not set.
  const auto value_of = [&](const char* name) -> const char* {
    const char* const text = get(name);
    return text != nullptr && *text != '\0' ? text : nullptr;
  };
  if (const char* const text = value_of(fabric_variable)) {
    if (!is_name(text, 63))
      return refuse(fabric_variable, text, "a name of 1 to 63 letters, digits, '.', '_' or '-'");
    s.fabric = text;
  }
  if (const char* const text = value_of(host_variable)) {
    if (!is_name(text, max_host_name))
      return refuse(host_variable, text, "a name of 1 to 40 letters, digits, '.', '_' or '-'");
    s.host = text;
  }
  if (const char* const text = value_of(devices_variable)) {
    const auto n = number<unsigned>(text);
    if (!n || *n > max_devices)
      return refuse(devices_variable, text, "a number of devices from 0 to 16");
    count = *n;
  }
  if (const char* const text = value_of(mode_variable)) {
    const auto mode = mode_of(text);
    if (!mode)
      return refuse(mode_variable, text, "one of inline, paced, null");
    device.mode = *mode;
  }
  if (const char* const text = value_of(rate_variable)) {
    const auto rate = number<double>(text);
    if (!rate || !(*rate >= 0.001 && *rate <= 10'000))
      return refuse(rate_variable, text, "a rate from 0.001 to 10000 Gbit/s");
    device.rate_gbit_s = *rate;
  }
  if (const char* const text = value_of(latency_variable)) {
    const auto latency = base::parse_duration(text);
    if (!latency || latency->count() < 0 || *latency > std::chrono::seconds{10})
      return refuse(latency_variable, text, "a time such as 5us or 1.5ms, at most 10s");
    device.latency = *latency;
  }
  if (const char* const text = value_of(yield_variable)) {
    const auto n = number<unsigned>(text);
    if (!n || *n > 1'000'000)
      return refuse(yield_variable, text, "a number of empty polls from 0 (never yield) to 1000000");
    s.yield_after = *n;
  }
  std::vector<std::uint8_t> link_layers(count, device.link_layer);
  if (const char* const text = value_of(link_layer_variable); text != nullptr && count > 0) {
    const auto all = link_layers_of(text, count);
    if (!all)
      return refuse(link_layer_variable, text,
                    "ethernet or infiniband, for all devices or, with commas, for each of the " +
                        std::to_string(count));
    link_layers = *all;
  }
  for (unsigned i = 0; i < count; ++i) {
    device.name = "soft" + std::to_string(i);
    device.link_layer = link_layers[i];
    s.devices.push_back(device);
  }
  return s;
}

} // namespace actor_rdma::verbs::dropin
