// SPDX-License-Identifier: Apache-2.0
//
// What all programs of this repository say no to on their command lines. (CLI11 reads `--seeds-at-most=` as
// the number 0.)
#pragma once

#include <CLI/CLI.hpp>

namespace actor_rdma::base {

/// To be called when the app and its subcommands have all their options: of those with a name an empty value
/// is refused. (A program that is run with arguments may have an empty one.)
inline void refuse_empty_values(CLI::App& app) {
  for (auto* option : app.get_options())
    if (option->nonpositional() && option->get_items_expected_max() > 0)
      option->check([](const std::string& value) {
        return value.empty() ? std::string{"a value must not be empty"} : std::string{};
      });
  for (auto* command : app.get_subcommands({}))
    refuse_empty_values(*command);
}

} // namespace actor_rdma::base
