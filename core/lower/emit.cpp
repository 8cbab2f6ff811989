#include "heddle/core/lower/emit.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "heddle/core/base/parse_number.h"
#include "heddle/core/functions/user/user_definition.h"
#include "heddle/core/ir/dynamic_sizes.h"
#include "heddle/core/lower/emit_text.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"

namespace heddle {

Emitter::Emitter(const ScheduledGraph& scheduled, const Group& group, size_t reserved_constants, bool joined,
                 const Section* section)
    : scheduled_(scheduled),
      group_(group),
      section_(section),
      joined_(joined),
      varying_(!joined && group_varies(scheduled, group)),
      constants_(KernelSource::max_constants - reserved_constants, joined, varying_),
      buffers_(scheduled),
      halves_(scheduled, group) {}

void Emitter::start_over() {
  every_path_ = false;
  text_.clear();
  constants_.clear();
  buffers_.start_over();
  streamed_.clear();
  staged_.clear();
  stream_index_.clear();
  split_ = {};
  steps_.clear();
  told_ = -1;
  anchors_.assign(1, 0);
  bound_.clear();
  picked_.clear();
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

}  // namespace

std::string Emitter::print(const Index& index) {
  printed_.push_back(index);
  std::string text;
  const auto add = [&](const std::string& term) { text += text.empty() ? term : " + " + term; };
  for (const auto& [variable, coefficient] : index.terms) {
    if (names[variable].empty()) continue;
    add(coefficient == 1 ? names[variable] : fmt::format("{} * {}", names[variable], factor(variable, coefficient)));
  }
  if (!index.opaque.empty()) add(index.opaque);
  const bool told = told_ >= 0 && index.coefficient(told_) != 0;
  if (index.constant != 0) add(told ? distance(index.constant) : constants_.coefficient(-1, index.constant));
  return text.empty() ? "0" : text;
}

std::string Emitter::local(const std::string& expression) {
  const std::string key = "index:" + expression;
  if (std::string known = text_.find(key); !known.empty()) return known;
  const std::string name = text_.fresh("t_i");
  line(fmt::format("int {} = {};", name, expression));
  text_.remember(key, name);
  return name;
}

std::string Emitter::linear_index(const Shape& shape, int first) {
  const auto strides = row_major_strides(shape);
  Index linear;
  for (int d = 0; d < shape.rank(); ++d) {
    if (shape[d] != 1) linear.terms.push_back({first + d, strides[d]});
  }
  return print_element(in_steps(linear));
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

std::string Emitter::load(int id, const Path& path) {
  const IrNode& node = graph().nodes[id];
  View view = View::dense(node.shape);
  if (node.leaf >= 0) {
    const LeafInfo& leaf = graph().leaves[node.leaf];
    view = leaf.view;
    if (leaf.host_slot >= 0) view.offset = 4 * leaf.host_slot;
  }
  const std::optional<View> whole = compose(graph(), path.ops, view);
  const Index at = from_binding(whole ? address(path.base, *whole) : address(resolve(graph(), path, *this), view),
                                buffers_.location(id), node.dtype);
  loads_.push_back({at, buffers_.location(id), node.dtype, node.leaf >= 0 && (node.varies & varies::offset) != 0});
  const LoadSite site = loads_.back();
  // Where a take's row decides, the address is known only where it is used.
  if (!at.terms.empty() && at.terms.back().first >= first_pick_variable) loads_.back().index.opaque = "pick";
  for (const auto& [load, text] : staged_) {
    if (load == loads_.back()) return declare(node.dtype, text);
  }
  if (asked_variable_ >= 0 && !site.index.affine() && site.index.coefficient(asked_variable_) == 1) {
    ask_for(site);
    return literal(0, node.dtype);
  }
  return declare(node.dtype, load_expression(site));
}

std::string Emitter::load_expression(const LoadSite& load) {
  std::string index;
  // The offset has a name also where it is 0: in another joined row, or at another place, it may not be.
  if (joined_ || load.moves) {
    const std::string offset = constant(load.index.constant);
    Index rest = load.index;
    rest.constant = 0;
    index = fmt::format("{} + {}", print_element(rest), offset);
  } else {
    index = print_element(load.index);
  }
  const size_t b = buffers_.bind(load.slot, load.dtype, Access::read);
  return fmt::format("LOAD({}, {})", buffers_.name(b), based(b, index));
}

void Emitter::ask_for(const LoadSite& load) {
  constexpr size_t line_bytes = 64;
  open(fmt::format("for (int t_k = 0; t_k < {}; t_k += {})", asked_count_, line_bytes / size_of(load.dtype)));
  const std::string first = print_element(load.index);
  line(fmt::format("WILL_READ({}, CAST(INDEX, {}) + CAST(INDEX, t_k));", buffer_name(load), first));
  close();
}

void Emitter::stage(const LoadSite& load, const std::string& text) {
  std::erase_if(staged_, [&](const auto& staged) { return staged.first == load; });
  staged_.emplace_back(load, text);
}

bool Emitter::can_stream(int id) const {
  return graph().nodes[id].dtype != DType::boolean && !joined_ && !scheduled_.placed.contains(id) &&
         buffers_.was_only_written(buffers_.location(id)) && picked_.empty() && has_whole_rows() &&
         section_offset(id) == 0;
}

std::string Emitter::based(size_t buffer, const std::string& index) const {
  return joined_ ? fmt::format("t_o{} + {}", buffer, index) : index;
}

void Emitter::store(int id, const std::string& variable, const std::string& index) {
  if (asked_variable_ >= 0) return;
  const DType dtype = graph().nodes[id].dtype;
  if (section_ != nullptr) from_binding(stored_at(id), buffers_.location(id), dtype);
  const size_t b = buffers_.bind(buffers_.location(id), dtype, Access::write);
  const std::string& name = buffers_.name(b);
  if (stream_index_.empty() || !can_stream(id)) {
    const int64_t offset = section_offset(id);
    const bool at_start = offset == 0 && !scheduled_.placed.contains(id);
    const std::string at = at_start ? index : fmt::format("{} + {}", index, constant(offset));
    return line(if_picked(fmt::format("STORE({}, {}, {});", name, based(b, at), variable)));
  }
  const auto known =
      std::find_if(streamed_.begin(), streamed_.end(), [&](const Streamed& s) { return s.buffer == name; });
  const std::string array = known != streamed_.end() ? known->array : fmt::format("t_line{}", streamed_.size());
  if (known == streamed_.end()) streamed_.push_back({name, array, std::string(type_of(dtype)), size_of(dtype)});
  line(fmt::format("{}[{}] = {};", array, stream_index_, variable));
}

// ---- values

std::string Emitter::declare(DType dtype, const std::string& expression) {
  const std::string name = text_.fresh("t_v");
  line(fmt::format("{} {} = {};", type_of(dtype), name, expression));
  return name;
}

std::string Emitter::declare_precise(DType dtype, const std::string& expression) {
  const std::string name = text_.fresh("t_v");
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
  if (std::string known = text_.find(k); !known.empty()) return known;
  const std::string name = compute(id, path);
  text_.remember(k, name);
  return name;
}

std::string Emitter::member_value(const Member& member) {
  const IrNode& node = graph().nodes[member.node];
  if (const auto bound = bound_.find(member.node); bound != bound_.end()) return bound->second;
  Shape domain = group_.domain;
  if (member.level == Level::full) {
    for (int64_t d : group_.inner) domain.push_back(d);
  }
  Path path = in_section(Path::over(node.shape, domain));
  for (Index& index : path.base) index = in_steps(index);
  return value(member.node, path);
}

std::string Emitter::compute(int id, const Path& path) {
  const IrNode& node = graph().nodes[id];
  if (node.op == &ops::full_op) return compute_full(node);
  if (node.op->kind == OpKind::constant) return compute_iota(id, path);
  if (node.op->kind == OpKind::elementwise && halves_.computed_here(id)) return compute_elementwise(id, path);
  if (node.op == &ops::pad_op) return compute_pad(id, resolve(graph(), path, *this));
  if (node.op == &ops::concat_op) return compute_concat(id, resolve(graph(), path, *this));
  if (node.op->kind == OpKind::random) return compute_random(id, resolve(graph(), path, *this));
  if (node.op == &ops::take_op || node.op == &ops::gather_op) return compute_take(id, resolve(graph(), path, *this));
  return load(id, path);
}

std::string Emitter::compute_full(const IrNode& node) {
  const bool number_varies = varying_ && (node.varies & varies::numbers) != 0;
  if (number_varies && (node.dtype == DType::i32 || node.dtype == DType::i64))
    return fmt::format("CAST({}, {})", dialect_type(node.dtype),
                       constants_.named(static_cast<int64_t>(node.attrs.real)));
  const float value = static_cast<float>(node.attrs.real);
  if (joined_ && node.dtype == DType::f32 && (node.varies & varies::numbers) != 0)
    return fmt::format("AS_FLOAT(CAST(uint, {}))", constant(std::bit_cast<int32_t>(value)));
  if (number_varies && constants_.full()) constants_.set_overflowed();
  const bool wanted = node.dtype == DType::f32 && (number_varies || (!joined_ && is_long_number(node.attrs.real)));
  const std::optional<std::string> name = wanted ? constants_.real(value) : std::nullopt;
  return name ? *name : literal(node.attrs.real, node.dtype);
}

std::string Emitter::compute_iota(int id, const Path& path) {
  const IrNode& node = graph().nodes[id];
  const Index at = resolve(graph(), path, *this)[static_cast<size_t>(axis_of(node.attrs))];
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
    for (size_t i = 0; node.op->folded == Folded::by_zero && i < 2; ++i) {
      const IrNode& factor = graph().nodes[ends[i]];
      if (factor.op == &ops::full_op && factor.attrs.real == 0)
        x[i] = constants_.hidden_zero(std::signbit(factor.attrs.real));
    }
    if (node.op->folded == Folded::by_itself && ends[0] == ends[1]) {
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
  std::string base = text_.find(key);
  if (base.empty()) {
    base = text_.fresh("t_u");
    DType common = results[0].dtype;
    for (size_t i = 0; i < x.size(); ++i) {
      if (!definition.element.inputs[i].dtype) common = types[i].dtype;
    }
    for (size_t i = 0; i < results.size(); ++i) {
      out.push_back({std::string(dialect_type(results[i].dtype)), fmt::format("{}_{}", base, i)});
      line(fmt::format("{} {};", out[i].type, out[i].variable));
    }
    line(definition.text.block(in, out, common));
    text_.remember(key, base);
  }
  const std::string variable = fmt::format("{}_{}", base, user.output),
                    wrapped = as_stored(id, wrap_narrow(variable, node.dtype));
  return wrapped == variable ? variable : declare(node.dtype, wrapped);
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
    const OpDef& op = *graph().nodes[member.node].op;
    if (op.kind == OpKind::contraction || !seen.insert(op.name).second || ++listed > 4) continue;
    name += fmt::format("_{}", op.name);
  }
  return name;
}

}  // namespace heddle
