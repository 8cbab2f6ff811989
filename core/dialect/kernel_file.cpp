#include "heddle/core/dialect/kernel_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "heddle/core/base/ascii.h"
#include "heddle/core/base/error.h"
#include "heddle/core/base/files.h"
#include "heddle/core/base/integers.h"
#include "heddle/core/base/path.h"
#include "heddle/core/base/similar.h"
#include "heddle/core/dialect/builtin_files.h"
#include "heddle/core/dialect/types.h"

namespace heddle {
namespace {

std::string hook_name(const KernelHook& hook) { return hook.signature.substr(0, hook.signature.find_first_of(" (")); }

template <class Rows, class Name>
std::string names_of(const Rows& rows, Name name) {
  std::vector<std::string> names;
  for (const auto& row : rows) names.push_back(name(row));
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

constexpr std::string_view extension = ".hk";
bool has_word(std::string_view text, std::string_view word) {
  const auto inside = [&](size_t at) { return at < text.size() && continues_name(text[at]); };
  for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    if ((at == 0 || !inside(at - 1)) && !inside(at + word.size())) return true;
  }
  return false;
}

constexpr std::string_view part_extension = ".hki";

std::string read_file(const std::string& path) {
  std::string text;
  if (!read_contents(path, text)) throw IoError(fmt::format("[kernel] cannot read {}: {}", path, std::strerror(errno)));
  return text;
}

}  // namespace

const KernelFile& KernelFile::builtin(std::string_view name) {
  static std::mutex mutex;
  static std::map<std::string, KernelFile, std::less<>> parsed;
  const std::lock_guard lock(mutex);
  if (const auto found = parsed.find(name); found != parsed.end()) return found->second;
  for (const auto& file : builtin_files()) {
    if (file.name == fmt::format("{}{}", name, extension)) {
      return parsed.emplace(std::string(name), parse(file.text, fmt::format("shaders/{}", file.name))).first->second;
    }
  }
  throw ValueError(fmt::format("[kernel] no built-in kernel '{}'; known: {}", name, fmt::join(builtin_names(), ", ")));
}

std::vector<std::string> KernelFile::builtin_names() {
  std::vector<std::string> names;
  for (const auto& file : builtin_files()) {
    if (file.name.ends_with(extension)) names.emplace_back(file.name.substr(0, file.name.size() - extension.size()));
  }
  std::sort(names.begin(), names.end());
  return names;
}

KernelFile::Part KernelFile::builtin_part(std::string_view name) {
  std::vector<std::string_view> known;
  for (const auto& file : builtin_files()) {
    if (!file.name.ends_with(part_extension)) continue;
    if (file.name == name) return {fmt::format("shaders/{}", name), std::string(file.text)};
    known.push_back(file.name);
  }
  throw ValueError(
      fmt::format("no part '{}'{}; built in: {}", name, did_you_mean(name, known), fmt::join(known, ", ")));
}

KernelFile KernelFile::load(const std::string& path) {
  const auto part = [&](std::string_view name) -> Part {
    const auto beside = fs::path(path).parent_path() / name;
    std::error_code error;
    if (fs::is_regular_file(beside, error)) return {beside.string(), read_file(beside.string())};
    return builtin_part(name);
  };
  return parse(read_file(path), path, part);
}

const std::vector<DType>& KernelFile::dtypes_of(std::string_view type) const {
  const auto found = type_choices_.find(type);
  if (found == type_choices_.end()) throw ValueError(fmt::format("[kernel {}] no type parameter '{}'", name, type));
  return found->second;
}

int64_t KernelFile::evaluate(const Expression& e, const Bindings& values) {
  return evaluate_expression(e.text, values, e.where);
}

bool KernelFile::taken(const std::string& when, const std::string& when_where, const Bindings& values) {
  return when.empty() || evaluate_expression(when, values, when_where) != 0;
}

std::string KernelFile::text_of(const std::vector<Code>& code, const Bindings& values) {
  std::string text;
  for (const auto& c : code) {
    if (taken(c.when, c.when_where, values)) text += c.text;
  }
  return text;
}

Bindings KernelFile::tunable_values(const Bindings& overrides) const {
  Bindings values;
  for (const auto& t : tunables) values[t.name] = t.value;
  for (const auto& [given, value] : overrides) {
    const std::string& key = given;  // Clang 14 captures no structured binding
    const auto found = std::find_if(tunables.begin(), tunables.end(), [&](const auto& t) { return t.name == key; });
    if (found == tunables.end()) {
      throw ValueError(fmt::format("[kernel {}] no tunable '{}'; known: {}", name, key,
                                   names_of(tunables, [](const auto& t) { return t.name; })));
    }
    if (!found->any && std::find(found->choices.begin(), found->choices.end(), value) == found->choices.end()) {
      throw ValueError(fmt::format("[kernel {}] {} = {} is none of its choices {}", name, key, value,
                                   fmt::join(found->choices, ", ")));
    }
    values[key] = value;
  }
  for (const auto& [key, e] : values_) {
    if (taken(e.when, e.when_where, values)) values[key] = evaluate(e, values);
  }
  for (const auto& r : requires_) {
    if (taken(r.condition.when, r.condition.when_where, values) && evaluate(r.condition, values) == 0) {
      throw ValueError(fmt::format("[kernel {}] {}; tunables: {}", name, r.message, names_of(values, [](const auto& v) {
                                     return fmt::format("{}={}", v.first, v.second);
                                   })));
    }
  }
  return values;
}

std::string KernelFile::refusal(const Bindings& overrides) const {
  try {
    tunable_values(overrides);
    return "";
  } catch (const UserError& error) {
    return error.what();
  }
}

bool KernelFile::matters(std::string_view tunable, const Bindings& overrides) const {
  const Bindings values = tunable_values(overrides);
  const auto mentions = [&](const Expression& e) {
    return taken(e.when, e.when_where, values) && has_word(e.text, tunable);
  };
  const auto any = [&](const std::vector<Sizes>& all) {
    return std::any_of(all.begin(), all.end(),
                       [&](const Sizes& sizes) { return std::any_of(sizes.begin(), sizes.end(), mentions); });
  };
  return has_word(text_of(body, values), tunable) || has_word(text_of(helpers, values), tunable) || any(group_) ||
         any(grid_) || std::any_of(values_.begin(), values_.end(), [&](const auto& v) { return mentions(v.second); }) ||
         std::any_of(shared_.begin(), shared_.end(), [&](const SharedDecl& s) { return mentions(s.count); });
}

std::map<std::string, DType, std::less<>> KernelFile::chosen_types(const Options& options) const {
  std::map<std::string, DType, std::less<>> chosen;
  for (const auto& [type, choices] : type_choices_) chosen[type] = choices.front();
  for (const auto& [type, dtype] : options.types) {
    if (!chosen.contains(type)) {
      throw ValueError(fmt::format("[kernel {}] no type parameter '{}'; known: {}", name, type,
                                   names_of(types, [](const auto& t) { return t; })));
    }
    const auto& choices = dtypes_of(type);
    if (std::find(choices.begin(), choices.end(), dtype) == choices.end()) {
      throw DTypeError(fmt::format("[kernel {}] {} = {} is none of {}", name, type, name_of(dtype),
                                   names_of(choices, [](DType t) { return std::string(name_of(t)); })));
    }
    chosen[type] = dtype;
  }
  return chosen;
}

void KernelFile::add_signature(const Options& options, const std::map<std::string, DType, std::less<>>& chosen,
                               KernelSource& source) const {
  for (const auto& dropped : options.dropped_buffers) {
    if (std::none_of(buffers.begin(), buffers.end(), [&](const auto& b) { return b.name == dropped; })) {
      throw ValueError(fmt::format("[kernel {}] no buffer '{}' to drop; known: {}", name, dropped,
                                   names_of(buffers, [](const auto& b) { return b.name; })));
    }
  }
  for (const auto& b : buffers) {
    if (std::find(options.dropped_buffers.begin(), options.dropped_buffers.end(), b.name) !=
        options.dropped_buffers.end())
      continue;
    const auto type = chosen.find(b.dtype);
    source.buffers.push_back({b.name, type == chosen.end() ? parse_dtype(b.dtype) : type->second, b.access, false});
  }
  source.buffers.insert(source.buffers.end(), options.extra_buffers.begin(), options.extra_buffers.end());
  source.constants = constants;
  source.constants.insert(source.constants.end(), options.extra_constants.begin(), options.extra_constants.end());
  if (source.constants.size() > KernelSource::max_constants) {
    throw LimitError(fmt::format("[kernel {}] {} constants, of which hooks added {}; at most {} fit", name,
                                 source.constants.size(), options.extra_constants.size(), KernelSource::max_constants));
  }
}

void KernelFile::add_defines(const Options& options, const std::map<std::string, DType, std::less<>>& chosen,
                             const Bindings& values, KernelSource& source) const {
  for (const auto& [type, dtype] : chosen) {
    source.defines.emplace_back(type, dialect_type(dtype));
    source.defines.emplace_back(fmt::format("{}_{}", type, name_of(dtype)), "1");
  }
  for (const auto& [key, value] : values) source.defines.emplace_back(key, std::to_string(value));
  for (const auto& [given_name, text] : options.hooks) {
    const std::string& key = given_name;
    if (std::none_of(hooks.begin(), hooks.end(), [&](const auto& h) { return hook_name(h) == key; })) {
      throw ValueError(fmt::format("[kernel {}] no hook '{}'; known: {}", name, key, names_of(hooks, hook_name)));
    }
  }
  for (const auto& hook : hooks) {
    const auto given = options.hooks.find(hook_name(hook));
    source.defines.emplace_back(hook_name(hook) + "_GIVEN", given == options.hooks.end() ? "0" : "1");
    source.defines.emplace_back(hook.signature, given == options.hooks.end() ? hook.fallback : given->second);
  }
}

KernelSource KernelFile::instantiate(const Options& options) const {
  const Bindings values = tunable_values(options.tunables);
  const auto chosen = chosen_types(options);
  KernelSource source;
  source.name = name;
  add_signature(options, chosen, source);
  add_defines(options, chosen, values, source);
  for (const auto& s : shared_) {
    if (!taken(s.count.when, s.count.when_where, values)) continue;
    const int64_t count = evaluate(s.count, values);
    if (count < 0 || count > (int64_t{1} << 20)) {
      throw UserError(fmt::format("{}: shared array '{}' of {} elements", s.count.where, s.name, count));
    }
    if (count > 0) source.shared.push_back({s.name, s.type, static_cast<uint32_t>(count)});
  }
  for (const auto& sizes : group_) {
    if (!taken(sizes[0].when, sizes[0].when_where, values)) continue;
    for (size_t d = 0; d < 3; ++d) {
      const int64_t lanes = evaluate(sizes[d], values);
      if (lanes < 1 || lanes > 1024)
        throw UserError(fmt::format("{}: a group of {} lanes in dimension {}", sizes[d].where, lanes, d));
      source.group[d] = static_cast<uint32_t>(lanes);
    }
  }
  source.helpers = text_of(helpers, values);
  source.body = text_of(body, values);
  source.origin = origin;
  source.first_line = first_line;
  return source;
}

std::array<int64_t, 2> KernelFile::bounds(std::string_view buffer, const Bindings& overrides,
                                          const Bindings& constant_values) const {
  const auto found = bounds_.find(buffer);
  if (found == bounds_.end()) return {0, 0};
  Bindings values = tunable_values(overrides);
  for (const auto& [key, value] : constant_values) values[key] = value;
  return {evaluate(found->second[0], values), evaluate(found->second[1], values)};
}

std::array<uint32_t, 3> KernelFile::groups(const Bindings& overrides, const Bindings& constant_values) const {
  Bindings values = tunable_values(overrides);
  for (const auto& [key, value] : constant_values) values[key] = value;
  std::array<uint32_t, 3> result{1, 1, 1};
  const Sizes* grid = nullptr;
  bool linear = false;
  for (size_t i = 0; i < grid_.size(); ++i) {
    if (!taken(grid_[i][0].when, grid_[i][0].when_where, values)) continue;
    grid = &grid_[i];
    linear = linear_grid_[i];
  }
  for (size_t d = 0; grid != nullptr && d < 3; ++d) {
    const Expression& e = (*grid)[d];
    const int64_t count = evaluate(e, values);
    if (count < 0) throw UserError(fmt::format("{}: a grid of {} groups in dimension {}", e.where, count, d));
    // Every device takes 65535 groups in each dimension.
    constexpr int64_t limit = 65535;
    if (linear && d == 0 && count > limit) {
      const int64_t rows = count / limit + (count % limit != 0);
      if (rows > limit)
        throw LimitError(fmt::format("[kernel {}] {} groups; at most 65535 x 65535 fit a grid", name, count));
      return {static_cast<uint32_t>(ceil_div(count, rows)), static_cast<uint32_t>(rows), 1};
    }
    if (count > UINT32_MAX) throw LimitError(fmt::format("[kernel {}] {} groups in dimension {}", name, count, d));
    result[d] = static_cast<uint32_t>(count);
  }
  return result;
}

}  // namespace heddle
