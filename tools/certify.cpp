// heddle certify
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>

#include "heddle/core/base/error.h"
#include "tools/certify/cases.h"
#include "tools/certify/certificate.h"
#include "tools/certify/compilers.h"
#include "tools/certify/family_device.h"
#include "tools/certify/radv_worker.h"
#include "tools/cli.h"
#include "tools/output.h"

namespace heddle::tools {
namespace {

using namespace certify;

struct CertifyOptions {
  std::vector<std::string> subjects, compilers, archs;
  std::string against, worker;
  bool json = false, markdown = false;
};

struct Present {
  Vendor vendor;
  std::unique_ptr<VendorCompiler> compiler;
};

// Those that are installed; a line on standard error for each of the others. ValueError where none is left.
std::vector<Present> present_compilers(const std::vector<Vendor>& vendors) {
  std::vector<Present> present;
  std::vector<std::string> missing;
  for (const Vendor vendor : vendors) {
    std::unique_ptr<VendorCompiler> compiler = vendor_compiler(vendor);
    if (const std::string absent = compiler->absent(); !absent.empty())
      missing.push_back(fmt::format("{}: {}", certify::name_of(vendor), absent));
    else
      present.push_back({vendor, std::move(compiler)});
  }
  std::vector<std::string_view> left;
  for (const Present& p : present) left.push_back(certify::name_of(p.vendor));
  if (left.empty())
    throw DeviceUnavailable(fmt::format("[certify] no compiler is installed; {}", fmt::join(missing, "; ")));
  for (const std::string& one : missing)
    say_failure("", fmt::format("[certify] left out {}; left: {}", one, fmt::join(left, ", ")).c_str());
  for (const Present& p : present) {
    if (const std::string lacks = p.compiler->incomplete(); !lacks.empty())
      say_failure("", fmt::format("[certify] {}: {}", certify::name_of(p.vendor), lacks).c_str());
  }
  return present;
}

// A body's kernels come from its file; those around them (copies, sums) are other subjects'.
bool belongs(const Case& c, const KernelSource& source) {
  return c.recipe || source.origin.find(fmt::format("/{}.hk", c.subject)) != std::string::npos ||
         source.name.find(c.subject) != std::string::npos;
}

// False for a dtype that such a device does not have.
bool run_case(const Case& c, DeviceContext& device) {
  try {
    c.run(device);
    return true;
  } catch (const DTypeError&) {
    take_kernels(device);
    return false;
  }
}

Certificate certified(VendorCompiler& compiler, const KernelSource& source, const GpuFamily& family) {
  try {
    return certificate_of(compiler.compile(source, family), family);
  } catch (const CompileError& error) {
    Certificate c;
    c.compiler = certify::name_of(family.vendor);
    c.arch = family.arch;
    c.failure = one_line(error.what());
    return c;
  }
}

class Run {
 public:
  Run(const CertifyOptions& options, std::vector<Present> present) : o_(options), present_(std::move(present)) {}

  void certify(const GpuFamily& family, const std::vector<const Case*>& cases) {
    DeviceContext& device = open_family(family);
    for (const Case* c : cases) {
      if (!run_case(*c, device)) continue;
      for (const KernelSource& source : take_kernels(device)) {
        if (belongs(*c, source)) add(*c, source, family);
      }
    }
  }

  const std::vector<Certificate>& rows() const { return rows_; }
  std::vector<std::string> versions() const {
    std::vector<std::string> lines;
    for (const Present& p : present_)
      lines.push_back(fmt::format("{} | {}", certify::name_of(p.vendor), p.compiler->version()));
    return lines;
  }

 private:
  void add(const Case& c, const KernelSource& source, const GpuFamily& family) {
    const auto compiler =
        std::find_if(present_.begin(), present_.end(), [&](const Present& p) { return p.vendor == family.vendor; });
    Certificate made = certified(*compiler->compiler, source, family);
    made.subject = c.subject;
    made.kase = c.name;
    const int number = ++numbers_[fmt::format("{}/{}/{}/{}", family.arch, c.subject, c.name, source.name)];
    made.kernel = number == 1 ? source.name : fmt::format("{} {}", source.name, number);
    if (o_.json && o_.against.empty())
      print_json(to_json(made));
    else if (!o_.markdown && o_.against.empty())
      print_out(to_text(made) + "\n");
    rows_.push_back(std::move(made));
  }

