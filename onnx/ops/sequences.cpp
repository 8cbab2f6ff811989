// Builders of control.inc: sequences and optional values, which are the host's lists.
#include <algorithm>

#include "heddle/onnx/ops/build.h"

namespace heddle::onnx::build {
namespace {

const std::vector<Value>& items(const Call& c, size_t i) {
  const Value& value = c.any(i);
  if (!value.is_sequence()) c.fail("takes a sequence");
  return value.items();
}

// A place in a list of so many, from the end when negative.
size_t place(const Call& c, size_t i, size_t count, bool end) {
  const int64_t at = c.whole(i), size = static_cast<int64_t>(count);
  if (at < -size || at >= size + (end ? 1 : 0)) c.fail("the position is outside of the sequence");
  return static_cast<size_t>(at < 0 ? at + size : at);
}

}  // namespace

void sequence_construct(Call& c) { c.out(Value::sequence(c.inputs(), c.type(0))); }
void sequence_empty(Call& c) { c.out(Value::sequence({}, static_cast<Type>(c.integer("dtype", 1)))); }
void sequence_at(Call& c) { c.out(items(c, 0)[place(c, 1, items(c, 0).size(), false)]); }

void sequence_length(Call& c) {
  c.out(Value::fixed(HostTensor::of_ints(Type::i64, Shape{}, {static_cast<int64_t>(items(c, 0).size())})));
}

void sequence_insert(Call& c) {
  std::vector<Value> list = items(c, 0);
  const size_t at = c.given(2) ? place(c, 2, list.size(), true) : list.size();
  list.insert(list.begin() + static_cast<ptrdiff_t>(at), c.value(1));
  c.out(Value::sequence(std::move(list), c.type(1)));
}

void sequence_erase(Call& c) {
  std::vector<Value> list = items(c, 0);
  if (list.empty()) c.fail("the sequence is empty");
  const size_t at = c.given(1) ? place(c, 1, list.size(), false) : list.size() - 1;
  list.erase(list.begin() + static_cast<ptrdiff_t>(at));
  c.out(Value::sequence(std::move(list), c.any(0).type()));
}

void sequence_map(Call& c) {
  const Graph& body = c.graph("body");
  const size_t count = items(c, 0).size();
  std::vector<std::vector<Value>> results(body.outputs.size());
  for (size_t i = 0; i < count; ++i) {
    std::vector<Value> inputs;
    for (const Value& value : c.inputs()) {
      if (value.is_sequence() && value.items().size() != count) c.fail("the sequences have different lengths");
      inputs.push_back(value.is_sequence() ? value.items()[i] : value);
    }
    const std::vector<Value> made = c.run(body, inputs);
    for (size_t o = 0; o < made.size(); ++o) results[o].push_back(made[o]);
  }
  for (size_t o = 0; o < results.size(); ++o) {
    const Type type = results[o].empty() ? body.outputs[o].type : results[o][0].type();
    c.out(Value::sequence(results[o], type));
  }
}

void concat_from_sequence(Call& c) {
  std::vector<Tensor> parts;
  for (const Value& value : items(c, 0)) parts.push_back(c.tensor_of(value));
  if (parts.empty()) c.fail("the sequence is empty");
  const bool added = c.integer("new_axis", 0) != 0;
  const int axis = c.axis(c.integer("axis"), parts[0].rank() + (added ? 1 : 0));
  c.out(added ? heddle::stack(parts, axis) : heddle::concat(parts, axis), c.any(0).type());
}

void split_to_sequence(Call& c) {
  const Type type = c.type(0);
  const Tensor x = c.tensor(0);
  const int axis = c.axis(c.integer("axis", 0), x.rank());
  const int64_t length = x.dim(axis);
  const bool one_each = !c.given(1);
  std::vector<int64_t> sizes;
  if (c.given(1)) sizes = c.ints(1);
  if (one_each || c.rank(1) == 0) {
    const int64_t each = one_each ? 1 : sizes.at(0);
    if (each < 1) c.fail("parts must have an element");
    sizes.clear();
    for (int64_t at = 0; at < length; at += each) sizes.push_back(std::min(each, length - at));
  }
  std::vector<Value> parts;
  for (const Tensor& part : heddle::split(x, sizes, axis)) {
    const bool drops = one_each && c.integer("keepdims", 1) == 0;
    parts.push_back(Value::computed(drops ? heddle::squeeze(part, axis) : part, type));
  }
  c.out(Value::sequence(std::move(parts), type));
}

void optional(Call& c) { c.out(c.given(0) ? c.any(0) : Value::empty_optional()); }

void optional_get_element(Call& c) {
  if (c.any(0).is_empty_optional()) c.fail("the optional is empty");
  c.out(c.any(0));
}

void optional_has_element(Call& c) {
  const bool has = c.given(0) && !c.any(0).is_empty_optional();
  c.out(Value::fixed(HostTensor::of_ints(Type::boolean, Shape{}, {has})));
}

}  // namespace heddle::onnx::build
