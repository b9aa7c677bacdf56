// SPDX-License-Identifier: Apache-2.0
// Tables of keys, as for scenarios.
#include "drill/kernel/devices_file.hpp"

#include "base/input.hpp"
#include "drill/format/json_text.hpp"
#include "drill/format/keys.hpp"

#include <utility>

namespace actor_rdma::drill {

namespace {

using format::key_table;
using format::value;

constexpr std::size_t most_bytes = 1u << 20;

const key_table<kernel_device::member>& member_keys() {
  using m = kernel_device::member;
  static const key_table<m> keys{format::text("netdev", &m::netdev).required(),
                                 format::text("cable", &m::cable)};
  return keys;
}

const key_table<kernel_device>& device_keys() {
  using d = kernel_device;
  static const key_table<d> keys{
      format::text("device", &d::device, "a device of libibverbs, as rxe0").required(),
      format::text("netdev", &d::netdev, "an interface, as eth0").required(),
      format::text("cable", &d::cable, "an interface, the switch's end of the cable"),
      format::list<d, std::string>(
          "addresses", "a list of addresses as 10.7.0.1/24", &d::addresses,
          [](const value& v, d&, std::vector<std::string>& all) {
            if (!v.node().is_string())
              return v.refuse("an address as 10.7.0.1/24");
            all.push_back(v.node().get<std::string>());
          },
          true),
      format::list<d, d::member>("members", "a list of a bond's slaves", &d::members,
                                 [](const value& v, d&, std::vector<d::member>& all) {
                                   format::read_object(v, member_keys(), all.emplace_back());
                                 })};
  return keys;
}

} // namespace

base::expected<std::vector<kernel_device>> parse_devices(const std::string& text, const std::string& where) {
  struct file {
    std::vector<kernel_device> devices;
  };
  const key_table<file> keys{{"devices", "an object, { \"a/soft0\": { ... }, ... }",
                              [](const value& v, file& into) {
                                if (!v.node().is_object() || v.node().empty())
                                  return v.refuse("an object, { \"a/soft0\": { ... }, ... }");
                                for (const auto& item : v.node().items()) {
                                  kernel_device one;
                                  one.name = item.key();
                                  format::read_object(v.member(item.key()), device_keys(), one);
                                  into.devices.push_back(std::move(one));
                                }
                              },
                              true}};
  format::complaints wrong;
  file read;
  if (const auto root = format::parse_json(text, wrong))
    format::read_object(value{*root, "", wrong}, keys, read);
  if (!wrong.empty())
    return base::fail(base::reason::invalid_argument, "drill", where + ": " + wrong.front());
  return read.devices;
}

base::expected<std::vector<kernel_device>> read_devices_file(const std::string& path) {
  const auto text = base::read_regular_file(path, most_bytes);
  if (!text)
    return base::fail(text.error());
  return parse_devices(*text, path);
}

} // namespace actor_rdma::drill
