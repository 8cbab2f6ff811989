#include "core/lower/emit.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>
#include <utility>

#include "core/base/error.h"
#include "core/base/parse_number.h"
#include "core/functions/user/user_definition.h"
#include "core/graph/excess_precision.h"
#include "core/ir/dynamic_sizes.h"
#include "core/lower/emit_text.h"
#include "core/op/primitives.h"

namespace heddle {

Emitter::Emitter(const ScheduledGraph& scheduled, const Group& group, size_t reserved_constants, bool joined)
    : scheduled_(scheduled),
      group_(group),
      constant_limit_(KernelSource::max_constants - reserved_constants),
      joined_(joined),
      varying_(!joined && group_varies(scheduled, group)),
      rounds_(!excess_precision()),
      moves_bits_(only_moves_halves()) {}

void Emitter::start_over() {
  every_path_ = false;
  learnt_.clear();
  for (size_t i = 0; i < buffers_.size(); ++i)
    learnt_.emplace_back(slots_[i], buffers_[i].may_alias ? Access::read_write : buffers_[i].access);
  streamed_.clear();
  staged_.clear();
  stream_index_.clear();
  split_ = {};
  text_.clear();
  scopes_.assign(1, Scope{});
  bound_.clear();
  buffers_.clear();
  slots_.clear();
  constant_params_.clear();
  constant_values_.clear();
  constants_.clear();
  coefficients_.clear();
  overflowed_ = false;
  next_ = 0;
}

// ---- indices

namespace {

// Not a short decimal, as people write: likely computed from sizes (a mean's 1 / n). Such a number is a constant of the
// launch, so that another size is not another kernel.
bool is_long_number(double value) {
  if (!std::isfinite(value)) return false;
  return static_cast<float>(parse_number<double>(fmt::format("{:.5g}", value)).value_or(0)) !=
         static_cast<float>(value);
}

std::string launch_number(std::vector<ConstParam>& params, std::vector<uint32_t>& values, float value, bool shared) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  for (size_t i = 0; i < params.size() && shared; ++i) {
    if (params[i].type == ConstParam::Type::f32 && values[i] == bits) return params[i].name;
  }
  params.push_back({fmt::format("t_f{}", params.size()), ConstParam::Type::f32});
  values.push_back(bits);
  return params.back().name;
}

}  // namespace

std::string Emitter::constant(int64_t value) {
  if (joined_) {  // a name for each place: two numbers that are equal in one joined row may differ in the next
    constant_values_.push_back(static_cast<uint32_t>(static_cast<int32_t>(value)));
    return fmt::format("t_c{}", constant_values_.size() - 1);
  }
  if (varying_) return named(value);
  if (value >= -1 && value <= 1) return value < 0 ? "(-1)" : std::to_string(value);
  if (const auto known = constants_.find(value); known != constants_.end()) return known->second;
  if (constant_params_.size() >= constant_limit_) return fmt::format("({})", value);
  const std::string name = fmt::format("t_c{}", constants_.size());
  constants_.emplace(value, name);
  constant_params_.push_back({name, ConstParam::Type::i32});
  constant_values_.push_back(static_cast<uint32_t>(static_cast<int32_t>(value)));
  return name;
}

// A constant of its own, whatever its value.
std::string Emitter::named(int64_t value) {
  if (constant_params_.size() >= constant_limit_) {
    overflowed_ = true;
    return fmt::format("({})", value);
  }
  constant_params_.push_back({fmt::format("t_number{}", constant_params_.size()), ConstParam::Type::i32});
  constant_values_.push_back(static_cast<uint32_t>(static_cast<int32_t>(value)));
  return constant_params_.back().name;
}

// Strides along one dimension are equal because shapes are, hardly ever by chance.
std::string Emitter::known_number(std::map<std::pair<int, int64_t>, std::string>& known, int variable, int64_t value) {
  const auto [entry, fresh] = known.try_emplace({variable, value});
  if (fresh) entry->second = named(value);
  return entry->second;
}

std::string Emitter::print(const Index& index) {
  printed_.push_back(index);
  std::string text;
  const auto add = [&](const std::string& term) { text += text.empty() ? term : " + " + term; };
  for (const auto& [variable, coefficient] : index.terms) {
    if (names[variable].empty()) continue;
    const auto factor = [&, v = variable, c = coefficient] {
      return varying_ ? known_number(coefficients_, v, c) : constant(c);
    };
    add(coefficient == 1 ? names[variable] : fmt::format("{} * {}", names[variable], factor()));
  }
  if (!index.opaque.empty()) add(index.opaque);
  if (index.constant != 0) add(varying_ ? known_number(coefficients_, -1, index.constant) : constant(index.constant));
  return text.empty() ? "0" : text;
}