  const CertifyOptions& o_;
  std::vector<Present> present_;
  std::vector<Certificate> rows_;
  std::map<std::string, int> numbers_;
};

void print_summary(const CertifyOptions& o, const std::vector<Certificate>& rows) {
  const Summary s = summary_of(rows);
  if (o.json) return print_json({{"kernels", s.kernels}, {"failed", s.failed}, {"spilling", s.spilling}});
  fmt::print("{} kernels: {} do not compile, {} spill\n", s.kernels, s.failed, s.spilling);
}

void print_changes(const CertifyOptions& o, const std::vector<Certificate>& rows,
                   const std::vector<Certificate>& before) {
  const std::vector<Change> list = changes(before, rows);
  for (const Change& change : list) {
    if (o.json)
      print_json({{"row", change.row}, {"change", change.what}});
    else
      fmt::print("{}: {}\n", change.row, change.what);
  }
  if (list.empty() && !o.json) fmt::print("no change\n");
}

void run(const CertifyOptions& o) {
  const std::vector<const Case*> cases = find_cases(o.subjects);
  const std::vector<Vendor> wanted = parse_vendors(o.compilers);
  const std::vector<const GpuFamily*> families = find_families(wanted, o.archs);
  const std::vector<Certificate> before = o.against.empty() ? std::vector<Certificate>() : read_certificates(o.against);
  std::vector<Vendor> asked;  // with an architecture of theirs
  for (const Vendor vendor : wanted) {
    if (std::any_of(families.begin(), families.end(), [&](const GpuFamily* f) { return f->vendor == vendor; }))
      asked.push_back(vendor);
  }
  std::vector<Present> present = present_compilers(asked);
  std::vector<const GpuFamily*> left;
  for (const GpuFamily* family : families) {
    if (std::any_of(present.begin(), present.end(), [&](const Present& p) { return p.vendor == family->vendor; }))
      left.push_back(family);
  }
  Run work(o, std::move(present));
  for (const GpuFamily* family : left) work.certify(*family, cases);
  if (o.markdown) return print_out(page(work.rows(), work.versions()));
  if (!o.against.empty()) return print_changes(o, work.rows(), before);
  print_summary(o, work.rows());
}

}  // namespace

void add_certify(Cli& cli) {
  CLI::App* command = cli.app.add_subcommand(
      "certify", "Compile kernels with the GPU vendors' compilers, without a GPU: registers, spills, instructions");
  auto options = std::make_shared<CertifyOptions>();
  CertifyOptions& o = *options;
  command->add_option("subjects", o.subjects, "Bodies (matmul) and recipes (char-gpt); default: all");
  command->add_option("--compilers", o.compilers, "nvidia, amd, intel; default: those that are installed")
      ->delimiter(',');
  command->add_option("--arch", o.archs, "Of their architectures only these, e.g. sm_90,navi21,dg2")->delimiter(',');
  command->add_option("--against", o.against, "A file that --json wrote: print only what changed");
  command->add_flag("--markdown", o.markdown, "Print docs/certificates.md");
  command->add_option("--worker", o.worker)->group("");
  add_json_option(*command, o.json);
  command->footer(
      "Needs of NVIDIA NVRTC and nvdisasm, of AMD Mesa's RADV (on any machine), of Intel ocloc; see "
      "tools/certify.sh.\nExample:\n  heddle certify matmul attention --compilers amd --json > before.json\n  heddle "
      "certify matmul attention --compilers amd --against before.json");
  command->callback([options] {
    if (!options->worker.empty()) return run_radv_worker(options->worker);
    run(*options);
  });
}

}  // namespace heddle::tools
