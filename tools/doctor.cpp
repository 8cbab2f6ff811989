// heddle doctor
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>

#include "heddle/core/base/error.h"
#include "heddle/core/base/path.h"
#include "heddle/io/atomic_file.h"
#include "tools/cli.h"
#include "tools/doctor_run.h"
#include "tools/interrupt.h"
#include "tools/output.h"

namespace heddle::tools {
namespace {

struct DoctorOptions {
  DoctorRequest request;
  std::string report;
  bool json = false, worker = false;
};

Json json_of(const Diagnosis& d) {
  Json parts = Json::array(), findings = Json::array(), figures = Json::array(), lacking = Json::object();
  for (const PartCount& p : d.parts)
    parts.push_back({{"part", p.part}, {"passed", p.passed}, {"lacking", p.lacking}, {"bad", p.bad}, {"left", p.left}});
  for (const Finding& f : d.findings)
    findings.push_back({{"part", f.part}, {"check", f.name}, {"status", f.status}, {"what", f.what}});
  for (const Figure& f : d.figures)
    figures.push_back({{"case", f.name}, {"value", f.value}, {"unit", f.unit}, {"of_bound", f.of_bound}});
  for (const auto& [what, number] : d.lacking) lacking[what] = number;
  return {{"device", d.device},
          {"healthy", d.findings.empty()},
          {"seconds", d.seconds},
          {"parts", std::move(parts)},
          {"findings", std::move(findings)},
          {"lacking", std::move(lacking)},
          {"figures", std::move(figures)},
          {"environment", d.environment}};
}

std::string text_of(const PartCount& p) {
  std::vector<std::string> words;
  if (p.bad > 0) words.push_back(fmt::format("{} BAD", p.bad));
  words.push_back(fmt::format("{} passed", p.passed));
  if (p.lacking > 0) words.push_back(fmt::format("{} need what the device lacks", p.lacking));
  if (p.left > 0) words.push_back(fmt::format("{} not run", p.left));
  return fmt::format("  {:<10} {}\n", p.part, fmt::join(words, ", "));
}

void print_text(const Diagnosis& d) {
  const Json& device = d.environment.at("device");
  std::string text = fmt::format("{}: {}, {}\n", d.device, device.at("name").get<std::string>(),
                                 device.at("driver").get<std::string>());
  for (const PartCount& p : d.parts) text += text_of(p);
  for (const Figure& f : d.figures)
    text += fmt::format("  {} f32: {:.3g} {}{}\n", f.name, f.value, f.unit,
                        f.of_bound > 0 ? fmt::format(", {:.2f} of the measured peak", f.of_bound) : "");
  for (const auto& [what, number] : d.lacking) text += fmt::format("  lacking: {} ({} checks)\n", what, number);
  for (const Finding& f : d.findings) text += fmt::format("  {}: {}: {}: {}\n", f.status, f.part, f.name, f.what);
  print_out(text);
}

std::string verdict(const Diagnosis& d) {
  const bool left = std::any_of(d.parts.begin(), d.parts.end(), [](const PartCount& p) { return p.left > 0; });
  const std::string rest = left ? "; --seconds 0 runs every check" : "";
  if (d.interrupted) return fmt::format("{}: interrupted", d.device);
  if (d.gave_up) return fmt::format("{}: given up, the device ends the processes that use it", d.device);
  if (d.findings.empty()) return fmt::format("{} computes what it should, as far as was checked{}", d.device, rest);
  return fmt::format("{}: {} of the checks found a fault{}", d.device, d.findings.size(), rest);
}

// "heddle-doctor-vulkan-0.json", where the user gave no other name.
std::string report_path(const DoctorOptions& o, const std::string& device) {
  if (!o.report.empty()) return o.report;
  std::string name = device;
  std::replace(name.begin(), name.end(), ':', '-');
  return fmt::format("heddle-doctor-{}.json", name);
}

void check_options(const DoctorOptions& o) {
  if (!(o.request.seconds >= 0)) throw ValueError("[doctor] --seconds is below 0");
  if (!(o.request.limit > 0)) throw ValueError("[doctor] --limit is not above 0");
  if (o.report == "none") return;
  const std::string folder = fs::path(o.report).parent_path().string();
  require_writable_folder(folder.empty() ? "." : folder);
}

int examine(const DoctorOptions& o) {
  check_options(o);
  const Diagnosis d = diagnose(o.request);
  if (d.device.empty()) return InterruptScope::exit_code();
  const Json json = json_of(d);
  const std::string path = o.report == "none" ? "" : report_path(o, d.device);
  if (!path.empty()) write_file_atomically(path, json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  if (o.json) {
    print_json(json);
  } else {
    print_text(d);
    print_out(fmt::format("{}{}\n", verdict(d), path.empty() ? "" : fmt::format("; report: {}", path)));
  }
  if (d.interrupted) return InterruptScope::exit_code();
  return d.findings.empty() ? 0 : exit_internal_error;
}

}  // namespace

void add_doctor(Cli& cli) {
  CLI::App* command = cli.app.add_subcommand(
      "doctor", "Check what a device computes, and how fast: for a card or driver that is new to Heddle");
  auto options = std::make_shared<DoctorOptions>();
  DoctorOptions& o = *options;
  add_device_option(*command, o.request.device);
  command
      ->add_option("--only", o.request.only,
                   "Parts (memory, training, figures, functions) or functions (tanh), separated by commas")
      ->delimiter(',');
  command->add_option("--seconds", o.request.seconds, "No further check begins after that; 0: all are run")
      ->capture_default_str();
  command->add_option("--limit", o.request.limit, "Seconds after which a check counts as hung")->capture_default_str();
  command->add_option("--report", o.report,
                      "File for the findings, to attach to an issue; none: no file; default: "
                      "heddle-doctor-DEVICE.json here");
  command->add_flag("--worker", o.worker)->group("");
  add_json_option(*command, o.json);
  command->footer(
      "Values are compared with the reference device's, in a process of their own: a driver that crashes or hangs is a "
      "finding.\nExit code 1: something is wrong.\nExample:\n  heddle doctor --device vulkan:0");
  command->callback([options, &cli] {
    if (options->worker) return run_doctor_worker(options->request.device);
    options->request.silent = options->json;
    cli.exit_code = examine(*options);
  });
}

}  // namespace heddle::tools
