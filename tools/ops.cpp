// heddle ops: the public functions (autograd/catalogue.h), or with --rows the op table that they are made of.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "heddle/autograd/autograd.h"
#include "heddle/autograd/catalogue.h"
#include "heddle/core/base/ascii.h"
#include "heddle/core/base/error.h"
#include "heddle/core/base/glob.h"
#include "heddle/core/device/registry.h"
#include "heddle/core/op/op.h"
#include "tools/cli.h"

namespace heddle::tools {
namespace {

using Functions = std::vector<const PublicFunction*>;

// Every device that computes runs every row, and so every function: a backend never sees an op's name.
std::vector<std::string> computing_devices() {
  std::vector<std::string> ids;
  for (const DeviceInfo& d : Registry::instance().devices()) {
    if (d.available && d.caps.device_class != DeviceClass::null) ids.push_back(d.id);
  }
  return ids;
}

std::vector<std::string_view> names_of(const std::vector<DType>& types) {
  std::vector<std::string_view> names;
  for (const DType t : types) names.push_back(name_of(t));
  return names;
}

// ---- which functions

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), ascii_lower);
  return result;
}

void check_name(const std::string& pattern) {
  const auto listed = catalogue();
  if (std::any_of(listed.begin(), listed.end(), [&](const PublicFunction& f) { return fits_pattern(f.name, pattern); }))
    return;
  const std::vector<std::string_view> near = similar_functions(pattern);
  throw ValueError(fmt::format(
      "[ops] no function is called '{}'{}", pattern,
      near.empty() ? "; `heddle ops` lists all" : fmt::format("; did you mean {}?", fmt::join(near, ", "))));
}

std::vector<std::string_view> families() {
  std::vector<std::string_view> result;
  for (const PublicFunction& f : catalogue()) {
    if (result.empty() || result.back() != f.family) result.push_back(f.family);
  }
  return result;
}

// The one family whose title contains that text, without regard to case.
std::string_view find_family(const std::string& text) {
  std::vector<std::string_view> found;
  for (const std::string_view title : families()) {
    if (lower(title) == lower(text)) return title;
    if (lower(title).find(lower(text)) != std::string::npos) found.push_back(title);
  }
  if (found.size() == 1) return found[0];
  throw ValueError(fmt::format("[ops] {} family is called '{}'; there are: {}", found.empty() ? "no" : "more than one",
                               text, fmt::join(found.empty() ? families() : found, ", ")));
}

Functions chosen(const std::vector<std::string>& patterns, const std::string& family) {
  for (const std::string& pattern : patterns) check_name(pattern);
  const std::string_view title = family.empty() ? "" : find_family(family);
  Functions result;
  for (const PublicFunction& f : catalogue()) {
    const bool named = patterns.empty() || std::any_of(patterns.begin(), patterns.end(),
                                                       [&](const std::string& p) { return fits_pattern(f.name, p); });
    if (named && (title.empty() || f.family == title)) result.push_back(&f);
  }
  return result;
}

// ---- one function in words

std::string gradient_of(const PublicFunction& f) {
  switch (f.derivative) {
    case Derivative::any_order:
      return fmt::format("any order: {}", fmt::join(f.inputs, ", "));
    case Derivative::zero:
      return "0: constant but for jumps";
    case Derivative::none:
      break;
  }
  return fmt::format("none: {}", f.why);
}

