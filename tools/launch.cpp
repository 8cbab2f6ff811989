// heddle launch: ranks of a training run, started by mpirun.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/core/base/parse_number.h"
#include "heddle/core/base/path.h"
#include "heddle/core/base/print_error.h"
#include "heddle/core/base/seconds_since.h"
#include "heddle/core/base/system/machine.h"
#include "heddle/core/base/system/process.h"
#include "tools/cli.h"
#include "tools/find_program.h"
#include "tools/interrupt.h"
#include "tools/launch_restart.h"
#include "tools/launched.h"
#include "tools/mpirun_errors.h"
#include "tools/output.h"

namespace heddle::tools {
namespace {

using Words = std::vector<std::string>;

constexpr int most_ranks_here = 1024;

struct Launch {
  int ranks = 0;
  Words hosts, devices, command;
  Restarts restarts;
};

// "a:2" has two places, "a" one.
int places_of(const std::string& host) {
  const size_t colon = host.find(':');
  const auto places = colon == std::string::npos ? 1 : parse_number<int>(host.substr(colon + 1)).value_or(0);
  if (colon == 0 || host.empty() || places < 1)
    throw ValueError(fmt::format("[launch] '{}' is no host; --hosts is written as a:2,b:2", host));
  return places;
}

void check_hosts(const Launch& launch) {
  if (launch.hosts.empty()) {
    if (launch.ranks > most_ranks_here)
      throw ValueError(fmt::format("[launch] -n is {}; one host gets at most {} ranks", launch.ranks, most_ranks_here));
    return;
  }
  int64_t places = 0;
  for (const std::string& host : launch.hosts) places += places_of(host);
  if (places < launch.ranks)
    throw ValueError(
        fmt::format("[launch] --hosts has {} place{} for {} ranks", places, places == 1 ? "" : "s", launch.ranks));
  if (find_program("ssh").empty())
    throw ValueError("[launch] --hosts needs ssh, which is not installed; Debian's package is openssh-client");
}

void check_devices(const Launch& launch) {
  if (launch.devices.empty()) return;
  if (launch.devices.size() != static_cast<size_t>(launch.ranks))
    throw ValueError(fmt::format("[launch] --devices names {} for {} ranks; it needs one for each",
                                 launch.devices.size(), launch.ranks));
  if (names_option(launch.command, "--device"))
    throw ValueError("[launch] --devices names the devices of the ranks, and --device another one for all");
}

void check(const Launch& launch) {
  if (launch.ranks < 1) throw ValueError(fmt::format("[launch] -n is {}; it must be at least 1", launch.ranks));
  const std::string& what = launch.command.front();
  if (what != "train" && what != "resume")
    throw ValueError(fmt::format("[launch] '{}' does not run as several ranks; train and resume do", what));
  check_devices(launch);
  check_hosts(launch);
  check_restarts(launch.restarts, launch.command);
}

// Ranks bind themselves (launched.h).
Words mpirun_words(const std::string& mpirun, const Launch& launch) {
  Words words{mpirun, "--oversubscribe", "--bind-to", "none", "-n", std::to_string(launch.ranks)};
  if (launch.restarts.elastic) words.insert(words.end(), {"--with-ft", "ulfm"});
  if (!launch.hosts.empty()) words.insert(words.end(), {"--host", fmt::format("{}", fmt::join(launch.hosts, ","))});
  words.insert(words.end(), {"-x", launched_variable, "-x", launcher_variable});
  for (const std::string& variable : os::variables()) {
    const std::string name = variable.substr(0, variable.find('='));
    if (name.starts_with("HEDDLE_") && name != launched_variable && name != launcher_variable)
      words.insert(words.end(), {"-x", name});
  }
  // By its own name: that of a link to the running program would be mpirun's.
  std::error_code code;
  const std::string program = fs::canonical(os::program_file(), code).string();
  words.push_back(code ? os::program_file() : program);
  words.insert(words.end(), launch.command.begin(), launch.command.end());
  if (launch.restarts.elastic && !names_option(launch.command, "--elastic")) words.emplace_back("--elastic");
  return words;
}

// Open MPI asks a second time before it runs as root, in containers too, where the user has said so already. How mpirun
// starts itself elsewhere has another name since version 5, which refuses the older one as an option, not as a
// variable. Alone, version 4 would look for ssh, and ranks of one host would look for a network between them.
std::vector<std::pair<std::string, std::string>> variables_of_mpirun(const Launch& launch) {
  constexpr const char* ssh_options = "-o BatchMode=yes -o ConnectTimeout=10";
  std::vector<std::pair<std::string, std::string>> variables{
      {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
      {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
      {"OMPI_MCA_mpi_yield_when_idle", "1"},
      {launched_variable, fmt::format("{}", fmt::join(launch.devices, ","))},
      {launcher_variable, name_of_launcher()}};
  // Behind a loss mpirun waits a second before it asks the others to end, and another one before it kills them: where
  // the run goes on from a checkpoint nobody needs either.
  if (launch.restarts.left > 0)
    for (const char* patience : {"OMPI_MCA_odls_base_sigkill_timeout", "PRTE_MCA_odls_base_sigkill_timeout"})
      variables.emplace_back(patience, os::variable(patience).value_or("0"));
  if (launch.hosts.empty())
    variables.insert(variables.end(), {{"OMPI_MCA_plm", "isolated"}, {"OMPI_MCA_btl", "^tcp"}});
  else
    variables.insert(variables.end(), {{"OMPI_MCA_plm_rsh_args", ssh_options}, {"PRTE_MCA_plm_ssh_args", ssh_options}});
  return variables;
}

// What ranks say goes on; the first Ctrl-C goes to them as a byte (launched.h). Elastic, mpirun leaves ranks alone of
// which one failed: those that do not end by themselves, since they hang, are ended here.
MpirunErrors follow(os::ChildProcess& child) {
  using Clock = std::chrono::steady_clock;
  constexpr double look_seconds = 0.1, ending_seconds = 30;
  const os::IgnoredPipes pipes;
  MpirunErrors errors;
  std::string none, text;
  std::optional<Clock::time_point> failed;
  for (bool told = false, more = true; more;) {
    text.clear();
    more = child.read(none, &text, look_seconds);
    errors.take(text);
    if (errors.heard(launcher_failed) && !failed) failed = Clock::now();
    if (failed && seconds_since(*failed) > ending_seconds) child.kill();
    if (!InterruptScope::caught() || told) continue;
    told = true;
    if (errors.heard(launcher_first_lost))
      child.send_signal(SIGTERM);
    else
      child.write("\n");
  }
  errors.finish();
  return errors;
}

int exit_code_of(const os::ChildEnd& end, const MpirunErrors& errors, bool elastic) {
  if (end.exit_code == 0 && (!elastic || errors.heard(launcher_over))) return InterruptScope::exit_code();
  if (end.exit_code == 0) {
    say_failure("", "[launch] all ranks were killed; resume goes on from the run's last checkpoint");
    return exit_out_of_memory;
  }
  switch (errors.end()) {
    case MpirunErrors::End::not_started:
      throw ValueError(fmt::format("[launch] mpirun could not start the ranks: {}", errors.reason()));
    case MpirunErrors::End::by_signal:
      say_failure("", fmt::format("[launch] {}: all ranks ended; resume goes on from the run's last checkpoint",
                                  errors.reason())
                          .c_str());
      return exit_out_of_memory;  // what most often kills a process from outside
    case MpirunErrors::End::by_itself:
    case MpirunErrors::End::unknown:
      break;
  }
  if (end.exit_code > 0) return end.exit_code;
  say_failure("", fmt::format("[launch] mpirun ended by {}", end.str()).c_str());
  return exit_internal_error;
}

// What is started when `errors` tell of a rank that was killed; none: nothing more.
std::optional<Launch> next(Launch launch, const MpirunErrors& errors) {
  if (errors.end() != MpirunErrors::End::by_signal || InterruptScope::caught() || launch.restarts.left == 0) return {};
  --launch.restarts.left;
  if (launch.restarts.fewer_ranks) {
    if (--launch.ranks == 0) return {};
    const auto lost = static_cast<size_t>(std::max(errors.rank(), 0));
    if (lost < launch.devices.size()) launch.devices.erase(launch.devices.begin() + static_cast<std::ptrdiff_t>(lost));
  }
  launch.command = command_that_goes_on(launch.command);
  print_error("heddle: [launch] {}: {} rank{} go{} on from the run's last checkpoint; restarts left: {}\n",
              errors.reason(), launch.ranks, launch.ranks == 1 ? "" : "s", launch.ranks == 1 ? "es" : "",
              launch.restarts.left);
  return launch;
}

std::string version_of(const std::string& mpirun) {
  os::ChildProcess child(mpirun, {mpirun, "--version"}, {.variables = variables_of_mpirun({})});
  std::string text;
  constexpr double limit_seconds = 10;
  while (child.read(text, nullptr, limit_seconds)) {
  }
  child.wait();
  return text;
}

int run(Launch launch) {
  check(launch);
  const std::string mpirun = find_program("mpirun");
  if (mpirun.empty()) throw ValueError("[launch] mpirun is not installed; Debian's package is openmpi-bin");
  if (launch.restarts.elastic) check_elastic_mpirun(version_of(mpirun));
  const InterruptScope interrupts;
  while (true) {
    os::ChildOptions options;
    options.input = options.error = os::ChildStream::pipe;
    options.output = os::ChildStream::same;
    options.variables = variables_of_mpirun(launch);
    os::ChildProcess child(mpirun, mpirun_words(mpirun, launch), options);
    const MpirunErrors errors = follow(child);
    const os::ChildEnd end = child.wait();
    std::optional<Launch> more = end.exit_code == 0 ? std::nullopt : next(launch, errors);
    if (!more) return exit_code_of(end, errors, launch.restarts.elastic);
    launch = std::move(*more);
  }
}

}  // namespace

void add_launch(Cli& cli) {
  CLI::App* command = cli.app.add_subcommand("launch", "Train as several ranks that share each batch, by mpirun");
  auto launch = std::make_shared<Launch>();
  command->add_option("-n,--ranks", launch->ranks, "Number of ranks")->required();
  command->add_option("--hosts", launch->hosts, "Hosts with their numbers of ranks, e.g. a:2,b:2; default: this one")
      ->delimiter(',')
      ->allow_extra_args(false);
  command->add_option("--devices", launch->devices, "Device of each rank, e.g. opencl:0,vulkan:0")
      ->delimiter(',')
      ->allow_extra_args(false);
  command->add_option("--restarts", launch->restarts.left,
                      "How often ranks go on from the last checkpoint when one was killed; default: never");
  command->add_flag("--fewer-ranks", launch->restarts.fewer_ranks,
                    "Restarts have a rank fewer: without the one that was killed, and its device");
  command->add_flag("--elastic", launch->restarts.elastic,
                    "Without a rank that was killed the others go on, in the same processes; needs an MPI with ULFM");
  command->add_option("command", launch->command, "Behind --: train or resume, with their options")->required();
  command->footer(
      "Open MPI's mpirun is needed (Debian: openmpi-bin), and plain mpirun does the same. The batch is that of all\n"
      "ranks together. Ctrl-C saves a checkpoint and ends. Exit codes are those of the first rank that failed; 2 "
      "where\n"
      "ranks could not be started, 3 where a signal ended one.\n"
      "Example:\n  heddle launch -n 2 -- train mnist-mlp --batch 64 --out runs/two");
  command->callback([launch, &cli] { cli.exit_code = run(*launch); });
}

}  // namespace heddle::tools
