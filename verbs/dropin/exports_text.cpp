// SPDX-License-Identifier: Apache-2.0
//
// Exported: names and conversions, which need no device.
#include "verbs/dropin/library.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

using namespace actor_rdma::verbs;
using dropin::nic;

namespace {

/// Mbit/s by rate, of the InfiniBand specification's table of static rates.
constexpr std::array<std::pair<ibv_rate, int>, 23> rates{{
    {IBV_RATE_2_5_GBPS, 2500},   {IBV_RATE_5_GBPS, 5000},       {IBV_RATE_10_GBPS, 10000},
    {IBV_RATE_20_GBPS, 20000},   {IBV_RATE_30_GBPS, 30000},     {IBV_RATE_40_GBPS, 40000},
    {IBV_RATE_60_GBPS, 60000},   {IBV_RATE_80_GBPS, 80000},     {IBV_RATE_120_GBPS, 120000},
    {IBV_RATE_14_GBPS, 14062},   {IBV_RATE_56_GBPS, 56250},     {IBV_RATE_112_GBPS, 112500},
    {IBV_RATE_168_GBPS, 168750}, {IBV_RATE_25_GBPS, 25781},     {IBV_RATE_100_GBPS, 103125},
    {IBV_RATE_200_GBPS, 206250}, {IBV_RATE_300_GBPS, 309375},   {IBV_RATE_28_GBPS, 28125},
    {IBV_RATE_50_GBPS, 53125},   {IBV_RATE_400_GBPS, 425000},   {IBV_RATE_600_GBPS, 637500},
    {IBV_RATE_800_GBPS, 850000}, {IBV_RATE_1200_GBPS, 1275000},
}};

/// Multiples of the base rate, 2.5 Gbit/s; the rates whose name is not a multiple count by their lanes.
constexpr std::array<std::pair<ibv_rate, int>, 23> multiples{{
    {IBV_RATE_2_5_GBPS, 1},   {IBV_RATE_5_GBPS, 2},     {IBV_RATE_10_GBPS, 4},     {IBV_RATE_20_GBPS, 8},
    {IBV_RATE_30_GBPS, 12},   {IBV_RATE_40_GBPS, 16},   {IBV_RATE_60_GBPS, 24},    {IBV_RATE_80_GBPS, 32},
    {IBV_RATE_120_GBPS, 48},  {IBV_RATE_14_GBPS, 6},    {IBV_RATE_56_GBPS, 22},    {IBV_RATE_112_GBPS, 45},
    {IBV_RATE_168_GBPS, 67},  {IBV_RATE_25_GBPS, 10},   {IBV_RATE_100_GBPS, 40},   {IBV_RATE_200_GBPS, 80},
    {IBV_RATE_300_GBPS, 120}, {IBV_RATE_28_GBPS, 11},   {IBV_RATE_50_GBPS, 20},    {IBV_RATE_400_GBPS, 160},
    {IBV_RATE_600_GBPS, 240}, {IBV_RATE_800_GBPS, 320}, {IBV_RATE_1200_GBPS, 480},
}};

template <class Table>
int value_of(const Table& table, ibv_rate rate) noexcept {
  const auto* const found =
      std::find_if(table.begin(), table.end(), [&](const auto& entry) { return entry.first == rate; });
  return found == table.end() ? -1 : found->second;
}

template <class Table>
ibv_rate rate_of(const Table& table, int value) noexcept {
  const auto* const found =
      std::find_if(table.begin(), table.end(), [&](const auto& entry) { return entry.second == value; });
  return found == table.end() ? IBV_RATE_MAX : found->first;
}

template <std::size_t N>
const char* name_of(const std::array<const char*, N>& names, int value) noexcept {
  return value >= 0 && static_cast<std::size_t>(value) < N ? names[static_cast<std::size_t>(value)]
                                                           : "unknown";
}

} // namespace

extern "C" {

int ibv_rate_to_mult(ibv_rate rate) {
  return value_of(multiples, rate);
}

ibv_rate mult_to_ibv_rate(int mult) {
  return rate_of(multiples, mult);
}

int ibv_rate_to_mbps(ibv_rate rate) {
  return value_of(rates, rate);
}

ibv_rate mbps_to_ibv_rate(int mbps) {
  return rate_of(rates, mbps);
}

const char* ibv_wc_status_str(ibv_wc_status status) {
  return nic().wc_status_str(status);
}

const char* ibv_event_type_str(ibv_event_type type) {
  return nic().event_type_str(type);
}

const char* ibv_node_type_str(ibv_node_type type) {
  static constexpr std::array names{"unknown", "channel adapter", "switch", "router",
                                    "RNIC",    "usNIC over UDP",  "usNIC",  "unspecified"};
  return name_of(names, type);
}

const char* ibv_port_state_str(ibv_port_state state) {
  static constexpr std::array names{"no state change", "down",   "initializing",
                                    "armed",           "active", "active, deferred"};
  return name_of(names, state);
}

} // extern "C"
