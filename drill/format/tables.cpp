// SPDX-License-Identifier: Apache-2.0
// Keys of the file itself, of hosts, devices, the control network and bounds.
#include "drill/format/tables.hpp"

#include "bootstrap/limits.hpp"
#include "drill/format/keys.hpp"
#include "verbs/soft/layout.hpp"

#include <regex>

namespace actor_rdma::drill::format {

namespace {

/// One way, more than around the world. A probe has 200 ms for its round trip, and what it has to wait for.
constexpr double longest_link_us = 5e4;
constexpr double longest_control_us = 1e6;
constexpr const char* link_layers = "one of ethernet, infiniband";
constexpr const char* prefixes = "the upper half of an address, like fe80:: or fec0:0:0:2::";
constexpr const char* name_rule = "a name: letters, digits, '.', '_' and '-'";

bool is_name(const value& v) {
  static const std::regex rule("[A-Za-z0-9._-]{1,60}");
  return v.node().is_string() && std::regex_match(v.node().get_ref<const std::string&>(), rule);
}

template <class T>
key<T> name(std::string key_name, std::string T::*member) {
  return {std::move(key_name), name_rule, [=](const value& v, T& into) {
            if (!is_name(v))
              return v.refuse(name_rule);
            into.*member = v.node().get<std::string>();
          }};
}

/// A host, or the beginning of several hosts' names with a * behind it (expand.hpp).
template <class T>
key<T> hosts(std::string key_name, std::string T::*member) {
  constexpr const char* rule = "a host's name, or the beginning of some and '*'";
  return {std::move(key_name), rule, [=](const value& v, T& into) {
            static const std::regex accepted("[A-Za-z0-9._-]{1,60}|[A-Za-z0-9._-]{0,60}\\*");
            if (!v.node().is_string() || !std::regex_match(v.node().get_ref<const std::string&>(), accepted))
              return v.refuse(rule);
            into.*member = v.node().get<std::string>();
          }};
}

template <class T, class E>
key<T> objects(std::string key_name, std::vector<E> T::*member, const key_table<E>& (*table)(),
               bool may_be_empty = true) {
  return list<T, E>(
      std::move(key_name), may_be_empty ? "a list of objects" : "a list of objects, at least one", member,
      [=](const value& v, T&, std::vector<E>& all) {
        E one;
        read_object(v, table(), one);
        all.push_back(std::move(one));
      },
      may_be_empty);
}

} // namespace

const key_table<verbs::soft::device_limits>& limit_keys() {
  using l = verbs::soft::device_limits;
  constexpr auto any = std::uint64_t{1} << 40;
  static const key_table<l> table{
      whole("max_qp", &l::max_qp, 1, l{}.max_qp),
      whole("max_qp_wr", &l::max_qp_wr, 1, l{}.max_qp_wr),
      whole("max_sge", &l::max_sge, 1, l{}.max_sge),
      whole("max_cq", &l::max_cq, 1, l{}.max_cq),
      whole("max_cqe", &l::max_cqe, 1, l{}.max_cqe),
      whole("max_mr", &l::max_mr, 1, l{}.max_mr),
      whole("max_mr_size", &l::max_mr_size, 1, any),
      whole("max_qp_rd_atom", &l::max_qp_rd_atom, 1, l{}.max_qp_rd_atom),
      whole("max_res_rd_atom", &l::max_res_rd_atom, 1, l{}.max_res_rd_atom),
  };
  return table;
}

const key_table<device_group>& device_keys() {
  static const key_table<device_group> table = [] {
    key_table<device_group> t;
    t.push_back(whole("count", &device_group::count, 1, bootstrap::max_devices));
    t.push_back({"mode", "one of paced, inline, null, paced-null", [](const value& v, device_group& into) {
                   using verbs::soft::nic_mode;
                   if (v.node() == "paced")
                     into.nic.mode = nic_mode::paced;
                   else if (v.node() == "inline")
                     into.nic.mode = nic_mode::immediate;
                   else if (v.node() == "null")
                     into.nic.mode = nic_mode::null;
                   else if (v.node() == "paced-null")
                     into.nic.mode = nic_mode::paced_null;
                   else
                     v.refuse("one of paced, inline, null, paced-null");
                 }});
    using nic = verbs::soft::device_options;
    const auto of_nic = [](const key<nic>& k) {
      return key<device_group>{k.name, k.accepts,
                               [read = k.read](const value& v, device_group& into) { read(v, into.nic); }};
    };
    t.push_back(of_nic(real("rate_gbit_s", &nic::rate_gbit_s, 0.001, 10000, "a number of Gbit/s")));
    t.push_back(of_nic(whole("bond_members", &nic::bond_members, 1, verbs::soft::greatest_bond)));
    t.push_back(of_nic(us("latency_us", &nic::latency, 0, longest_link_us)));
    t.push_back(of_nic(mtu("mtu", &nic::mtu)));
    t.push_back(of_nic(whole("ports", &nic::ports, 1, verbs::soft::layout::max_ports)));
    t.push_back({"link_layer", link_layers, [](const value& v, device_group& into) {
                   const auto layer = v.node().is_string()
                                          ? verbs::soft::parse_link_layer(v.node().get<std::string>())
                                          : std::nullopt;
                   if (!layer)
                     return v.refuse(link_layers);
                   into.nic.link_layer = *layer;
                 }});
    t.push_back(of_nic(whole("lid", &nic::lid, verbs::soft::least_lid, verbs::soft::greatest_lid)));
    t.push_back({"subnet_prefix", prefixes, [](const value& v, device_group& into) {
                   const auto prefix = v.node().is_string()
                                           ? verbs::soft::parse_subnet_prefix(v.node().get<std::string>())
                                           : std::nullopt;
                   if (!prefix)
                     return v.refuse(prefixes);
                   into.nic.subnet_prefix = *prefix;
                 }});
    t.push_back({"gids", "an object of addresses by index, { \"0\": \"fe80::1\", \"3\": \"10.0.0.1\" }",
                 [](const value& v, device_group& into) {
                   if (!v.node().is_object())
                     return v.refuse("an object of addresses by index");
                   for (const auto& [at, gid] : v.node().items()) {
                     verbs::soft::gid_row row;
                     const auto parsed = gid.is_string()
                                             ? verbs::soft::parse_gid(gid.template get<std::string>())
                                             : std::nullopt;
                     const bool is_index = at.size() <= 2 &&
                                           at.find_first_not_of("0123456789") == std::string::npos &&
                                           !at.empty() && std::stoul(at) < 16;
                     if (!parsed || !is_index)
                       return v.refuse("an object of addresses by index, 0 to 15");
                     row.index = static_cast<std::uint32_t>(std::stoul(at));
                     row.value = *parsed;
                     into.nic.gids.push_back(row);
                   }
                 }});
    t.push_back({"limits", "an object, { ... }",
                 [](const value& v, device_group& into) { read_object(v, limit_keys(), into.nic.limits); }});
    return t;
  }();
  return table;
}

const key_table<actors::settings>& settings_keys() {
  using s = actors::settings;
  static const key_table<s> table{
      whole("qps_per_endpoint", &s::qps_per_endpoint, 1, 64),
      {"send_queue_depth", "a power of two, 1 to 16384",
       [](const value& v, s& into) {
         const auto n = v.node().is_number_unsigned() ? v.node().get<std::uint64_t>() : 0;
         if (n < 1 || n > 16384 || (n & (n - 1)) != 0)
           return v.refuse("a power of two, 1 to 16384");
         into.send_queue_depth = static_cast<std::uint32_t>(n);
       }},
      {"slice_bytes", "a number of bytes, 256 to 1G",
       [](const value& v, s& into) {
         if (const auto n = bytes_of(v, 256, 1u << 30))
           into.slice_bytes = static_cast<std::uint32_t>(*n);
       }},
      ms("stall_floor_ms", &s::stall_floor, 1, 60e3),
      ms("path_fence_ms", &s::path_fence, 1, 60e3),
      ms("breaker_hold_ms", &s::breaker_hold, 0, 2e3),
      ms("fence_grace_ms", &s::fence_grace, 0, 60e3),
      ms("drain_deadline_ms", &s::drain_deadline, 1, 60e3),
      flag("remote_fence", &s::remote_fence),
      ms("remote_fence_timeout_ms", &s::remote_fence_timeout, 1, 600e3),
      ms("port_poll_ms", &s::port_poll, 1, 60e3),
      ms("device_poll_ms", &s::device_poll, 10, 3600e3),
      {"spare_devices", "a list of devices' names",
       [](const value& v, s& into) {
         const auto& all = v.node();
         if (!all.is_array() ||
             !std::all_of(all.begin(), all.end(), [](const auto& n) { return n.is_string(); }))
           return v.refuse("a list of devices' names");
         into.spare_devices = all.template get<std::vector<std::string>>();
       }},
      ms("rebuild_backoff_max_ms", &s::rebuild_backoff_max, 1, 600e3),
      ms("reach_retry_ms", &s::reach_retry, 1, 600e3),
      ms("reach_retry_max_ms", &s::reach_retry_max, 1, 3600e3),
      ms("register_wait_ms", &s::register_wait, 0, 3600e3),
      ms("connect_deadline_ms", &s::connect_deadline, 10, 600e3),
      ms("reconnect_window_ms", &s::reconnect_window, 1, 600e3),
      ms("stuck_after_ms", &s::stuck_after, 1),
      whole("qp_timeout", &s::qp_timeout, 0, 31),
      whole("retry_count", &s::retry_count, 0, 7),
      whole("read_depth", &s::read_depth, 1, 255),
      flag("ib_grh", &s::ib_grh),
  };
  return table;
}

const key_table<host_spec>& host_keys() {
  static const key_table<host_spec> table{
      name("name", &host_spec::name).required(),
      whole("count", &host_spec::count, 1, 256),
      objects("devices", &host_spec::devices, device_keys, false),
      real("memory_gbit_s", &host_spec::memory_gbit_s, 0.001, 10000, "a number of Gbit/s"),
      {"settings", "an object, { ... }",
       [](const value& v, host_spec& into) { read_object(v, settings_keys(), into.config); }},
  };
  return table;
}

const key_table<control_spec>& control_keys() {
  static const key_table<control_spec> table{
      name("from", &control_spec::from).required(),
      name("to", &control_spec::to).required(),
      us("latency_us", &control_spec::latency, 0, longest_control_us),
  };
  return table;
}

const key_table<traffic_spec>& traffic_keys() {
  using t = traffic_spec;
  static const key_table<t> table{
      name("name", &t::name),
      hosts("from", &t::from).required(),
      hosts("to", &t::to).required(),
      {"op", "one of write, read",
       [](const value& v, t& into) {
         if (v.node() != "write" && v.node() != "read")
           return v.refuse("one of write, read");
         into.op = v.node() == "read" ? operation::read : operation::write;
       }},
      list<t, std::uint64_t>("sizes", "a list of numbers of bytes, 1 to 1G, also as texts with K, M or G",
                             &t::sizes,
                             [](const value& v, t&, std::vector<std::uint64_t>& all) {
                               if (const auto n = bytes_of(v, 1, 1u << 30))
                                 all.push_back(*n);
                             }),
      whole("count", &t::count, 1, 10'000'000),
      whole("batch", &t::batch, 1, 100'000),
      whole("depth", &t::depth, 1, 10'000),
      real("rate_per_s", &t::rate_per_s, 0.001, 1e6, "a number of batches per second"),
      ms("start_ms", &t::start),
      ms("repeat_until_ms", &t::repeat_until),
      ms("deadline_ms", &t::deadline, 1),
      ms("cancel_after_ms", &t::cancel_after),
      flag("verify", &t::verify),
      flag("notice", &t::notice),
      flag("notices_only", &t::notices_only),
  };
  return table;
}

const key_table<bounds_spec>& bounds_keys() {
  using b = bounds_spec;
  static const key_table<b> table{
      ms("converge_within_ms", &b::converge_within, 1),
      whole("reconnects_at_most", &b::reconnects_at_most, 0, 1'000'000),
      whole("log_lines_at_most", &b::log_lines_at_most, 0, 1'000'000),
      ms("end_grace_ms", &b::end_grace),
      real("isolation_percent", &b::isolation_percent, 0, 1000, "a percentage"),
  };
  return table;
}

const key_table<scenario>& scenario_keys() {
  using s = scenario;
  static const key_table<s> table{
      name("id", &s::id).required(),
      text("title", &s::title).required(),
      list<s, std::string>(
          "cases", "a list of names", &s::cases,
          [](const value& v, s&, std::vector<std::string>& all) {
            if (!is_name(v))
              return v.refuse(name_rule);
            all.push_back(v.node().get<std::string>());
          },
          true),
      whole("seeds", &s::seeds, 1, 1'000'000),
      ms("time_limit_ms", &s::time_limit, 1),
      {"settings", "an object, { ... }",
       [](const value& v, s& into) { read_object(v, settings_keys(), into.config); }},
      list<s, host_spec>("hosts", "a list of objects, at least one", &s::hosts,
                         [](const value& v, s& of, std::vector<host_spec>& all) {
                           host_spec one;
                           one.config = of.config;
                           read_object(v, host_keys(), one);
                           all.push_back(std::move(one));
                         })
          .required(),
      objects("control", &s::control, control_keys),
      objects("traffic", &s::traffic, traffic_keys),
      list<s, fault_spec>(
          "faults", "a list of objects", &s::faults,
          [](const value& v, s&, std::vector<fault_spec>& all) { read_fault(v, all); }, true),
      list<s, expect_spec>(
          "expect", "a list of objects", &s::expect,
          [](const value& v, s&, std::vector<expect_spec>& all) { read_expect(v, all); }, true),
      {"bounds", "an object, { ... }",
       [](const value& v, s& into) { read_object(v, bounds_keys(), into.bounds); }},
  };
  return table;
}

namespace {

template <class T>
void append(std::vector<documented_key>& all, const char* object, const key_table<T>& table) {
  for (const auto& k : table)
    all.push_back({object, k.name, k.accepts});
}

} // namespace

std::vector<documented_key> all_keys() {
  std::vector<documented_key> all;
  append(all, "", scenario_keys());
  append(all, "hosts", host_keys());
  append(all, "hosts.devices", device_keys());
  append(all, "hosts.devices.limits", limit_keys());
  append(all, "settings", settings_keys());
  append(all, "control", control_keys());
  append(all, "traffic", traffic_keys());
  append(all, "faults", fault_keys());
  append(all, "expect", expect_keys());
  append(all, "bounds", bounds_keys());
  return all;
}

} // namespace actor_rdma::drill::format
