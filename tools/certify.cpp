// heddle certify
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "heddle/core/base/error.h"
#include "heddle/core/base/print_error.h"
#ifdef HEDDLE_HAS_BENCH
#include "tools/certify/cases.h"
#include "tools/certify/certificate.h"
#include "tools/certify/compare.h"
#include "tools/certify/compilers.h"
#include "tools/certify/family_device.h"
#include "tools/certify/radv_worker.h"
#include "tools/certify/rank_correlation.h"
#endif
#include "tools/cli.h"
#include "tools/output.h"

namespace heddle::tools {
namespace {

struct CertifyOptions {
  std::vector<std::string> subjects, compilers, archs;
  std::string against, from, worker, measure;
  int64_t size = 2048, schedules = 30;
  bool json = false, markdown = false;
};

#ifdef HEDDLE_HAS_BENCH
using namespace certify;

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
    print_error("heddle: [certify] left out {}; left: {}\n", one, fmt::join(left, ", "));
  for (const Present& p : present) {
    if (const std::string lacks = p.compiler->incomplete(); !lacks.empty())
      print_error("heddle: [certify] {}: {}\n", certify::name_of(p.vendor), lacks);
  }
  return present;
}

// A body's kernels come from its file, whatever case they were met in; those around them (copies, sums) are no body's.
std::string body_of(const KernelSource& source) {
  for (const Case& known : all_cases()) {
    if (!known.recipe &&
        (source.origin.ends_with(fmt::format("/{}.hk", known.subject)) || source.name == known.subject))
      return known.subject;
  }
  return {};
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
  } catch (const DeviceError& error) {  // of the compiler, or of its disassembler: the others go on
    Certificate c;
    c.compiler = certify::name_of(family.vendor);
    c.arch = family.arch;
    c.failure = one_line(error.what());
    return c;
  }
}

bool printed_as_they_come(const CertifyOptions& o) { return o.against.empty() && !o.markdown; }

void print_row(const CertifyOptions& o, const Certificate& c) {
  o.json ? print_json(to_json(c)) : print_out(to_text(c) + "\n");
}

class Run {
 public:
  Run(const CertifyOptions& options, std::vector<Present> present) : o_(options), present_(std::move(present)) {}

  bool compiles(const GpuFamily& family) const {
    return std::any_of(present_.begin(), present_.end(), [&](const Present& p) { return p.vendor == family.vendor; });
  }

  void certify(const GpuFamily& family, const std::vector<const Case*>& cases) {
    std::set<std::string> asked;
    for (const Case* c : cases) asked.insert(c->subject);
    for (const Case* c : cases) {
      DeviceContext& device = open_family(family, c->recipe ? Subjects::recipes : Subjects::bodies);
      if (!run_case(*c, device)) continue;
      for (const KernelSource& source : take_kernels(device)) {
        const std::string subject = c->recipe ? c->subject : body_of(source);
        if (asked.contains(subject)) add(subject, c->name, source, family);
      }
    }
  }

  const std::vector<Certificate>& rows() const { return rows_; }
  std::vector<std::string> versions() const {
    std::vector<std::string> lines;
    for (const Present& p : present_)
      lines.push_back(fmt::format("{}: {}", certify::name_of(p.vendor), p.compiler->version()));
    return lines;
  }

 private:
  void add(const std::string& subject, const std::string& kase, const KernelSource& source, const GpuFamily& family) {
    const auto compiler =
        std::find_if(present_.begin(), present_.end(), [&](const Present& p) { return p.vendor == family.vendor; });
    Certificate made = certified(*compiler->compiler, source, family);
    made.subject = subject;
    made.kase = kase;
    const int number = ++numbers_[fmt::format("{}/{}/{}/{}", family.arch, subject, kase, source.name)];
    made.kernel = number == 1 ? source.name : fmt::format("{} {}", source.name, number);
    if (printed_as_they_come(o_)) print_row(o_, made);
    rows_.push_back(std::move(made));
  }

  const CertifyOptions& o_;
  std::vector<Present> present_;
  std::vector<Certificate> rows_;
  std::map<std::string, int> numbers_;
};

