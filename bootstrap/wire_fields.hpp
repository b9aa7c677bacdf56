// SPDX-License-Identifier: Apache-2.0
//
// Which fields every struct of messages.hpp has on the wire, written down once for the encoder and the
// decoder. A visitor is called as v(key, field), v.optional(key, field) for a key that older peers do not
// send, v.text(key, field) for words that may be cut, v.up_to(key, number, bound), v.list(key, vector,
// bound), v.optional_list(key, optional vector, bound) and v.binary(key, bytes, bound); v.check(holds, key,
// complaint) states what must hold beyond types and bounds.
#pragma once

#include "bootstrap/limits.hpp"
#include "bootstrap/messages.hpp"

#include <algorithm>
#include <concepts>
#include <type_traits>

namespace actor_rdma::bootstrap {

/// M is T or const T.
template <class M, class T>
concept like = std::same_as<std::remove_const_t<M>, T>;

constexpr bool is_path_mtu(std::uint32_t bytes) noexcept {
  return bytes == 256 || bytes == 512 || bytes == 1024 || bytes == 2048 || bytes == 4096;
}

template <class V, like<port_address> M>
void wire_fields(V& v, M& m) {
  v("device", m.device);
  v("gid", m.gid);
  v("lid", m.lid);
  v("gid_type", m.gid_type);
  v("mtu", m.mtu);
  v("read_depth", m.read_depth);
  v.optional("link_layer", m.link_layer);
  v.optional("grh", m.grh);
  v.check(is_path_mtu(m.mtu), "mtu", "must be 256, 512, 1024, 2048 or 4096");
}

template <class V, like<qp_address> M>
void wire_fields(V& v, M& m) {
  v("index", m.index);
  v.up_to("qp_num", m.qp_num, max_24_bits);
  v.up_to("psn", m.psn, max_24_bits);
  v("generation", m.generation);
}

template <class V, like<remote_buffer> M>
void wire_fields(V& v, M& m) {
  v("id", m.id);
  v("addr", m.addr);
  v("length", m.length);
  v("writable", m.writable);
  v.list("rkeys", m.rkeys, max_devices);
  v.check(m.length == 0 || m.addr + (m.length - 1) >= m.addr, "length", "exceeds the address space");
}

template <class V, like<segment> M>
void wire_fields(V& v, M& m) {
  v("name", m.name);
  v("version", m.version);
  v.list("devices", m.devices, max_devices);
  v.list("buffers", m.buffers, max_buffers);
  v("probe_addr", m.probe_addr);
  v.list("probe_rkeys", m.probe_rkeys, max_devices);
  const auto one_per_device = [&](const remote_buffer& b) { return b.rkeys.size() == m.devices.size(); };
  v.check(std::all_of(m.buffers.begin(), m.buffers.end(), one_per_device), "buffers",
          "must have one rkey for each device");
  v.check(m.probe_rkeys.size() == m.devices.size(), "probe_rkeys", "must have one rkey for each device");
}

template <class V, like<hello> M>
void wire_fields(V& v, M& m) {
  v("node", m.node);
  v("build_id", m.build_id);
  v("features", m.features);
  v("auth", m.auth);
  v.optional("relation", m.relation);
  v.optional_list("endpoints", m.endpoints, max_endpoints);
}

template <class V, like<publish> M>
void wire_fields(V& v, M& m) {
  v("published", m.published);
}

template <class V, like<connect> M>
void wire_fields(V& v, M& m) {
  v("endpoint", m.endpoint);
  v("local", m.local);
  v("peer_device", m.peer_device);
  v.list("qps", m.qps, max_qps);
}

template <class V, like<accept> M>
void wire_fields(V& v, M& m) {
  v("endpoint", m.endpoint);
  v("local", m.local);
  v.list("qps", m.qps, max_qps);
}

template <class V, like<rebuild> M>
void wire_fields(V& v, M& m) {
  v("endpoint", m.endpoint);
  v("local", m.local);
  v("qp", m.qp);
}

template <class V, like<rebuilt> M>
void wire_fields(V& v, M& m) {
  v("endpoint", m.endpoint);
  v("local", m.local);
  v("qp", m.qp);
}

template <class V, like<retire> M>
void wire_fields(V& v, M& m) {
  v("endpoint", m.endpoint);
  v("qp_index", m.qp_index);
  v("generation", m.generation);
  v("whole_endpoint", m.whole_endpoint);
  v.text("cause", m.cause);
}

template <class V, like<retired> M>
void wire_fields(V& v, M& m) {
  v("endpoint", m.endpoint);
  v("qp_index", m.qp_index);
  v("generation", m.generation);
  v("whole_endpoint", m.whole_endpoint);
}

template <class V, like<reject> M>
void wire_fields(V& v, M& m) {
  v("endpoint", m.endpoint);
  v("qp_index", m.qp_index);
  v("generation", m.generation);
  v("code", m.code);
  v.text("text", m.text);
  v("retry_after_ms", m.retry_after_ms);
}

template <class V, like<ping> M>
void wire_fields(V& v, M& m) {
  v("token", m.token);
}

template <class V, like<pong> M>
void wire_fields(V& v, M& m) {
  v("token", m.token);
  v.optional("segment_version", m.segment_version);
}

template <class V, like<goodbye> M>
void wire_fields(V& v, M& m) {
  v.text("cause", m.cause);
}

template <class V, like<notice> M>
void wire_fields(V& v, M& m) {
  v("session", m.session);
  v("sequence", m.sequence);
  v("name", m.name);
  v.binary("payload", m.payload, max_notice_bytes);
  v.check(m.name.size() <= max_notice_name_bytes, "name", "must have at most 256 bytes");
}

template <class V, like<noticed> M>
void wire_fields(V& v, M& m) {
  v("session", m.session);
  v("upto", m.upto);
  v("limit", m.limit);
  v("again", m.again);
  v("forgotten", m.forgotten);
}

} // namespace actor_rdma::bootstrap
