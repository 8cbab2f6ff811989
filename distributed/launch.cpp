#include "heddle/distributed/launch.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "heddle/core/base/system/machine.h"

namespace heddle::distributed {
namespace {

int number_in(const char* name) {
  const std::string text = os::variable(name).value_or("");
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value > 0 ? value : 0;
}

}  // namespace

std::string Launch::str() const {
  if (kind == Kind::none) return "no launcher started this process";
  const char* const who = kind == Kind::pmix ? "a PMIx launcher" : "mpirun";
  return ranks == 0 ? fmt::format("{} started this process", who)
                    : fmt::format("{} started {} rank{}", who, ranks, ranks == 1 ? "" : "s");
}

Launch launch_of_process() {
  if (const int ranks = number_in("OMPI_COMM_WORLD_SIZE")) return {Launch::Kind::open_mpi, ranks};
  if (const int ranks = number_in("PMI_SIZE")) return {Launch::Kind::mpich, ranks};
  if (os::variable("PMIX_RANK")) return {Launch::Kind::pmix, 0};
  return {};
}

}  // namespace heddle::distributed