std::string transforms_of(const PublicFunction& f) {
  std::vector<std::string> parts;
  if (!f.no_vmap.empty()) parts.push_back(fmt::format("no vmap: {}", f.no_vmap));
  if (!f.no_jvp.empty()) parts.push_back(fmt::format("no jvp: {}", f.no_jvp));
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::string made_of(const PublicFunction& f) {
  return f.row == nullptr || f.row->name == f.name ? std::string(name_of(f.made))
                                                   : fmt::format("{} {}", name_of(f.made), f.row->name);
}

Json true_or(std::string_view why) { return why.empty() ? Json(true) : Json(why); }

Json json_of(const PublicFunction& f, const std::vector<std::string>& devices) {
  Json result{{"name", f.name}, {"family", f.family}, {"meaning", f.meaning}, {"made", name_of(f.made)}};
  result["row"] = f.row == nullptr ? Json(nullptr) : Json(f.row->name);
  result["gradient"] = f.derivative == Derivative::any_order
                           ? Json(true)
                           : Json(f.derivative == Derivative::zero ? "0: constant but for jumps" : f.why);
  result["differentiable"] = f.inputs;
  result["types"] = describe(f.types);
  result["dtypes"] = names_of(types_of(f.types));
  result["autocast"] = name_of(f.autocast);
  result["vmap"] = true_or(f.no_vmap);
  result["jvp"] = true_or(f.no_jvp);
  result["devices"] = devices;
  return result;
}

void show_json(const Functions& functions) {
  const std::vector<std::string> devices = computing_devices();
  Json list = Json::array();
  for (const PublicFunction* f : functions) list.push_back(json_of(*f, devices));
  print_json(list);
}

void show_text(const Functions& functions) {
  std::string_view family;
  for (const PublicFunction* f : functions) {
    if (f->family != family) fmt::print("{}{}\n", family.empty() ? "" : "\n", f->family);
    family = f->family;
    const std::string transforms = transforms_of(*f);
    fmt::print("  {:<28} {}\n{:<31}{}; dtypes: {}; autocast: {}; gradient: {}{}\n", f->name, f->meaning, "",
               made_of(*f), describe(f->types), name_of(f->autocast), gradient_of(*f),
               transforms.empty() ? "" : "; " + transforms);
  }
  fmt::print("\n{} functions; each runs on {}\n", functions.size(), fmt::join(computing_devices(), ", "));
}

// ---- docs/ops.md: the same on every machine

// A cell of a table.
std::string cell(std::string_view text) {
  std::string result;
  for (const char c : text) result += c == '|' ? "\\|" : c == '<' ? "&lt;" : c == '*' ? "\\*" : std::string(1, c);
  return result;
}

constexpr std::string_view preface = R"(# The public functions

Made by `heddle ops --markdown` from `autograd/catalogue.inc`; a test fails when this file is stale (`heddle ops
--markdown > docs/ops.md` mends it). Parameters, shapes and errors are documented in the headers, which
`core/functions/functions.h` includes. `heddle ops NAME` shows one function, `heddle ops --rows` the op table.

- **dtypes**: of values; indices are i32 or i64, masks bool. "floats" are f32, f16, bf16 and f64. `docs/types.md` has
  the promotion table. f64 and i64 need a device that has them.
- **autocast**: in which type values of f32, f16 and bf16 are taken within an `AutocastScope`: the scope's (low), f32,
  or the widest of those given. `docs/types.md` has the rules.
- **gradient**: of any order, in the parameters named. "0" is a gradient that is 0 where it exists. `docs/gradients.md`
  has the conventions at kinks.
- **transforms**: vmap and forward mode (jvp) take every function but for what this column says.
- **devices**: `all` are reference, opencl, vulkan and cuda. A function is a graph of rows of the op table, and a
  backend compiles kernels without knowing rows, so what is missing on one device is missing as a feature of the device
  (f64), never as a function. Proved, not only argued: the test group `reference` computes every function with stored
  cases on reference:0, opencl:0 and vulkan:0 and compares values and gradients with PyTorch's; functions without stored
  cases are named, with the test that runs them on all devices, in `tests/reference/catalogue_test.cpp`;
  `DeviceCounters::host_evaluations` stays 0 through all of them, so nothing is computed on the host in their place.
  CUDA's kernels are the same texts; they are compiled by NVRTC in CI, and run where a GPU is.
- *host-sized*: the shape of the result depends on values, so the call waits for one number (a count); the values
  themselves stay on the device.

)";

