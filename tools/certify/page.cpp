// docs/certificates.md.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "tools/certify/cases.h"
#include "tools/certify/certificate.h"

namespace heddle::tools::certify {
namespace {

bool of_recipe(const Certificate& c) {
  return std::any_of(all_cases().begin(), all_cases().end(),
                     [&](const Case& known) { return known.recipe && known.subject == c.subject; });
}

std::string head(const std::vector<std::string>& compilers) {
  std::string text =
      "# Certificates\n\n"
      "What the vendors' compilers make of the kernels that ship, on a machine without those GPUs; printed by\n"
      "`tools/certify.sh` (`heddle certify --markdown`). Each body is planned for a card of its family with the tiles "
      "that\n`core/tiles` chooses for it, and each recipe as one training step. Columns: registers of a lane (Intel: "
      "of "
      "a\nthread), bytes spilled to memory, bytes of shared memory, occupancy (subgroups that a compute unit holds of "
      "the most\nthat it could), the hot loop (the loop with most multiply-adds) as multiply-adds of instructions, "
      "their "
      "share, and the\nfraction of peak that a static model predicts with what limits it (`tools/certify/model.h`; "
      "not measured on a device).\n\n";
  for (const std::string& one : compilers) text += fmt::format("- {}\n", one);
  return text + "\n";
}

std::string summary_table(const std::vector<Certificate>& rows) {
  std::vector<std::string> archs;
  for (const Certificate& c : rows) {
    if (std::find(archs.begin(), archs.end(), c.arch) == archs.end()) archs.push_back(c.arch);
  }
  std::string text =
      "## Families\n\n| architecture | card | kernels | do not compile | spill |\n|---|---|---|---|---|\n";
  for (const std::string& arch : archs) {
    std::vector<Certificate> of_arch;
    std::copy_if(rows.begin(), rows.end(), std::back_inserter(of_arch),
                 [&](const Certificate& c) { return c.arch == arch; });
    const auto family =
        std::find_if(gpu_families().begin(), gpu_families().end(), [&](const GpuFamily& f) { return f.arch == arch; });
    const Summary s = summary_of(of_arch);
    text += fmt::format("| {} | {} | {} | {} | {} |\n", arch, family->card, s.kernels, s.failed, s.spilling);
  }
  std::vector<std::string> missing;
  for (const GpuFamily& family : gpu_families()) {
    if (std::find(archs.begin(), archs.end(), family.arch) == archs.end()) missing.push_back(family.arch);
  }
  if (!missing.empty()) text += fmt::format("\nNot compiled for here: {}.\n", fmt::join(missing, ", "));
  return text + "\n";
}

std::string faults(const std::vector<Certificate>& rows) {
  std::string text = "## What does not compile, or spills\n\n";
  const size_t before = text.size();
  for (const Certificate& c : rows) {
    if (c.failure.empty() && c.spill_bytes == 0) continue;
    if (text.size() == before) text += "| architecture | kernel | case | |\n|---|---|---|---|\n";
    text += fmt::format("| {} | {} | {}: {} | {} |\n", c.arch, c.kernel, c.subject, c.kase,
                        c.failure.empty() ? fmt::format("{} bytes spilled", c.spill_bytes) : one_line(c.failure));
  }
  return (text.size() == before ? text + "Nothing.\n" : text) + "\n";
}

std::string row(const Certificate& c) {
  std::string text = fmt::format("| {} | {} | {} | {} | {} | {} | {:.2f} |", c.kernel, c.kase, c.arch, c.registers,
                                 c.spill_bytes, c.shared_bytes, c.occupancy);
  text += c.hot_loop_math > 0 ? fmt::format(" {} of {} | {:.2f} |", c.hot_loop_math, c.hot_loop_instructions, c.density)
                              : std::string(" | |");
  return text + (c.predicted ? fmt::format(" {:.2f} {} |\n", *c.predicted, c.limit) : " |\n");
}

// Bodies one by one; of recipes only the sums, since a page of thousands of rows is read by nobody.
std::string body_tables(const std::vector<Certificate>& rows) {
  std::string text = "## Bodies\n";
  std::string subject;
  for (const Case& known : all_cases()) {
    if (known.recipe || known.subject == subject) continue;
    subject = known.subject;
    const std::string title = fmt::format("\n### {}\n\n", subject);
    if (text.find(title) != std::string::npos) continue;
    text += title +
            "| kernel | case | architecture | registers | spill | shared | occupancy | hot loop | density | predicted "
            "|\n|---|---|---|---|---|---|---|---|---|---|\n";
    for (const Certificate& c : rows) {
      if (c.subject == subject && c.failure.empty()) text += row(c);
    }
  }
  return text + "\n";
}

std::string recipe_table(const std::vector<Certificate>& rows) {
  std::map<std::pair<std::string, std::string>, std::vector<Certificate>> steps;
  for (const Certificate& c : rows) {
    if (of_recipe(c)) steps[{c.subject, c.arch}].push_back(c);
  }
  std::string text =
      "## Recipes\n\nKernels of a training step that no recipe before it had already.\n\n| recipe | "
      "architecture "
      "| kernels | do not compile | spill |\n|---|---|---|---|---|\n";
  for (const auto& [which, of_step] : steps) {
    const Summary s = summary_of(of_step);
    text += fmt::format("| {} | {} | {} | {} | {} |\n", which.first, which.second, s.kernels, s.failed, s.spilling);
  }
  return text;
}

}  // namespace

std::string page(const Certificates& all) {
  return head(all.compilers) + summary_table(all.rows) + faults(all.rows) + body_tables(all.rows) +
         recipe_table(all.rows);
}

}  // namespace heddle::tools::certify