std::string Emitter::local(const std::string& expression) {
  auto& known = scopes_.back().values;
  const std::string key = "index:" + expression;
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    if (const auto found = scope->values.find(key); found != scope->values.end()) return found->second;
  }
  const std::string name = fmt::format("t_i{}", next_++);
  line(fmt::format("int {} = {};", name, expression));
  known[key] = name;
  return name;
}

std::string Emitter::linear_index(const Shape& shape, int first) {
  const auto strides = row_major_strides(shape);
  Index linear;
  for (int d = 0; d < shape.rank(); ++d) {
    if (shape[d] != 1) linear.terms.push_back({first + d, strides[d]});
  }
  return print_element(linear);
}

std::string Emitter::print_element(const Index& index) {
  const int64_t step = split_.variable < 0 || !index.affine() ? 0 : index.coefficient(split_.variable);
  if (step == 0) return print(index);
  std::string& name = names[split_.variable];
  const std::string whole = std::exchange(name, split_.base);
  const std::string base = print(index);
  name = whole;
  const std::string lane = step == 1 ? split_.lane : fmt::format("{} * {}", split_.lane, constant(step));
  return fmt::format("CAST(INDEX, {}) + CAST(INDEX, {})", base, lane);
}

Index Emitter::address(const std::vector<Index>& index, const View& view) {
  Index linear = Index::literal(view.offset);
  std::string opaque;
  for (size_t d = 0; d < index.size(); ++d) {
    const int64_t stride = view.strides[d];
    if (view.shape[static_cast<int>(d)] == 1 || stride == 0) continue;
    Index affine = index[d];
    affine.opaque.clear();
    linear = affine_sum(linear, affine, stride);
    if (index[d].opaque.empty()) continue;
    if (!opaque.empty()) opaque += " + ";
    opaque += stride == 1 ? index[d].opaque : fmt::format("({}) * {}", index[d].opaque, constant(stride));
  }
  linear.opaque = opaque;
  return linear;
}

int Emitter::unit_stride_loads(int variable, int inner) const {
  return static_cast<int>(std::count_if(loads_.begin(), loads_.end(), [&](const LoadSite& site) {
    const Index& load = site.index;
    const bool varies = inner < 0 || std::any_of(load.terms.begin(), load.terms.end(),
                                                 [&](const auto& term) { return term.first >= inner; });
    return varies && load.coefficient(variable) == 1;
  }));
}

// ---- memory

SlotRef Emitter::location(int id) const {
  const IrNode& node = graph().nodes[id];
  if (node.leaf >= 0) {
    const LeafInfo& leaf = graph().leaves[node.leaf];
    return leaf.slot >= 0 ? SlotRef{SlotRef::Kind::input, leaf.slot} : SlotRef{SlotRef::Kind::host, 0};
  }
  if (const auto part = scheduled_.placed.find(id); part != scheduled_.placed.end()) return location(part->second.join);
  for (const OutputPlan& output : scheduled_.outputs) {
    if (output.base == id && output.assign_slot >= 0 && !output.copy_back)
      return {SlotRef::Kind::input, output.assign_slot};
  }
  return {SlotRef::Kind::vertex, id};
}

size_t Emitter::buffer(SlotRef slot, DType dtype, Access access) {
  for (size_t i = 0; i < buffers_.size(); ++i) {
    if (slots_[i] != slot || buffers_[i].dtype != dtype) continue;
    if (buffers_[i].access != access) buffers_[i].access = Access::read_write;
    return i;
  }
  bool shared = false;
  for (size_t i = 0; i < buffers_.size(); ++i) {
    if (slots_[i] == slot) shared = buffers_[i].may_alias = true;
  }
  buffers_.push_back({fmt::format("t_b{}", buffers_.size()), dtype, access, shared});
  slots_.push_back(slot);
  return buffers_.size() - 1;
}

