// SPDX-License-Identifier: Apache-2.0
//
// An unbounded inbox of pointers, from any number of threads to one. Producers push onto a lock-free stack;
// the consumer takes the whole stack with one exchange and turns it round, so that each producer's pushes
// come out in their order. Taking everything at once is also why there is no ABA problem: nothing is ever
// popped singly.
//
// A T is linked through its own `T* inbox_next` (or what Next names) and belongs to the inbox until it is
// taken. Who cannot add a member to T uses mpsc_node_inbox, which allocates one node per push.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

namespace actor_rdma::base {

/// What take_all returns: a list to be walked once, oldest first. Reading an element's link before handing it
/// out lets the receiver free it or push it elsewhere.
template <class T, T* T::*Next>
class inbox_list {
public:
  explicit inbox_list(T* first = nullptr) noexcept : first_{first} {}
  [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }
  [[nodiscard]] T* pop() noexcept {
    T* const item = first_;
    if (item) {
      first_ = item->*Next;
      item->*Next = nullptr;
    }
    return item;
  }

private:
  T* first_;
};

template <class T, T* T::*Next = &T::inbox_next>
class mpsc_inbox {
public:
  mpsc_inbox() = default;
  mpsc_inbox(const mpsc_inbox&) = delete;
  mpsc_inbox& operator=(const mpsc_inbox&) = delete;

  /// Any thread. True if the inbox was empty before.
  bool push(T* item) noexcept {
    T* head = head_.load(std::memory_order_relaxed);
    do {
      item->*Next = head;
    } while (!head_.compare_exchange_weak(head, item, std::memory_order_release, std::memory_order_relaxed));
    return head == nullptr;
  }

  /// Consumer only.
  [[nodiscard]] inbox_list<T, Next> take_all() noexcept {
    if (empty())
      return inbox_list<T, Next>{};
    T* newest_first = head_.exchange(nullptr, std::memory_order_acquire);
    T* oldest_first = nullptr;
    while (newest_first) {
      T* const next = newest_first->*Next;
      newest_first->*Next = oldest_first;
      oldest_first = newest_first;
      newest_first = next;
    }
    return inbox_list<T, Next>{oldest_first};
  }

  [[nodiscard]] bool empty() const noexcept { return head_.load(std::memory_order_acquire) == nullptr; }

private:
  std::atomic<T*> head_{nullptr};
};

/// The same for pointers to things that have no link of their own.
template <class T>
class mpsc_node_inbox {
  struct node {
    T* item;
    node* inbox_next;
  };

public:
  mpsc_node_inbox() = default;
  mpsc_node_inbox(const mpsc_node_inbox&) = delete;
  mpsc_node_inbox& operator=(const mpsc_node_inbox&) = delete;
  ~mpsc_node_inbox() {
    take_all([](T*) {});
  }

  bool push(T* item) { return nodes_.push(std::make_unique<node>(node{item, nullptr}).release()); }

  /// Consumer only: hands every item to `take`, oldest first. If `take` throws, the items behind it are lost.
  template <class Take>
  std::size_t take_all(Take&& take) {
    std::size_t n = 0;
    auto list = nodes_.take_all();
    for (std::unique_ptr<node> owner{list.pop()}; owner; owner.reset(list.pop()), ++n)
      take(owner->item);
    return n;
  }

  [[nodiscard]] bool empty() const noexcept { return nodes_.empty(); }

private:
  mpsc_inbox<node> nodes_;
};

} // namespace actor_rdma::base