void show_markdown(const Functions& functions) {
  std::string text(preface);
  text += fmt::format("{} functions in {} families.\n", functions.size(), families().size());
  std::string_view family;
  for (const PublicFunction* f : functions) {
    if (f->family != family)
      text += fmt::format(
          "\n## {}\n\n| function | meaning | made of | dtypes | autocast | gradient | transforms | devices "
          "|\n|---|---|---|---|---|---|---|---|\n",
          f->family);
    family = f->family;
    const std::string transforms = transforms_of(*f);
    text += fmt::format("| `{}` | {} | {} | {} | {} | {} | {} | all |\n", f->name, cell(f->meaning), made_of(*f),
                        cell(describe(f->types)), name_of(f->autocast), cell(gradient_of(*f)),
                        transforms.empty() ? "yes" : cell(transforms));
  }
  fmt::print("{}", text);
}

// ---- the op table

// The element types a row takes, from its kind and rule.
bool takes(const OpDef& row, DType dtype) {
  switch (row.kind) {
    case OpKind::fused:
      return is_float(dtype);
    case OpKind::random:
      return dtype == DType::f32;
    case OpKind::reduce:
    case OpKind::contraction:
      return dtype != DType::boolean;
    case OpKind::elementwise:
      break;
    default:
      return true;
  }
  switch (row.rule) {
    case DTypeRule::floating:
    case DTypeRule::test:
      return is_float(dtype);
    case DTypeRule::numeric:
      return dtype != DType::boolean;
    case DTypeRule::whole:
      return dtype != DType::boolean && !is_float(dtype);
    case DTypeRule::logical:
      return dtype == DType::boolean;
    default:
      return true;
  }
}

std::vector<DType> dtypes_of(const OpDef& row) {
  std::vector<DType> types;
  for (int i = 0; i < dtype_count; ++i) {
    if (takes(row, static_cast<DType>(i))) types.push_back(static_cast<DType>(i));
  }
  return types;
}

void show_rows_json() {
  const std::vector<std::string> devices = computing_devices();
  Json rows = Json::array();
  for (const OpDef* row : all_ops()) {
    const std::string gradient = gradient_status(*row);
    rows.push_back({{"name", row->name},
                    {"kind", name_of(row->kind)},
                    {"dtypes", names_of(dtypes_of(*row))},
                    {"autocast", name_of(row->autocast)},
                    {"gradient", gradient == "yes" ? Json(true) : Json(gradient)},
                    {"devices", devices}});
  }
  print_json(rows);
}

void show_rows_text() {
  for (const OpDef* row : all_ops()) {
    fmt::print("{:<16} {:<12} {}\n{:<30}dtypes {}; autocast: {}; gradient: {}\n", row->name, name_of(row->kind),
               row->doc, "", fmt::join(names_of(dtypes_of(*row)), " "), name_of(row->autocast), gradient_status(*row));
  }
  fmt::print("{} rows; each runs on {}\n", all_ops().size(), fmt::join(computing_devices(), ", "));
}

struct OpsOptions {
  bool json = false, markdown = false, rows = false;
  std::string family;
  std::vector<std::string> names;
};

void show(const OpsOptions& options) {
  if (options.rows) return options.json ? show_rows_json() : show_rows_text();
  const Functions functions = chosen(options.names, options.family);
  if (options.json) return show_json(functions);
  options.markdown ? show_markdown(functions) : show_text(functions);
}

}  // namespace

void add_ops(Cli& cli) {
  CLI::App* command =
      cli.app.add_subcommand("ops", "List the public functions: meaning, dtypes, gradients, transforms, devices");
  auto options = std::make_shared<OpsOptions>();
  add_json_option(*command, options->json);
  auto* markdown = command->add_flag("--markdown", options->markdown, "Print docs/ops.md");
  auto* rows =
      command->add_flag("--rows", options->rows, "List the op table instead: the rows that functions are made of");
  auto* family = command->add_option("--family", options->family, "Only one family, by a part of its title");
  auto* names =
      command->add_option("names", options->names, "Only these functions; patterns as in a shell (*, ?, [a-z])");
  markdown->excludes("--json", rows, family, names);
  rows->excludes(family, names);
  command->footer("Example:\n  heddle ops --json\n  heddle ops softmax 'max_*'\n  heddle ops --family losses");
  command->callback([options] { show(*options); });
}

}  // namespace heddle::tools
