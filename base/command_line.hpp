// SPDX-License-Identifier: Apache-2.0
//
// What all programs of this repository say no to on their command lines. (CLI11 reads `--seeds-at-most=` as
// the number 0, and of a word that is no command it says only that a command is needed.)
#pragma once

#include <string>

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

/// For a command line that could not be parsed: "unknown command \"frob\", known are list, run" if that is
/// why, else nothing. Commands of an empty group are not named.
inline std::string name_unknown_command(const CLI::App& app) {
  const CLI::App* at = &app;
  std::string said;
  while (!at->get_subcommands().empty()) {
    at = at->get_subcommands().front();
    said += at->get_name() + " ";
  }
  std::string known;
  for (const auto* command : at->get_subcommands([](const CLI::App*) { return true; }))
    if (!command->get_group().empty())
      known += (known.empty() ? "" : ", ") + command->get_name();
  const auto words = app.remaining(true);
  if (known.empty() || words.empty() || words.front().starts_with('-'))
    return {};
  return "unknown command \"" + said + words.front() + "\", known are " + known;
}

} // namespace actor_rdma::base
