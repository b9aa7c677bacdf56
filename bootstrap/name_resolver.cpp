// SPDX-License-Identifier: Apache-2.0
//
// The threads of the resolver.
#include "bootstrap/name_resolver.hpp"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace actor_rdma::bootstrap {

namespace {

constexpr unsigned max_threads = 4;

struct question {
  std::uint64_t token;
  host_port where;
  base::time_point expires;
};

} // namespace

struct name_resolver::state {
  name_lookup lookup;
  on_answer done;
  std::mutex mutex;
  std::condition_variable thread_ended;
  std::deque<question> questions;
  unsigned threads = 0;
  bool stopping = false;

  void run() {
    std::unique_lock lock{mutex};
    while (!stopping && !questions.empty()) {
      const auto next = std::move(questions.front());
      questions.pop_front();
      lock.unlock();
      if (next.expires > base::mono_clock::now())
        done(next.token, lookup(next.where));
      lock.lock();
    }
    --threads;
    thread_ended.notify_all();
  }
};

name_resolver::name_resolver(name_lookup lookup, on_answer done) : state_{std::make_shared<state>()} {
  state_->lookup = std::move(lookup);
  state_->done = std::move(done);
}

name_resolver::~name_resolver() {
  stop(base::duration{0});
}

void name_resolver::ask(std::uint64_t token, host_port where, base::time_point expires) {
  const std::lock_guard lock{state_->mutex};
  if (state_->stopping)
    return;
  state_->questions.push_back({token, std::move(where), expires});
  if (state_->threads >= max_threads)
    return;
  ++state_->threads;
  try {
    std::thread{[shared = state_] { shared->run(); }}.detach();
  } catch (const std::system_error&) {
    // The question stays for the next thread that can be had; at worst it expires.
    --state_->threads;
  }
}

void name_resolver::stop(base::duration patience) {
  std::unique_lock lock{state_->mutex};
  state_->stopping = true;
  state_->questions.clear();
  state_->thread_ended.wait_for(lock, patience, [&] { return state_->threads == 0; });
}

} // namespace actor_rdma::bootstrap
