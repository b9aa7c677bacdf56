// SPDX-License-Identifier: Apache-2.0
// One host: a transport, memory that the conductor has mapped too, and batches by number.
#include "drill/real/host_role.hpp"

#include "drill/descriptors.hpp"
#include "drill/format/read.hpp"
#include "drill/real/errand_thread.hpp"
#include "drill/real/forked_children.hpp"
#include "drill/real/host_options.hpp"
#include "drill/real/host_outbox.hpp"
#include "drill/real/line_socket.hpp"
#include "drill/real/stop_signals.hpp"
#include "transport/transport.hpp"
#include "verbs/soft/fabric.hpp"

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>

namespace actor_rdma::drill {

namespace {

using json = nlohmann::json;
using namespace std::chrono_literals;

constexpr std::size_t kept_batches = 1024; ///< that have ended
constexpr auto import_patience = 3s;
constexpr auto answer_patience = 2s; ///< publishing, a snapshot
constexpr auto shutdown_patience = 8s;
constexpr std::size_t churned_bytes = 4096;

std::int64_t now_ns() {
  return base::mono_clock::now().time_since_epoch().count();
}

class host_role {
public:
  explicit host_role(std::shared_ptr<host_outbox> out) : out_(std::move(out)) {}
  ~host_role() { join(); }

  bool open(const host_wishes& w, const host_spec& h);
  /// False when this was the last one.
  bool obey(const json& order);
  /// Ends the transport; what could not be released.
  std::vector<std::string> close();

private:
  struct memory {
    std::byte* addr = nullptr;
    std::size_t bytes = 0;
    bool publish = false;
    std::optional<buffer> registered;
  };
  struct dial {
    std::thread thread;
    std::shared_ptr<std::atomic<bool>> is_over;
  };
  struct known_batch {
    batch handle;
    std::vector<transfer_status> told;
  };

  void answer(const json& order, json with = json::object()) {
    with["answer"] = order.at("call");
    out_->say(with);
  }
  void refuse(const json& order, const std::string& why) { answer(order, {{"error", why}}); }
  /// What may block does so on a thread of its own: connecting, which may take long, on one each.
  void aside(const json& order, void (host_role::*what)(const json&)) {
    std::erase_if(dials_, [](dial& d) {
      if (!d.is_over->load())
        return false;
      d.thread.join();
      return true;
    });
    auto is_over = std::make_shared<std::atomic<bool>>(false);
    dials_.push_back({std::thread([this, order, what, is_over] {
                        (this->*what)(order);
                        is_over->store(true);
                      }),
                      is_over});
  }
  void join() {
    errands_.finish();
    for (auto& d : dials_)
      d.thread.join();
    dials_.clear();
  }
  void make_memory(const json& order);
  void revoke(const json& order);
  void connect(const json& order);
  void churn(const json& order);
  void snapshot(const json& order);
  void submit(const json& order);
  void cancel(const json& order);
  void ended(std::uint64_t number);
  static void look_for_changes(std::uint64_t number, const known_batch& b, json& into);
  void forget_old_batches();
  void changed(const json& order);
  void fork_child(const json& order);

