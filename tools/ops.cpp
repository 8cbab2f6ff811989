// heddle ops: the op table as it is.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "autograd/autograd.h"
#include "core/device/registry.h"
#include "core/graph/op.h"
#include "tools/cli.h"

namespace heddle::tools {
namespace {

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

std::vector<std::string> dtypes_of(const OpDef& row) {
  std::vector<std::string> names;
  for (int i = 0; i < dtype_count; ++i) {
    if (takes(row, static_cast<DType>(i))) names.emplace_back(name_of(static_cast<DType>(i)));
  }
  return names;
}

// Every device that computes runs every row: a backend never sees an op's name.
std::vector<std::string> computing_devices() {
  std::vector<std::string> ids;
  for (const DeviceInfo& d : Registry::instance().devices()) {
    if (d.available && d.caps.device_class != DeviceClass::null) ids.push_back(d.id);
  }
  return ids;
}

void show_json() {
  const std::vector<std::string> devices = computing_devices();
  Json rows = Json::array();
  for (const OpDef* row : all_ops()) {
    const std::string gradient = gradient_status(*row);
    rows.push_back({{"name", row->name},
                    {"kind", name_of(row->kind)},
                    {"dtypes", dtypes_of(*row)},
                    {"gradient", gradient == "yes" ? Json(true) : Json(gradient)},
                    {"devices", devices}});
  }
  print_json(rows);
}

void show_text() {
  for (const OpDef* row : all_ops()) {
    fmt::print("{:<16} {:<12} {}\n{:<30}dtypes {}; gradient: {}\n", row->name, name_of(row->kind), row->doc, "",
               fmt::join(dtypes_of(*row), " "), gradient_status(*row));
  }
  fmt::print("{} ops; each runs on {}\n", all_ops().size(), fmt::join(computing_devices(), ", "));
}

}  // namespace

void add_ops(Cli& cli) {
  CLI::App* command = cli.app.add_subcommand("ops", "List the op table: kinds, dtypes, gradients, devices");
  auto json = std::make_shared<bool>(false);
  add_json_option(*command, *json);
  command->footer("Example:\n  heddle ops --json");
  command->callback([json] { *json ? show_json() : show_text(); });
}

}  // namespace heddle::tools