void print_summary(const CertifyOptions& o, const Certificates& all) {
  const Summary s = summary_of(all.rows);
  if (o.json)
    return print_json(
        {{"kernels", s.kernels}, {"failed", s.failed}, {"spilling", s.spilling}, {"compilers", all.compilers}});
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

// Of the vendors, those that an architecture was asked of.
std::vector<Vendor> vendors_of(const std::vector<const GpuFamily*>& families) {
  std::vector<Vendor> vendors;
  for (const GpuFamily* family : families) {
    if (std::find(vendors.begin(), vendors.end(), family->vendor) == vendors.end()) vendors.push_back(family->vendor);
  }
  return vendors;
}

Certificates compile_all(const CertifyOptions& o, const std::vector<const Case*>& cases,
                         const std::vector<const GpuFamily*>& families) {
  Run work(o, present_compilers(vendors_of(families)));
  for (const GpuFamily* family : families) {
    if (work.compiles(*family)) work.certify(*family, cases);
  }
  return {work.rows(), work.versions()};
}

// The rows of a file, as those of a run.
Certificates stored(const CertifyOptions& o, const std::vector<const Case*>& cases,
                    const std::vector<const GpuFamily*>& families) {
  Certificates all = read_certificates(o.from);
  std::erase_if(all.rows, [&](const Certificate& c) {
    return std::none_of(cases.begin(), cases.end(), [&](const Case* known) { return known->subject == c.subject; }) ||
           std::none_of(families.begin(), families.end(), [&](const GpuFamily* f) { return f->arch == c.arch; });
  });
  for (const Certificate& c : all.rows) {
    if (printed_as_they_come(o)) print_row(o, c);
  }
  return all;
}

void print_compared(const CertifyOptions& o, const Compared& c) {
  if (o.json)
    return print_json({{"schedule", c.schedule},
                       {"predicted", c.predicted},
                       {"seconds", c.seconds},
                       {"fraction", c.fraction},
                       {"spill_bytes", c.spill_bytes}});
  print_out(fmt::format("{:<44} predicted {:.3f}, measured {:.3f} of peak ({:.3g} ms)\n", c.schedule, c.predicted,
                        c.fraction, c.seconds * 1e3));
}

// The model beside a device: docs/design.md 5b.
void compare_with_device(const CertifyOptions& o) {
  if (o.size < 128 || o.size > 16384) throw ValueError(fmt::format("[certify] --size {}: 128 to 16384", o.size));
  if (o.archs.size() > 1) throw ValueError("[certify] --measure takes one --arch, the device's");
  DeviceContext& device = open_device(o.measure, true);
  const GpuFamily& family = family_of(device.caps(), o.archs.empty() ? "" : o.archs[0]);
  const std::vector<Present> present = present_compilers({family.vendor});
  if (const std::string lacks = present[0].compiler->incomplete(); !lacks.empty())
    throw DeviceUnavailable("[certify] the model counts instructions; " + lacks);
  std::vector<double> predicted, measured;
  for (const Bindings& tunables : compared_schedules(device.caps(), static_cast<size_t>(o.schedules))) {
    const Compared row = compare(*present[0].compiler, family, device, tunables, o.size);
    print_compared(o, row);
    predicted.push_back(row.predicted);
    measured.push_back(row.fraction);
  }
  const double correlation = rank_correlation(predicted, measured);
  if (o.json)
    return print_json({{"device", device.id()},
                       {"arch", family.arch},
                       {"schedules", predicted.size()},
                       {"rank_correlation", correlation}});
  fmt::print("rank correlation {:.2f} over {} schedules of matmul {}x{}x{} f32 on {} (model of {})\n", correlation,
             predicted.size(), o.size, o.size, o.size, device.id(), family.arch);
}

void run(const CertifyOptions& o) {
  if (!o.measure.empty()) return compare_with_device(o);
  const std::vector<const Case*> cases = find_cases(o.subjects);
  const std::vector<const GpuFamily*> families = find_families(parse_vendors(o.compilers), o.archs);
  const Certificates before = o.against.empty() ? Certificates() : read_certificates(o.against);
  const Certificates all = o.from.empty() ? compile_all(o, cases, families) : stored(o, cases, families);
  if (o.markdown) return print_out(page(all));
  o.against.empty() ? print_summary(o, all) : print_changes(o, all.rows, before.rows);
}
#else
void run(const CertifyOptions&) {
  throw ValueError("[certify] this build has no certificates; configure with -DHEDDLE_BENCH=ON");
}
#endif

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
  command->add_option("--from", o.from, "Rows of a file that --json wrote, instead of compiling");
  command->add_option("--measure", o.measure,
                      "A device, e.g. cuda:0: time 30 schedules of matmul there, beside what the model predicts");
  command->add_option("--schedules", o.schedules, "Of --measure: how many")
      ->check(CLI::Range(2, 100))
      ->capture_default_str();
  command->add_option("--size", o.size, "Of --measure: rows and columns of the matrices")->capture_default_str();
  command->add_flag("--markdown", o.markdown, "Print docs/certificates.md");
  command->add_option("--worker", o.worker)->group("");
  add_json_option(*command, o.json);
  command->footer(
      "Needs of NVIDIA NVRTC and nvdisasm, of AMD Mesa's RADV (on any machine), of Intel ocloc; see "
      "tools/certify.sh.\nExample:\n  heddle certify matmul attention --compilers amd --json > before.json\n  heddle "
      "certify matmul attention --compilers amd --against before.json");
  command->callback([options] {
#ifdef HEDDLE_HAS_BENCH
    if (!options->worker.empty()) return run_radv_worker(options->worker);
#endif
    run(*options);
  });
}

}  // namespace heddle::tools