  int socket_ = -1;
  bool tells_receipts_ = false;
  forked_children children_;
  std::shared_ptr<host_outbox> out_;
  std::unique_ptr<transport> transport_;
  std::mutex mutex_; ///< of the maps
  std::map<std::uint64_t, memory> memory_;
  std::map<std::string, segment> peers_;
  std::map<std::uint64_t, known_batch> batches_;
  json changed_ = json::array(); ///< of those that are forgotten
  std::vector<dial> dials_;
  errand_thread errands_;
};

bool host_role::open(const host_wishes& w, const host_spec& h) {
  const auto how = options_of(w, h, out_);
  if (!how) {
    out_->say({{"failed", how.error().to_string()}});
    return false;
  }
  tells_receipts_ = how->fabric == fabric_kind::verbs; // nobody else counts their bytes
  auto made = transport::create(*how);
  if (!made) {
    out_->say({{"failed", made.error().to_string()}});
    return false;
  }
  transport_ = std::move(*made);
  socket_ = w.socket;
  out_->say({{"ready", transport_->address()}});
  return true;
}

void host_role::make_memory(const json& order) {
  const auto key = order.at("key").get<std::uint64_t>();
  std::unique_lock lock(mutex_);
  if (const auto known = memory_.find(key); known != memory_.end()) // asked for another life of the peer
    return answer(order, {{"addr", reinterpret_cast<std::uint64_t>(known->second.addr)}});
  lock.unlock();
  memory m;
  m.bytes = order.at("bytes").get<std::size_t>();
  m.publish = order.at("publish").get<bool>();
  void* at = ::mmap(nullptr, m.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, order.at("fd").get<int>(), 0);
  if (at == MAP_FAILED)
    return refuse(order, "mmap: " + base::errno_text(errno));
  m.addr = static_cast<std::byte*>(at);
  const auto made = transport_->register_memory(at, m.bytes, m.publish);
  if (!made) {
    ::munmap(at, m.bytes);
    return refuse(order, made.error().to_string());
  }
  m.registered = *made;
  lock.lock();
  memory_[key] = m;
  lock.unlock();
  answer(order, {{"addr", reinterpret_cast<std::uint64_t>(at)}});
}

void host_role::revoke(const json& order) {
  std::unique_lock lock(mutex_);
  auto& m = memory_.at(order.at("key").get<std::uint64_t>());
  const auto what = m;
  lock.unlock();
  if (order.at("on").get<bool>()) {
    if (what.registered)
      if (const auto done = transport_->deregister_memory(*what.registered); !done)
        return refuse(order, done.error().to_string());
    lock.lock();
    m.registered.reset();
    lock.unlock();
    return answer(order);
  }
  if (!what.registered) {
    const auto made = transport_->register_memory(what.addr, what.bytes, what.publish);
    if (!made)
      return refuse(order, made.error().to_string());
    lock.lock();
    m.registered = *made;
    lock.unlock();
  }
  answer(order);
}

void host_role::connect(const json& order) {
  const auto at = order.at("address").get<std::string>();
  const auto to = transport_->import_segment(at, import_patience);
  if (!to)
    return refuse(order, to.error().to_string());
  // What was published a moment ago may still be on its way.
  const auto want = order.at("want").get<std::vector<std::pair<std::uint64_t, std::uint64_t>>>();
  const auto is_there = [&] {
    const auto all = to->buffers();
    return std::all_of(want.begin(), want.end(), [&](const auto& w) {
      return std::any_of(all.begin(), all.end(), [&](const published_buffer& b) {
        return b.addr <= w.first && w.first + w.second <= b.addr + b.length;
      });
    });
  };
  const auto until = base::mono_clock::now() + answer_patience;
  while (!is_there()) {
    if (base::mono_clock::now() > until)
      return refuse(order, at + " does not publish its memory");
    std::this_thread::sleep_for(1ms);
  }
  {
    std::lock_guard lock(mutex_);
    peers_[order.at("peer").get<std::string>()] = *to;
  }
  answer(order);
}

void host_role::churn(const json& order) {
  void* at = ::mmap(nullptr, churned_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const auto made = transport_->register_memory(at, churned_bytes);
  if (!made)
    return refuse(order, made.error().to_string());
  if (const auto done = transport_->deregister_memory(*made); !done)
    return refuse(order, done.error().to_string()); // the page stays mapped
  ::munmap(at, churned_bytes);
  answer(order);
}

void host_role::snapshot(const json& order) {
  json actors = json::array();
  for (const auto& s : transport_->snapshot(answer_patience))
    actors.push_back({s.kind, s.name, s.state, s.outstanding, s.queued});
  answer(order, {{"actors", actors}});
}

// -- batches --------------------------------------------------------------------------------------

void host_role::submit(const json& order) {
  const auto number = order.at("batch").get<std::uint64_t>();
  std::lock_guard lock(mutex_); // the end must not be told before the beginning
  const auto& m = memory_.at(order.at("key").get<std::uint64_t>());
  std::vector<transfer_request> requests;
  for (const auto& i : order.at("items"))
    requests.push_back({order.at("op") == "read" ? operation::read : operation::write,
                        m.addr + i.at(0).get<std::uint64_t>(), i.at(1).get<std::uint64_t>(),
                        i.at(2).get<std::uint64_t>()});
  submit_options how;
  how.deadline = base::duration{order.at("deadline_ns").get<std::int64_t>()};
  how.receipts = tells_receipts_;
  how.on_done = [this, number] { ended(number); };
  const auto at = now_ns();
  auto made = transport_->submit(peers_[order.at("peer").get<std::string>()], requests, std::move(how));
  if (!made)
    return refuse(order, made.error().to_string());
  batches_[number].handle = std::move(*made);
  answer(order, {{"at_ns", at}});
}

void host_role::ended(std::uint64_t number) {
  const auto at = now_ns();
  std::lock_guard lock(mutex_);
  auto& b = batches_.at(number);
  json results = json::array();
  for (std::size_t i = 0; i < b.handle.size(); ++i) {
    const auto r = b.handle.result(i);
    results.push_back(
        {static_cast<unsigned>(r.status), static_cast<unsigned>(r.cause), r.remote_fence_unconfirmed});
    if (const auto receipt = b.handle.receipt(i)) {
      json shares = json::array();
      for (const auto& s : receipt->rails)
        shares.push_back({s.rail, s.bytes});
      results.back().push_back(std::move(shares));
    }
    b.told.push_back(r.status);
  }
  out_->say({{"ended", number}, {"at_ns", at}, {"results", results}});
  forget_old_batches();
}

void host_role::look_for_changes(std::uint64_t number, const known_batch& b, json& into) {
  for (std::size_t i = 0; i < b.told.size(); ++i)
    if (const auto is = b.handle.result(i).status; is != b.told[i])
      into.push_back({number, i, static_cast<unsigned>(is)});
}

/// With the lock. A long run's batches are not kept to its end: its memory is watched.
void host_role::forget_old_batches() {
  for (auto b = batches_.begin(); batches_.size() > kept_batches && b != batches_.end();) {
    if (b->second.told.empty()) {
      ++b;
      continue;
    }
    look_for_changes(b->first, b->second, changed_);
    b = batches_.erase(b);
  }
}

void host_role::cancel(const json& order) {
  std::lock_guard lock(mutex_);
  if (const auto found = batches_.find(order.at("batch").get<std::uint64_t>()); found != batches_.end())
    found->second.handle.cancel();
  answer(order);
}

void host_role::changed(const json& order) {
  std::lock_guard lock(mutex_);
  auto all = changed_;
  for (const auto& [number, b] : batches_)
    look_for_changes(number, b, all);
  answer(order, {{"changed", all}});
}

bool host_role::obey(const json& order) {
  const auto what = order.at("do").get<std::string>();
  if (what == "submit")
    submit(order);
  else if (what == "cancel")
    cancel(order);
  else if (what == "changed")
    changed(order);
  else if (what == "memory")
    errands_.add([this, order] { make_memory(order); });
  else if (what == "revoke")
    errands_.add([this, order] { revoke(order); });
  else if (what == "connect")
    aside(order, &host_role::connect);
  else if (what == "fork")
    errands_.add([this, order] { fork_child(order); });
  else if (what == "churn")
    errands_.add([this, order] { churn(order); });
  else if (what == "snapshot")
    errands_.add([this, order] { snapshot(order); });
  return what != "stop";
}

void host_role::fork_child(const json& order) {
  const auto wrong =
      children_.fork(*transport_, socket_, base::duration{order.at("lives_ns").get<std::int64_t>()});
  wrong.empty() ? answer(order) : refuse(order, wrong);
}

std::vector<std::string> host_role::close() {
  join();
  auto left = children_.reap();
  const auto report = transport_->shutdown(shutdown_patience);
  transport_.reset();
  left.insert(left.end(), report.quarantined.begin(), report.quarantined.end());
  return left;
}

} // namespace

int run_host(const host_wishes& w) {
  stop_signals signals; // before any thread
  line_socket in(w.socket);
  const auto out = std::make_shared<host_outbox>(in.fd());
  const log_to_conductor log(*out);
  const auto what = read_scenario(w.file);
  const auto* self = what ? what->host(w.name) : nullptr;
  if (self == nullptr) {
    out->say({{"failed", w.file + " has changed"}});
    return 1;
  }
  const auto before = open_descriptors();
  host_role role(out);
  if (!role.open(w, *self))
    return 1;
  for (bool is_over = false; !is_over;) {
    pollfd p[]{{in.fd(), POLLIN, 0}, {signals.fd(), POLLIN, 0}};
    if (::poll(p, 2, -1) < 0)
      continue;
    if (signals.came()) {
      out->say({{"stopped", role.close()}});
      return 0;
    }
    for (const auto& order : in.receive(is_over))
      if (!role.obey(order)) {
        const auto left = role.close();
        out->say({{"answer", order.at("call")}, {"left", left}, {"fds", {before, open_descriptors()}}});
        return 0;
      }
  }
  return 1; // the conductor is gone, and so are we
}

} // namespace actor_rdma::drill