std::string Emitter::load(int id, const Path& path) {
  const IrNode& node = graph().nodes[id];
  View view = View::dense(node.shape);
  if (node.leaf >= 0) {
    const LeafInfo& leaf = graph().leaves[node.leaf];
    view = leaf.view;
    if (leaf.host_slot >= 0) view.offset = 4 * leaf.host_slot;
  }
  const std::optional<View> whole = compose(graph(), path.ops, view);
  const Index at = whole ? address(path.base, *whole) : address(resolve(graph(), path, *this), view);
  loads_.push_back({at, location(id), node.dtype});
  for (const auto& [site, text] : staged_) {
    if (site == loads_.back()) return declare(node.dtype, text);
  }
  std::string index;
  const bool moves = node.leaf >= 0 && (node.varies & varies::offset) != 0;
  if (joined_ ||
      moves) {  // the offset has a name also where it is 0: in another joined row, or at another place, it may not be
    const std::string offset = constant(at.constant);
    Index rest = at;
    rest.constant = 0;
    index = fmt::format("{} + {}", print_element(rest), offset);
  } else {
    index = print_element(at);
  }
  const size_t b = buffer(location(id), node.dtype, Access::read);
  return declare(node.dtype, fmt::format("LOAD({}, {})", buffers_[b].name, based(b, index)));
}

bool Emitter::can_stream(int id) const {
  const DType dtype = graph().nodes[id].dtype;
  const SlotRef slot = location(id);
  return dtype != DType::boolean && !joined_ && !scheduled_.placed.contains(id) &&
         std::none_of(learnt_.begin(), learnt_.end(),
                      [&](const auto& use) { return use.first == slot && use.second != Access::write; });
}

bool Emitter::only_read(SlotRef slot) const {
  return std::none_of(learnt_.begin(), learnt_.end(),
                      [&](const auto& use) { return use.first == slot && use.second != Access::read; });
}

std::string Emitter::based(size_t buffer, const std::string& index) const {
  return joined_ ? fmt::format("t_o{} + {}", buffer, index) : index;
}

void Emitter::store(int id, const std::string& variable, const std::string& index) {
  const DType dtype = graph().nodes[id].dtype;
  const size_t b = buffer(location(id), dtype, Access::write);
  const std::string& name = buffers_[b].name;
  if (stream_index_.empty() || !can_stream(id)) {
    const auto part = scheduled_.placed.find(id);
    const std::string at =
        part == scheduled_.placed.end() ? index : fmt::format("{} + {}", index, constant(part->second.offset));
    return line(fmt::format("STORE({}, {}, {});", name, based(b, at), variable));
  }
  const auto known =
      std::find_if(streamed_.begin(), streamed_.end(), [&](const Streamed& s) { return s.buffer == name; });
  const std::string array = known != streamed_.end() ? known->array : fmt::format("t_line{}", streamed_.size());
  if (known == streamed_.end()) streamed_.push_back({name, array, std::string(type_of(dtype)), size_of(dtype)});
  line(fmt::format("{}[{}] = {};", array, stream_index_, variable));
}

// ---- values

std::string Emitter::declare(DType dtype, const std::string& expression) {
  const std::string name = fmt::format("t_v{}", next_++);
  line(fmt::format("{} {} = {};", type_of(dtype), name, expression));
  return name;
}

std::string Emitter::declare_precise(DType dtype, const std::string& expression) {
  const std::string name = fmt::format("t_v{}", next_++);
  line(fmt::format("PRECISE {} {} = {};", dialect_type(dtype), name, expression));
  return name;
}

// Two paths that read the same element have the same key where that can be told: the linear index they come to.
std::string Emitter::key(int id, const Path& path) {
  std::string text = fmt::format("{}:", id);
  const auto mark = [&](const Index& index) {
    text += fmt::format("({}", index.constant);
    for (const auto& [v, c] : index.terms) text += fmt::format("+{}*{}", c, v);
    text += index.opaque + ")";
  };
  const std::optional<View> view = compose(graph(), path.ops, View::dense(graph().nodes[id].shape));
  const bool affine = std::all_of(path.base.begin(), path.base.end(), [](const Index& i) { return i.affine(); });
  if (view && affine && !every_path_) {
    Index linear = Index::literal(view->offset);
    for (int d = 0; d < path.shape.rank(); ++d) {
      if (path.shape[d] != 1) linear = affine_sum(linear, path.base[d], view->strides[d]);
    }
    mark(linear);
    return text;
  }
  for (const Index& index : path.base) mark(index);
  for (int op : path.ops) text += fmt::format(",{}", op);
  return text;
}

