// SPDX-License-Identifier: Apache-2.0
// Two nodes in one process, on two software NICs: one publishes memory, the other one writes into it.
#include "transport/transport.hpp"

#include <cstdio>
#include <vector>

using namespace actor_rdma;

int main() {
  options how;
  how.soft.fabric = "example"; // both nodes on the same wire
  how.name = how.soft.host = "receiver";
  how.listen = "127.0.0.1:0";
  auto receiver = transport::create(how).value();
  std::vector<char> inbox(1 << 20);
  receiver->register_memory(inbox.data(), inbox.size()).value();

  how.name = how.soft.host = "sender";
  how.listen = "";
  auto sender = transport::create(how).value();
  std::vector<char> message(inbox.size(), 'x');
  sender->register_memory(message.data(), message.size()).value();
  auto peer = sender->import_segment(receiver->address(), std::chrono::seconds{5}).value();

  transfer_request request;
  request.op = operation::write;
  request.local = message.data();
  request.remote = peer.buffers().front().addr;
  request.length = message.size();
  auto batch = sender->submit(peer, {&request, 1}).value();
  batch.wait_for(std::chrono::seconds{40}); // what cannot be done ends at its deadline, 30 s here

  const auto result = batch.result(0);
  std::printf("%s: %s\n", to_string(result.status), base::to_string(result.cause));
  return result.status == transfer_status::completed && inbox == message ? 0 : 1;
}
