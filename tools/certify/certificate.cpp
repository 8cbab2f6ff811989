#include "tools/certify/certificate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <sstream>

#include "heddle/core/base/error.h"
#include "heddle/core/base/files.h"

namespace heddle::tools::certify {
namespace {

std::string key_of(const Certificate& c) { return fmt::format("{} ({}) on {}", c.kernel, c.kase, c.arch); }

double rounded(double value) { return std::round(value * 1000) / 1000; }

template <class T>
void compare(std::vector<std::string>& out, const char* name, const T& before, const T& now) {
  if (before != now) out.push_back(fmt::format("{} {} -> {}", name, before, now));
}

std::string difference(const Certificate& a, const Certificate& b) {
  std::vector<std::string> out;
  if (a.failure.empty() != b.failure.empty()) return b.failure.empty() ? "compiles again" : "fails: " + b.failure;
  compare(out, "registers", a.registers, b.registers);
  compare(out, "spill_bytes", a.spill_bytes, b.spill_bytes);
  compare(out, "shared_bytes", a.shared_bytes, b.shared_bytes);
  compare(out, "occupancy", rounded(a.occupancy), rounded(b.occupancy));
  // Without a disassembler there is nothing to compare.
  if (a.instructions && b.instructions) {
    compare(out, "instructions", *a.instructions, *b.instructions);
    compare(out, "hot_loop_instructions", a.hot_loop_instructions, b.hot_loop_instructions);
    compare(out, "hot_loop_math", a.hot_loop_math, b.hot_loop_math);
    compare(out, "density", rounded(a.density), rounded(b.density));
  }
  return fmt::format("{}", fmt::join(out, ", "));
}

}  // namespace

Certificate certificate_of(const Compiled& compiled, const GpuFamily& family) {
  Certificate c;
  c.compiler = name_of(family.vendor);
  c.arch = family.arch;
  c.registers = compiled.registers;
  c.spill_bytes = compiled.spill_bytes;
  c.shared_bytes = compiled.shared_bytes;
  c.occupancy = rounded(compiled.occupancy);
  if (compiled.code.empty()) return c;
  c.instructions = static_cast<int64_t>(compiled.code.size());
  if (const std::optional<HotLoop> loop = hot_loop(compiled.code)) {
    c.hot_loop_instructions = static_cast<int64_t>(loop->instructions.size());
    c.hot_loop_math = static_cast<int64_t>(loop->math);
    c.density = rounded(loop->density());
  }
  if (const std::optional<Prediction> p = predict(compiled, family)) {
    c.predicted = rounded(p->fraction);
    c.limit = name_of(p->limit);
  }
  return c;
}

Json to_json(const Certificate& c) {
  Json json{{"kernel", c.kernel}, {"case", c.kase}, {"compiler", c.compiler}, {"arch", c.arch}, {"subject", c.subject}};
  if (!c.failure.empty()) {
    json["failure"] = c.failure;
    return json;
  }
  json.update({{"registers", c.registers},
               {"spill_bytes", c.spill_bytes},
               {"shared_bytes", c.shared_bytes},
               {"occupancy", c.occupancy}});
  if (c.instructions) {
    json.update({{"instructions", *c.instructions},
                 {"hot_loop_instructions", c.hot_loop_instructions},
                 {"hot_loop_math", c.hot_loop_math},
                 {"density", c.density}});
  } else {
    for (const char* name : {"instructions", "hot_loop_instructions", "hot_loop_math", "density"}) json[name] = nullptr;
  }
  if (c.predicted) json.update({{"predicted", *c.predicted}, {"limit", c.limit}});
  return json;
}

Certificate certificate_from(const Json& json) {
  Certificate c;
  c.kernel = json.at("kernel");
  c.kase = json.at("case");
  c.compiler = json.at("compiler");
  c.arch = json.at("arch");
  c.subject = json.value("subject", "");
  c.failure = json.value("failure", "");
  if (!c.failure.empty()) return c;
  c.registers = json.at("registers");
  c.spill_bytes = json.at("spill_bytes");
  c.shared_bytes = json.at("shared_bytes");
  c.occupancy = json.at("occupancy");
  if (json.at("instructions").is_null()) return c;
  c.instructions = json.at("instructions").get<int64_t>();
  c.hot_loop_instructions = json.at("hot_loop_instructions");
  c.hot_loop_math = json.at("hot_loop_math");
  c.density = json.at("density");
  if (json.contains("predicted")) c.predicted = json.at("predicted").get<double>();
  c.limit = json.value("limit", "");
  return c;
}

std::string to_text(const Certificate& c) {
  if (!c.failure.empty()) return fmt::format("{:<10} {:<34} {}: FAILS: {}", c.arch, c.kernel, c.kase, c.failure);
  std::string text = fmt::format("{:<10} {:<34} {:<36} {:>3} registers, {} spilled, {:>6} shared, occupancy {:.2f}",
                                 c.arch, c.kernel, c.kase, c.registers, c.spill_bytes, c.shared_bytes, c.occupancy);
  if (c.instructions) text += fmt::format(", {} instructions", *c.instructions);
  if (c.hot_loop_math > 0)
    text += fmt::format(", hot loop {} of {}: {:.2f}", c.hot_loop_math, c.hot_loop_instructions, c.density);
  if (c.predicted) text += fmt::format(", {:.2f} of peak predicted ({})", *c.predicted, c.limit);
  return text;
}

Certificates read_certificates(const std::string& path) {
  std::string text;
  if (!read_contents(path, text))
    throw IoError(fmt::format("[certify] cannot read '{}': {}", path, std::strerror(errno)));
  std::istringstream file(text);
  Certificates all;
  std::map<std::string, size_t> places;
  size_t number = 0;
  try {
    for (std::string line; std::getline(file, line);) {
      ++number;
      if (line.empty()) continue;
      const Json json = Json::parse(line);
      if (json.contains("kernel")) {
        Certificate c = certificate_from(json);
        const auto [at, is_new] = places.try_emplace(c.subject + "/" + key_of(c), all.rows.size());
        if (is_new)
          all.rows.push_back(std::move(c));
        else
          all.rows[at->second] = std::move(c);
      } else {
        for (const std::string& one : json.at("compilers").get<std::vector<std::string>>()) {
          if (std::find(all.compilers.begin(), all.compilers.end(), one) == all.compilers.end())
            all.compilers.push_back(one);
        }
      }
    }
  } catch (const Json::exception& error) {
    throw IoError(fmt::format("[certify] '{}', line {}: no certificate: {}", path, number, error.what()));
  }
  if (all.rows.empty()) throw IoError(fmt::format("[certify] '{}' holds no certificates", path));
  return all;
}

std::vector<Change> changes(const std::vector<Certificate>& before, const std::vector<Certificate>& now) {
  std::map<std::string, const Certificate*> old;
  for (const Certificate& c : before) old.emplace(key_of(c), &c);
  std::set<std::string> archs, subjects, seen;
  std::vector<Change> list;
  for (const Certificate& c : now) {
    archs.insert(c.arch);
    subjects.insert(c.subject);
    seen.insert(key_of(c));
    const auto found = old.find(key_of(c));
    if (found == old.end()) {
      list.push_back({key_of(c), "new"});
    } else if (const std::string what = difference(*found->second, c); !what.empty()) {
      list.push_back({key_of(c), what});
    }
  }
  for (const Certificate& c : before) {
    if (archs.contains(c.arch) && subjects.contains(c.subject) && !seen.contains(key_of(c)))
      list.push_back({key_of(c), "gone"});
  }
  return list;
}

Summary summary_of(const std::vector<Certificate>& rows) {
  Summary summary;
  for (const Certificate& c : rows) {
    ++summary.kernels;
    if (!c.failure.empty()) ++summary.failed;
    if (c.spill_bytes > 0) ++summary.spilling;
  }
  return summary;
}

}  // namespace heddle::tools::certify
