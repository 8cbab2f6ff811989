// The fuzz targets without a fuzzer: a fixed number of mutated inputs for each reader, the same ones every time.
//   heddle_fuzz_smoke [INPUTS [TARGET...]]         runs them; prints how many, how long, and the slowest
//   heddle_fuzz_smoke --input TARGET NUMBER        writes one of them to stdout, e.g. one that was named as a fault
//   heddle_fuzz_smoke --seeds FOLDER               a corpus for libFuzzer: FOLDER/TARGET/*, FOLDER/TARGET.dict
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <vector>

#include "heddle/core/base/parse_number.h"
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/seed_files.h"

namespace heddle::fuzz {
namespace {

constexpr double most_seconds = 1;           // of an input, of the processor's time
constexpr long most_kilobytes = 1536 << 10;  // of the process, at any time

// What runs now, for the signal handler.
char running[128];

void say_what_ran(int signal) {
  const auto said = ::write(STDERR_FILENO, running, std::strlen(running));
  static_cast<void>(said);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

// On a stack of its own: one of the faults is that the stack is full.
void catch_crashes() {
  static std::vector<char> stack(size_t{1} << 16);
  stack_t other{};
  other.ss_sp = stack.data();
  other.ss_size = stack.size();
  ::sigaltstack(&other, nullptr);
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGABRT, SIGILL}) {
    struct sigaction action {};
    action.sa_handler = say_what_ran;
    action.sa_flags = SA_ONSTACK;
    ::sigaction(signal, &action, nullptr);
  }
}

double processor_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

long peak_kilobytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

// False where an input took too long or too much memory.
bool run_all(const Target& target, uint64_t inputs) {
  const std::vector<std::string> seeds = target.seeds();
  const double start = processor_seconds();
  double before = start, slowest = 0;
  bool good = true;
  for (uint64_t number = 0; number < inputs; ++number) {
    fmt::format_to_n(running, sizeof running - 1, "fuzz: {} fails on input {}\n{}", target.name, number, '\0');
    const std::string input = input_of(target, seeds, number);
    run_target(target, {reinterpret_cast<const uint8_t*>(input.data()), input.size()});
    const double now = processor_seconds(), taken = now - before;
    before = now;
    slowest = std::max(slowest, taken);
    if (taken <= most_seconds && peak_kilobytes() <= most_kilobytes) continue;
    fmt::print(stderr, "fuzz: {} input {}: {:.2f} s, the process has had {} MB\n", target.name, number, taken,
               peak_kilobytes() >> 10);
    good = false;
    if (peak_kilobytes() > most_kilobytes) break;
  }
  fmt::print("{:<16} {:>9} inputs {:>8.2f} s, slowest {:>6.1f} ms, {:>5} MB\n", target.name, inputs, before - start,
             slowest * 1e3, peak_kilobytes() >> 10);
  std::fflush(stdout);
  return good;
}

std::string quoted_word(std::string_view word) {
  std::string text;
  for (const char c : word) text += fmt::format("\\x{:02x}", static_cast<uint8_t>(c));
  return fmt::format("\"{}\"\n", text);
}

void write_seeds(const std::string& folder) {
  for (const Target& target : targets()) {
    const std::string own = fmt::format("{}/{}", folder, target.name);
    std::filesystem::create_directories(own);
    size_t number = 0;
    for (const std::string& seed : target.seeds()) write_scratch(fmt::format("{}/seed-{}", own, number++), seed);
    std::string words;
    for (const std::string_view word : target.words) words += quoted_word(word);
    write_scratch(own + ".dict", words);
  }
}

int run(const std::vector<std::string>& arguments) {
  if (arguments.size() == 2 && arguments[0] == "--seeds") {
    write_seeds(arguments[1]);
    return 0;
  }
  if (arguments.size() == 3 && arguments[0] == "--input") {
    const Target* target = find_target(arguments[1]);
    require(target != nullptr, "no such target");
    const std::string input = input_of(*target, target->seeds(), parse_number<uint64_t>(arguments[2]).value_or(0));
    return std::fwrite(input.data(), 1, input.size(), stdout) == input.size() ? 0 : 1;
  }
  const uint64_t inputs = arguments.empty() ? 2000 : parse_number<uint64_t>(arguments[0]).value_or(0);
  require(inputs > 0, "usage: heddle_fuzz_smoke [INPUTS [TARGET...]] | --input TARGET NUMBER | --seeds FOLDER");
  catch_crashes();
  bool good = true;
  for (const Target& target : targets()) {
    if (arguments.size() < 2 || std::find(arguments.begin() + 1, arguments.end(), target.name) != arguments.end())
      good = run_all(target, inputs) && good;
  }
  return good ? 0 : 1;
}

}  // namespace
}  // namespace heddle::fuzz

int main(int argc, char** argv) { return heddle::fuzz::run({argv + 1, argv + argc}); }
