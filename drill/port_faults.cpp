// SPDX-License-Identifier: Apache-2.0
// Kinds of faults of what is behind a device's port: rates, members of a bond, width, the memory of the host.
#include "drill/fault_kind_groups.hpp"

#include <string>

#include <fmt/format.h>

namespace actor_rdma::drill {

namespace {

using spec = const fault_spec&;

std::string member_of(spec f) {
  return f.member ? fmt::format("member {} of {}", *f.member, f.device) : f.device;
}

void add_cable_kinds(std::vector<fault_kind>& all) {
  all.push_back({"carrier_lost",
                 "The cable is pulled at the switch's end: the device's port goes down.",
                 {"device"},
                 {},
                 [](spec f, stage& s) { return s.devices().set_cable(f.device, false); },
                 [](spec f, stage& s) { return s.devices().set_cable(f.device, true); },
                 [](spec f) { return f.device + " loses carrier"; }});
  all.push_back({"address_lost",
                 "The address that the device is reached by is taken from it; back, it has another index.",
                 {"device"},
                 {},
                 [](spec f, stage& s) { return s.devices().set_address(f.device, false); },
                 [](spec f, stage& s) { return s.devices().set_address(f.device, true); },
                 [](spec f) { return f.device + " loses its address"; }});
  all.push_back({"mac_changed",
                 "The device's interface gets another MAC address, and its addresses other indices.",
                 {"device"},
                 {},
                 [](spec f, stage& s) { return s.devices().set_mac(f.device, false); },
                 [](spec f, stage& s) { return s.devices().set_mac(f.device, true); },
                 [](spec f) { return "the MAC address of " + f.device + " changes"; }});
}

} // namespace

void add_port_kinds(std::vector<fault_kind>& all) {
  add_cable_kinds(all);
  all.push_back({"rate",
                 "The device is as fast as this from now on; of a bond each member, or one of them.",
                 {"device", "gbit_s"},
                 {"member"},
                 [](spec f, stage& s) { return s.devices().set_rate(f.device, f.gbit_s, f.member); },
                 [](spec f, stage& s) {
                   return s.devices().set_rate(f.device, s.devices().usual_rate(f.device), f.member);
                 },
                 [](spec f) { return fmt::format("{} runs at {:g} Gbit/s", member_of(f), f.gbit_s); }});
  all.push_back(
      {"member_down",
       "A member of the device's bond loses what its QPs send and receive; the port stays up.",
       {"device", "member"},
       {"rehash_ms"},
       [](spec f, stage& s) { return s.devices().set_member(f.device, *f.member, false, f.rehash); },
       [](spec f, stage& s) { return s.devices().set_member(f.device, *f.member, true, {}); },
       [](spec f) {
         return member_of(f) + " goes down and nobody says so" +
                (f.rehash ? ", its QPs use others after " + ms(*f.rehash) : "");
       }});
  all.push_back(
      {"width",
       "The port has so many lanes from now on and is slower in proportion; it raises no event.",
       {"device", "lanes"},
       {"lane_gbit_s"},
       [](spec f, stage& s) { return s.devices().set_width(f.device, f.lanes, f.lane_gbit_s); },
       [](spec f, stage& s) {
         return s.devices().set_width(f.device, verbs::soft::usual_lanes, verbs::soft::usual_lane_gbit_s);
       },
       [](spec f) {
         return fmt::format("the port of {} has {} lanes of {:g} Gbit/s", f.device, f.lanes, f.lane_gbit_s);
       }});
  all.push_back(
      {"host_memory",
       "The memory of the host takes and gives so much, for all of its devices together.",
       {"host", "gbit_s"},
       {},
       [](spec f, stage& s) { return s.devices().set_host_memory(f.host, f.gbit_s); },
       [](spec f, stage& s) {
         return s.devices().set_host_memory(f.host, s.devices().usual_host_memory(f.host));
       },
       [](spec f) { return fmt::format("the memory of {} takes and gives {:g} Gbit/s", f.host, f.gbit_s); }});
}

} // namespace actor_rdma::drill
