// SPDX-License-Identifier: Apache-2.0
//
// The system's libibverbs, which may or may not be there: either way there is a table or a sentence.
#include "verbs/provider.hpp"

#include <string>

#include <doctest/doctest.h>

using namespace actor_rdma::verbs;

TEST_CASE("the system's libibverbs gives a full table and devices, or says why not") {
  const auto table = system_provider();
  if (!table) {
    CHECK(table.error().to_string().find("libibverbs.so.1") != std::string::npos);
    return;
  }
  const provider& p = **table;
  CHECK(std::string{p.name} == "verbs");
  CHECK((p.get_device_name != nullptr));
  CHECK((p.event_type_str != nullptr));
  CHECK(std::string{p.wc_status_str(IBV_WC_RETRY_EXC_ERR)} == "transport retry counter exceeded");
  const auto devices = p.list_devices();
  if (devices)
    CHECK(!devices->empty());
  else
    CHECK(devices.error().what.find("use --fabric soft") != std::string::npos);
}
