// Builders of random.inc.
#include <bit>

#include "heddle/onnx/ops/build.h"
#include "heddle/onnx/ops/shapes.h"

namespace heddle::onnx::build {
namespace {

// A node with a seed draws the same numbers each time.
struct Source {
  Generator own;
  Generator* generator = nullptr;
  explicit Source(const Call& c) {
    if (!c.has("seed")) return;
    own.seed = std::bit_cast<uint64_t>(c.real("seed"));
    generator = &own;
  }
};

Type type_of_draw(const Call& c, bool like) {
  const bool follows = like && onnx::is_float(c.type(0));
  return static_cast<Type>(c.integer("dtype", static_cast<int64_t>(follows ? c.type(0) : Type::f32)));
}

void out_uniform(Call& c, const Shape& shape, bool like) {
  Source source(c);
  const Type type = type_of_draw(c, like);
  const Tensor x = uniform(shape, c.real("low", 0), c.real("high", 1), &c.device(), source.generator);
  c.out(heddle::cast(x, storage(type)), type);
}

void out_normal(Call& c, const Shape& shape, bool like) {
  Source source(c);
  const Type type = type_of_draw(c, like);
  const Tensor x = normal(shape, c.real("mean", 0), c.real("scale", 1), &c.device(), source.generator);
  c.out(heddle::cast(x, storage(type)), type);
}

}  // namespace

void random_uniform(Call& c) { out_uniform(c, shapes::checked(c, c.integers("shape")), false); }
void random_uniform_like(Call& c) { out_uniform(c, c.shape(0), true); }
void random_normal(Call& c) { out_normal(c, shapes::checked(c, c.integers("shape")), false); }
void random_normal_like(Call& c) { out_normal(c, c.shape(0), true); }

void bernoulli(Call& c) {
  Source source(c);
  const Type type = static_cast<Type>(c.integer("dtype", static_cast<int64_t>(c.type(0))));
  const Tensor p = heddle::cast(c.tensor(0), DType::f32);
  const Tensor draw = uniform(p.shape(), 0, 1, &c.device(), source.generator);
  c.out(heddle::cast(draw < p, storage(type)), type);
}

void multinomial(Call& c) {
  Source source(c);
  const Type type = static_cast<Type>(c.integer("dtype", 6));
  const Tensor classes =
      heddle::multinomial(heddle::softmax(c.tensor(0), -1), c.integer("sample_size", 1), true, source.generator);
  c.out(heddle::cast(classes, storage(type)), type);
}

}  // namespace heddle::onnx::build