std::string Emitter::value(int id, const Path& path) {
  const IrNode& node = graph().nodes[id];
  if (is_view_op(*node.op)) return value(node.inputs[0], path.through(id));
  if (const auto bound = bound_.find(id); bound != bound_.end()) return bound->second;
  const std::string k = key(id, path);
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    if (const auto found = scope->values.find(k); found != scope->values.end()) return found->second;
  }
  const std::string name = compute(id, path);
  scopes_.back().values[k] = name;
  return name;
}

std::string Emitter::member_value(const Member& member) {
  const IrNode& node = graph().nodes[member.node];
  if (const auto bound = bound_.find(member.node); bound != bound_.end()) return bound->second;
  Shape domain = group_.domain;
  if (member.level == Level::full) {
    for (int64_t d : group_.inner) domain.push_back(d);
  }
  return value(member.node, Path::over(node.shape, domain));
}

std::string Emitter::compute(int id, const Path& path) {
  const IrNode& node = graph().nodes[id];
  if (node.op->kind == OpKind::constant) return compute_constant(id, path);
  const bool here = group_.find(id) || std::binary_search(group_.inlined.begin(), group_.inlined.end(), id) ||
                    scheduled_.free_nodes[id];
  if (node.op->kind == OpKind::elementwise && here) return compute_elementwise(id, path);
  if (node.op == &ops::pad_op) return compute_pad(id, resolve(graph(), path, *this));
  if (node.op == &ops::concat_op) return compute_concat(id, resolve(graph(), path, *this));
  if (node.op->kind == OpKind::random) return compute_random(id, resolve(graph(), path, *this));
  if (node.op == &ops::take_op || node.op == &ops::gather_op) return compute_take(id, resolve(graph(), path, *this));
  return load(id, path);
}

std::string Emitter::compute_constant(int id, const Path& path) {
  const IrNode& node = graph().nodes[id];
  if (node.op == &ops::full_op) {
    const bool number_varies = varying_ && (node.varies & varies::numbers) != 0;
    const bool wanted = node.dtype == DType::f32 && (number_varies || (!joined_ && is_long_number(node.attrs.real)));
    if (number_varies && (node.dtype == DType::i32 || node.dtype == DType::i64))
      return fmt::format("CAST({}, {})", dialect_type(node.dtype), named(static_cast<int64_t>(node.attrs.real)));
    if (joined_ && node.dtype == DType::f32 && (node.varies & varies::numbers) != 0) {
      return fmt::format("AS_FLOAT(CAST(uint, {}))",
                         constant(std::bit_cast<int32_t>(static_cast<float>(node.attrs.real))));
    }
    overflowed_ = overflowed_ || (number_varies && constant_params_.size() >= constant_limit_);
    const bool launched = wanted && constant_params_.size() < constant_limit_;
    return launched ? launch_number(constant_params_, constant_values_, static_cast<float>(node.attrs.real), !varying_)
                    : literal(node.attrs.real, node.dtype);
  }
  const Index at = resolve(graph(), path, *this)[static_cast<size_t>(node.attrs.ints[0])];
  const std::string position = print(at);
  if (is_float(node.dtype)) {
    const std::string type(dialect_type(node.dtype));
    const std::string linear = fmt::format("{} + {} * CAST({}, {})", dialect_literal(node.attrs.real, node.dtype),
                                           dialect_literal(node.attrs.real2, node.dtype), type, position);
    return declare(node.dtype, as_stored(id, linear));
  }
  const std::string start = dialect_literal(node.attrs.real, node.dtype),
                    step = dialect_literal(node.attrs.real2, node.dtype);
  const std::string linear = fmt::format("{} + {} * CAST({}, {})", start, step, dialect_type(node.dtype), position);
  return declare(node.dtype, wrap_narrow(linear, node.dtype));
}

