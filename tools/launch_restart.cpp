#include "tools/launch_restart.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "heddle/core/base/error.h"
#include "heddle/core/base/parse_number.h"
#include "heddle/train/run_folder.h"

namespace heddle::tools {
namespace {

using Words = std::vector<std::string>;

// Of train; empty where it is not given.
std::string folder_of(const Words& command) {
  constexpr std::string_view option = "--out", equals = "--out=";
  std::string folder;
  for (size_t i = 0; i < command.size(); ++i) {
    if (command[i] == option && i + 1 < command.size()) folder = command[i + 1];
    if (command[i].starts_with(equals)) folder = command[i].substr(equals.size());
  }
  return folder;
}

}  // namespace

bool names_option(const Words& command, std::string_view option) {
  return std::ranges::any_of(
      command, [&](const std::string& word) { return word == option || word.starts_with(fmt::format("{}=", option)); });
}

void check_restarts(const Restarts& restarts, const Words& command) {
  if (restarts.left < 0)
    throw ValueError(fmt::format("[launch] --restarts is {}; it must be at least 0", restarts.left));
  if (restarts.fewer_ranks && restarts.left == 0)
    throw ValueError("[launch] --fewer-ranks is of restarts, and --restarts gives none");
  if (restarts.elastic && restarts.left > 0)
    throw ValueError("[launch] --elastic with --restarts: one of them goes on without the rank that was killed");
  if (restarts.left == 0) return;
  if (command.front() == "train" && folder_of(command).empty())
    throw ValueError("[launch] --restarts needs --out of train: the folder whose checkpoints it goes on from");
  if (restarts.fewer_ranks && names_option(command, "--mesh"))
    throw ValueError("[launch] --fewer-ranks with --mesh: fewer ranks are another mesh; leave --mesh out");
}

// "mpirun (Open MPI) 5.0.11".
void check_elastic_mpirun(std::string_view version) {
  constexpr std::string_view before = "(Open MPI) ";
  constexpr int with_ulfm = 5;
  const size_t at = version.find(before);
  const std::string_view number =
      at == std::string_view::npos ? std::string_view() : version.substr(at + before.size());
  if (parse_number<int>(number.substr(0, number.find('.'))).value_or(0) >= with_ulfm) return;
  const std::string_view line = version.substr(0, version.find('\n'));
  throw ValueError(fmt::format("[launch] --elastic needs an MPI with ULFM, e.g. Open MPI 5; here is {}",
                               line.empty() ? "another one" : line));
}

Words command_that_goes_on(Words command) {
  if (command.front() == "train" && train::RunFolder::exists(folder_of(command)) && !names_option(command, "--resume"))
    command.emplace_back("--resume");
  return command;
}

}  // namespace heddle::tools
