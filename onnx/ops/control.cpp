// Builders of control.inc: branches and loops.
#include "heddle/core/functions/control/control.h"

#include <fmt/format.h>

#include <algorithm>

#include "heddle/onnx/ops/build.h"

namespace heddle::onnx::build {
namespace {

constexpr int64_t longest_unrolled = 32;      // iterations, where a scan can be had
constexpr int64_t most_iterations = 1 << 20;  // of a loop that the host runs

std::vector<Tensor> tensors_of(const Call& c, const std::vector<Value>& values, std::vector<Type>& types) {
  std::vector<Tensor> tensors;
  types.clear();
  for (const Value& value : values) {
    tensors.push_back(c.tensor_of(value));
    types.push_back(value.type());
  }
  return tensors;
}

void out_all(Call& c, const std::vector<Tensor>& tensors, const std::vector<Type>& types) {
  for (size_t i = 0; i < tensors.size(); ++i) c.out(tensors[i], types[i]);
}

bool is_true(const Call& c, const Value& condition) {
  if (condition.host_known()) return condition.host().ints().at(0) != 0;
  c.note_wait();
  return condition.tensor().item() != 0;
}

Value number_value(int64_t i) { return Value::fixed(HostTensor::of_ints(Type::i64, Shape{}, {i})); }
Value flag_value(bool b) { return Value::fixed(HostTensor::of_ints(Type::boolean, Shape{}, {b})); }

bool all_tensors(const std::vector<Value>& values) {
  return std::ranges::all_of(values, [](const Value& v) { return v.is_tensor(); });
}

// A loop under way: what is carried, and the rows of its outputs.
struct Loop {
  const Graph& body;
  std::vector<Value> carried;
  std::vector<std::vector<Value>> rows;  // of each scan output
  Value condition;
  int64_t done = 0;
};

std::vector<Value> arguments(const Loop& loop, Value number) {
  std::vector<Value> values{std::move(number), loop.condition.present() ? loop.condition : flag_value(true)};
  values.insert(values.end(), loop.carried.begin(), loop.carried.end());
  return values;
}

void iterate(Call& c, Loop& loop) {
  const std::vector<Value> results = c.run(loop.body, arguments(loop, number_value(loop.done)));
  const size_t carried = loop.carried.size();
  if (results.size() != 1 + carried + loop.rows.size()) c.fail("the body has another number of outputs");
  loop.condition = results[0];
  for (size_t i = 0; i < carried; ++i) loop.carried[i] = results[1 + i];
  for (size_t i = 0; i < loop.rows.size(); ++i) loop.rows[i].push_back(results[1 + carried + i]);
  ++loop.done;
}

// The rest of the iterations on the device, while the condition holds.
void rest_on_device(Call& c, Loop& loop, std::optional<int64_t> trips) {
  std::vector<Type> types;
  std::vector<Tensor> init{full(Shape{}, static_cast<double>(loop.done), DType::i64, &c.device()),
                           heddle::reshape(c.tensor_of(loop.condition), Shape{})};
  for (const Tensor& t : tensors_of(c, loop.carried, types)) init.push_back(t);
  const auto holds = [&](const std::vector<Tensor>& carry) {
    return trips ? heddle::logical_and(carry[1], carry[0] < static_cast<double>(*trips)) : carry[1];
  };
  const auto once = [&](const std::vector<Tensor>& carry) {
    std::vector<Value> values{Value::computed(carry[0], Type::i64), Value::computed(carry[1], Type::boolean)};
    for (size_t i = 0; i < types.size(); ++i) values.push_back(Value::computed(carry[i + 2], types[i]));
    std::vector<Type> made;
    std::vector<Tensor> next{carry[0] + 1.0};
    const std::vector<Tensor> results = tensors_of(c, c.run(loop.body, values), made);
    next.push_back(heddle::reshape(results[0], Shape{}));
    next.insert(next.end(), results.begin() + 1, results.end());
    return next;
  };
  const WhileResult result = while_loop(holds, once, init);
  for (size_t i = 0; i < types.size(); ++i) loop.carried[i] = Value::computed(result.carry[i + 2], types[i]);
}

// All iterations of a loop whose number is known and whose condition stays true, as one scan.
void as_scan(Call& c, const Loop& loop, int64_t trips) {
  std::vector<Type> types, made;
  const std::vector<Tensor> init = tensors_of(c, loop.carried, types);
  const Tensor numbers = arange(0, static_cast<double>(trips), 1, DType::i64, &c.device());
  const auto once = [&](const std::vector<Tensor>& carry, const std::vector<Tensor>& x) {
    std::vector<Value> values{Value::computed(x[0], Type::i64), flag_value(true)};
    for (size_t i = 0; i < types.size(); ++i) values.push_back(Value::computed(carry[i], types[i]));
    const std::vector<Value> results = c.run(loop.body, values);
    if (!results.at(0).is_fixed() || results[0].host().ints().at(0) == 0) c.fail("its condition changes");
    const std::vector<Tensor> all = tensors_of(c, {results.begin() + 1, results.end()}, made);
    const auto split = all.begin() + static_cast<ptrdiff_t>(types.size());
    return Scanned{{all.begin(), split}, {split, all.end()}};
  };
  const Scanned result = heddle::scan(once, init, {numbers});
  std::vector<Tensor> all = result.carry;
  all.insert(all.end(), result.ys.begin(), result.ys.end());
  out_all(c, all, made);
}

Tensor stacked(const Call& c, const std::vector<Value>& rows) {
  std::vector<Tensor> tensors;
  for (const Value& row : rows) tensors.push_back(c.tensor_of(row));
  return heddle::stack(tensors, 0);
}

void finish(Call& c, const Loop& loop) {
  for (const Value& value : loop.carried) c.out(value);
  for (size_t i = 0; i < loop.rows.size(); ++i) {
    if (loop.rows[i].empty()) {
      // No iteration: the body's declaration says what the rows would have been.
      const Port& port = loop.body.outputs[1 + loop.carried.size() + i];
      Shape shape{0};
      for (const Dimension& d : port.shape.value_or(std::vector<Dimension>())) shape.push_back(d.size.value_or(0));
      c.out(zeros(shape, storage(port.type), &c.device()), port.type);
    } else {
      c.out(stacked(c, loop.rows[i]), loop.rows[i][0].type());
    }
  }
}

}  // namespace

void branch(Call& c) {
  const Graph &yes = c.graph("then_branch"), &no = c.graph("else_branch");
  const Value& condition = c.value(0);
  if (condition.host_known()) {
    for (Value& value : c.run(is_true(c, condition) ? yes : no, {})) c.out(std::move(value));
    return;
  }
  std::vector<Type> types;
  const auto side = [&](const Graph& graph) {
    return [&](const std::vector<Tensor>&) { return tensors_of(c, c.run(graph, {}), types); };
  };
  const std::vector<Tensor> results = cond(heddle::reshape(condition.tensor(), Shape{}), side(yes), side(no));
  out_all(c, results, types);
}

void loop(Call& c) {
  Loop loop{c.graph("body"), {}, {}, c.given(1) ? c.value(1) : Value(), 0};
  for (size_t i = 2; i < c.count(); ++i) loop.carried.push_back(c.any(i));
  if (loop.body.outputs.size() < 1 + loop.carried.size()) c.fail("the body has too few outputs");
  loop.rows.resize(loop.body.outputs.size() - 1 - loop.carried.size());
  std::optional<int64_t> trips;
  if (c.given(0)) trips = c.whole(0);
  const bool starts = !loop.condition.present() || (loop.condition.host_known() && is_true(c, loop.condition));
  if (trips && *trips > longest_unrolled && starts && all_tensors(loop.carried)) {
    try {
      return as_scan(c, loop, *trips);
    } catch (const UserError&) {  // shapes that grow, numbers that the host needs: one after the other
      c.results().clear();
    }
  }
  while (!trips || loop.done < *trips) {
    const bool told = loop.condition.present() && !loop.condition.host_known();
    if (told && loop.rows.empty() && all_tensors(loop.carried)) {
      rest_on_device(c, loop, trips);
      break;
    }
    if (loop.condition.present() && !is_true(c, loop.condition)) break;
    if (loop.done == most_iterations) c.unsupported(fmt::format("more than {} iterations", most_iterations));
    iterate(c, loop);
  }
  finish(c, loop);
}

namespace {

struct ScanAxes {
  std::vector<int64_t> inputs, outputs, input_directions, output_directions;
};

// states and xs as the body takes them; gives states and stacked outputs.
std::vector<Tensor> scanned(Call& c, const Graph& body, const std::vector<Tensor>& states, std::vector<Tensor> xs,
                            const std::vector<Type>& types, const ScanAxes& axes, std::vector<Type>& made) {
  for (size_t i = 0; i < xs.size(); ++i) {
    const int axis = axes.inputs.empty() ? 0 : c.axis(axes.inputs.at(i), xs[i].rank());
    if (axis != 0) xs[i] = moveaxis(xs[i], axis, 0);
    if (!axes.input_directions.empty() && axes.input_directions.at(i) != 0) xs[i] = flip(xs[i], {0});
  }
  const auto once = [&](const std::vector<Tensor>& carry, const std::vector<Tensor>& x) {
    std::vector<Value> values;
    for (size_t i = 0; i < carry.size(); ++i) values.push_back(Value::computed(carry[i], types[i]));
    for (size_t i = 0; i < x.size(); ++i) values.push_back(Value::computed(x[i], types[carry.size() + i]));
    const std::vector<Tensor> all = tensors_of(c, c.run(body, values), made);
    if (all.size() < carry.size()) c.fail("the body has too few outputs");
    const auto split = all.begin() + static_cast<ptrdiff_t>(carry.size());
    return Scanned{{all.begin(), split}, {split, all.end()}};
  };
  const Scanned result = heddle::scan(once, states, xs);
  std::vector<Tensor> all = result.carry;
  for (size_t i = 0; i < result.ys.size(); ++i) {
    Tensor y = result.ys[i];
    if (!axes.output_directions.empty() && axes.output_directions.at(i) != 0) y = flip(y, {0});
    const int axis = axes.outputs.empty() ? 0 : c.axis(axes.outputs.at(i), y.rank());
    all.push_back(axis == 0 ? y : moveaxis(y, 0, axis));
  }
  return all;
}

struct ScanInputs {
  std::vector<Tensor> states, xs;
  std::vector<Type> types;
};

ScanInputs scan_inputs(const Call& c, size_t from) {
  const int64_t count = c.integer("num_scan_inputs");
  const auto given = static_cast<int64_t>(c.count() - std::min(from, c.count()));
  if (count < 1 || count > given) c.fail("num_scan_inputs does not fit");
  ScanInputs in;
  for (size_t i = from; i < c.count(); ++i) {
    const bool state = static_cast<int64_t>(i - from) < given - count;
    (state ? in.states : in.xs).push_back(c.tensor(i));
    in.types.push_back(c.type(i));
  }
  return in;
}

}  // namespace

void scan(Call& c) {
  const ScanInputs in = scan_inputs(c, 0);
  const ScanAxes axes{c.integers("scan_input_axes"), c.integers("scan_output_axes"),
                      c.integers("scan_input_directions"), c.integers("scan_output_directions")};
  std::vector<Type> made;
  const std::vector<Tensor> all = scanned(c, c.graph("body"), in.states, in.xs, in.types, axes, made);
  out_all(c, all, made);
}

// Opset 8: all inputs have a batch in front, whose examples are scanned one after the other.
void batched_scan(Call& c) {
  if (c.given(0)) c.unsupported("sequence_lens");
  const ScanInputs in = scan_inputs(c, 1);
  const ScanAxes axes{{}, {}, c.integers("directions"), {}};
  const int64_t batch = in.xs.at(0).dim(0);
  if (batch == 0) c.unsupported("an empty batch");
  std::vector<std::vector<Tensor>> results;
  std::vector<Type> made;
  for (int64_t b = 0; b < batch; ++b) {
    std::vector<Tensor> states, xs;
    for (const Tensor& t : in.states) states.push_back(select(t, 0, b));
    for (const Tensor& t : in.xs) xs.push_back(select(t, 0, b));
    const std::vector<Tensor> all = scanned(c, c.graph("body"), states, xs, in.types, axes, made);
    results.resize(all.size());
    for (size_t i = 0; i < all.size(); ++i) results[i].push_back(all[i]);
  }
  for (size_t i = 0; i < results.size(); ++i) c.out(heddle::stack(results[i], 0), made[i]);
}

}  // namespace heddle::onnx::build