std::string Emitter::compute_elementwise(int id, const Path& path) {
  const IrNode& node = graph().nodes[id];
  std::vector<std::string> x;
  for (int input : node.inputs) x.push_back(value(input, path));
  const DType from = graph().nodes[node.inputs[0]].dtype;
  if (node.op == &copy_op || node.op == &ops::stop_gradient_op) return x[0];
  if (const UserRow* user = as_user(*node.op)) return compute_user(id, *user, x);
  if (node.op == &ops::cast_op) return compute_cast(id, from, x[0]);
  if (node.op == &ops::where_op) return declare(node.dtype, fmt::format("{} ? {} : {}", x[0], x[1], x[2]));
  // The arithmetic type of the expression is that of its inputs; comparisons give bool.
  if (arith(node.dtype) == DType::f32 && node.inputs.size() == 2) {
    // x * 0, x - x and x / x are not constants; llvmpipe thinks so of a literal 0, and of what is not PRECISE.
    const auto source = [&](int input) {
      while (is_view_op(*graph().nodes[input].op)) input = graph().nodes[input].inputs[0];
      return input;
    };
    const int ends[] = {source(node.inputs[0]), source(node.inputs[1])};
    for (size_t i = 0; node.op->name == "mul" && i < 2; ++i) {
      const IrNode& factor = graph().nodes[ends[i]];
      if (factor.op == &ops::full_op && factor.attrs.real == 0) x[i] = hidden_zero(std::signbit(factor.attrs.real));
    }
    if ((node.op->name == "sub" || node.op->name == "div") && ends[0] == ends[1]) {
      const std::string name = declare_precise(node.dtype, substitute(node.op->dialect, x, from)),
                        kept = as_stored(id, name);
      return kept == name ? name : declare(node.dtype, kept);
    }
  }
  return declare(node.dtype, as_stored(id, wrap_narrow(substitute(dialect_of(*node.op, from), x, from), node.dtype)));
}

// A user's text sets all its outputs at once; the other ones' vertices find them.
std::string Emitter::compute_user(int id, const UserRow& user, const std::vector<std::string>& x) {
  const IrNode& node = graph().nodes[id];
  const UserDefinition& definition = *user.definition;
  std::string key = fmt::format("user:{}", static_cast<const void*>(definition.rows.data()));
  for (const std::string& operand : x) key += " " + operand;
  std::vector<TensorType> types;
  std::vector<UserText::Operand> in, out;
  for (size_t i = 0; i < x.size(); ++i) {
    const DType dtype = graph().nodes[node.inputs[i]].dtype;
    types.push_back({node.shape, dtype});
    in.push_back({std::string(dialect_type(dtype)), x[i]});
  }
  const std::vector<TensorType> results = user_outputs(definition, types);
  const auto known = [&]() -> std::string {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      if (const auto found = scope->values.find(key); found != scope->values.end()) return found->second;
    }
    return {};
  };
  std::string base = known();
  if (base.empty()) {
    base = fmt::format("t_u{}", next_++);
    DType common = results[0].dtype;
    for (size_t i = 0; i < x.size(); ++i) {
      if (!definition.element.inputs[i].dtype) common = types[i].dtype;
    }
    for (size_t i = 0; i < results.size(); ++i) {
      out.push_back({std::string(dialect_type(results[i].dtype)), fmt::format("{}_{}", base, i)});
      line(fmt::format("{} {};", out[i].type, out[i].variable));
    }
    line(definition.text.block(in, out, common));
    scopes_.back().values[key] = base;
  }
  const std::string variable = fmt::format("{}_{}", base, user.output),
                    wrapped = as_stored(id, wrap_narrow(variable, node.dtype));
  return wrapped == variable ? variable : declare(node.dtype, wrapped);
}

std::string Emitter::hidden_zero(bool negative) {
  const char* sign = negative ? "-" : "";
  if (joined_ || varying_) return fmt::format("({}CAST(float, {}))", sign, constant(0));
  const auto known = constants_.find(0);
  if (known == constants_.end() && constants_.size() >= constant_limit_) return fmt::format("({}0.0f)", sign);
  std::string name = known == constants_.end() ? fmt::format("t_c{}", constants_.size()) : known->second;
  if (known == constants_.end()) {
    constants_.emplace(0, name);
    constant_params_.push_back({name, ConstParam::Type::i32});
    constant_values_.push_back(0);
  }
  return fmt::format("({}CAST(float, {}))", sign, name);
}

std::string Emitter::helpers() const {
  std::string text = std::string(uses_round_ ? round_helpers : "") + std::string(uses_philox_ ? philox_helper : "");
  for (const auto& [from, to] : saturating_) text += saturating_helper(from, to);
  return text;
}

std::string Emitter::kernel_name() const {
  static constexpr const char* kinds[] = {"ew", "reduce", "matmul", "body", "join"};
  std::string name = kinds[static_cast<int>(group_.kind)];
  size_t listed = 0;
  std::set<std::string_view> seen;
  for (const Member& member : group_.members) {
    const std::string_view op = graph().nodes[member.node].op->name;
    if (op == "matmul" || !seen.insert(op).second || ++listed > 4) continue;
    name += fmt::format("_{}", op);
  }
  return name;
}

}  // namespace heddle
