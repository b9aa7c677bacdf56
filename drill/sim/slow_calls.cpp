// SPDX-License-Identifier: Apache-2.0
// The watching table. Its entries are plain functions, so what they forward to is kept per entry.
#include "drill/sim/slow_calls.hpp"

#include "drill/sim/cluster.hpp"

#include <string>
#include <type_traits>

namespace actor_rdma::sim {

namespace {

thread_local cluster* watched = nullptr;

void note(const char* verb) {
  using job = actors::sim_world::job;
  if (watched == nullptr || !watched->slow_call_on_lane)
    return;
  const auto running = watched->world().running();
  if (running == job::actor || running == job::lane)
    watched->slow_call_on_lane(std::string{verb} +
                               (running == job::lane ? " on the lane of " : " in an actor") +
                               watched->world().running_on());
}

template <auto Entry, class Function>
struct forward;
template <auto Entry, class Result, class... Args>
struct forward<Entry, Result (*)(Args...)> {
  static thread_local Result (*original)(Args...);
  static thread_local const char* verb;
  static Result call(Args... args) {
    note(verb);
    return original(args...);
  }
};
template <auto Entry, class Result, class... Args>
thread_local Result (*forward<Entry, Result (*)(Args...)>::original)(Args...) = nullptr;
template <auto Entry, class Result, class... Args>
thread_local const char* forward<Entry, Result (*)(Args...)>::verb = "";

template <auto Entry>
void watch(verbs::provider& table, const char* verb) {
  using function = std::remove_reference_t<decltype(table.*Entry)>;
  using entry = forward<Entry, function>;
  entry::original = table.*Entry;
  entry::verb = verb;
  table.*Entry = entry::call;
}

} // namespace

verbs::provider watch_slow_calls(const verbs::provider& table, cluster& in) {
  watched = &in;
  auto t = table;
  using p = verbs::provider;
  watch<&p::open_device>(t, "open_device");
  watch<&p::close_device>(t, "close_device");
  watch<&p::query_device>(t, "query_device");
  watch<&p::query_port>(t, "query_port");
  watch<&p::query_gid_ex>(t, "query_gid_ex");
  watch<&p::alloc_pd>(t, "alloc_pd");
  watch<&p::dealloc_pd>(t, "dealloc_pd");
  watch<&p::reg_mr>(t, "reg_mr");
  watch<&p::dereg_mr>(t, "dereg_mr");
  watch<&p::create_cq>(t, "create_cq");
  watch<&p::destroy_cq>(t, "destroy_cq");
  watch<&p::create_qp>(t, "create_qp");
  watch<&p::modify_qp>(t, "modify_qp");
  watch<&p::destroy_qp>(t, "destroy_qp");
  return t;
}

void stop_watching_slow_calls(const cluster& in) noexcept {
  if (watched == &in)
    watched = nullptr;
}

} // namespace actor_rdma::sim
