// States of optimizers in 8 bits: codes against the paper's table, updates against double precision, what is kept.
#include "heddle/nn/packed_state.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "heddle/autograd/autograd.h"
#include "heddle/core/device/context.h"
#include "heddle/core/graph/philox.h"
#include "heddle/nn/optim.h"
#include "tests/nn/support.h"
#include "tests/support/device_test.h"
#include "tests/support/devices.h"

namespace heddle::tests {
namespace {

using nn::StateCode;

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

// Dettmers et al. 2021, section 1.3, read bit by bit: a sign (of eight bits without one: none), zeros that each divide
// by ten, the bit that ends them, and a fraction whose k-th value is the middle of a part of [0.1, 1]. One code that no
// number has is 1.
std::array<double, 256> table_of(StateCode code) {
  std::array<double, 256> table{};
  const int width = code == StateCode::positive ? 8 : 7;
  for (int byte = 0; byte < 256; ++byte) {
    const int bits = byte % (1 << width);
    int zeros = 0;
    while (zeros < width && (bits >> (width - 1 - zeros)) % 2 == 0) ++zeros;
    const int fraction_bits = width - 1 - zeros;
    double value = 0;
    if (zeros < width) {
      const double parts = std::pow(2, fraction_bits), k = bits - std::pow(2, fraction_bits);
      value = std::pow(10, -zeros) * (0.1 + 0.9 * (k + 0.5) / parts);
    }
    table[static_cast<size_t>(byte)] = byte > bits ? -value : value;
  }
  table[code == StateCode::positive ? 1 : 128] = 1;
  return table;
}

// Codes whose distance from x is the least, but for what single precision may mistake.
bool is_nearest(const std::array<double, 256>& table, StateCode code, double x, int found) {
  const double own = std::abs(table[static_cast<size_t>(found)] - x);
  if (code == StateCode::positive && x > 0 && table[static_cast<size_t>(found)] == 0) return false;
  for (size_t other = 0; other < table.size(); ++other) {
    const bool usable = code == StateCode::with_sign || x == 0 || table[other] > 0;
    if (usable && std::abs(table[other] - x) < own - 1e-6 * std::abs(x)) return false;
  }
  return true;
}

std::vector<float> uniform(int64_t count, uint32_t stream, double size = 1) {
  std::vector<float> v(static_cast<size_t>(count));
  for (size_t i = 0; i < v.size(); ++i)
    v[i] = static_cast<float>((philox_uniform({7, 7, stream, 0}, i) * 2 - 1) * size);
  return v;
}

class PackedState : public testing::TestWithParam<std::string> {
 protected:
  DeviceContext& where() { return device(GetParam()); }
  nn::PackedState pack(const std::vector<float>& values, StateCode code) {
    const auto blocks = static_cast<int64_t>(values.size()) / nn::state_block;
    return nn::packed_state(Tensor::from_vector(values, {blocks, nn::state_block}, &where()), code);
  }
};

TEST_P(PackedState, EveryCodeIsThePapers) {
  for (const StateCode code : {StateCode::with_sign, StateCode::positive}) {
    const std::array<double, 256> table = table_of(code);
    std::vector<int32_t> all(256);
    for (int i = 0; i < 256; ++i) all[static_cast<size_t>(i)] = i;
    const Tensor codes = cast(Tensor::from_vector(all, {1, 256}, &where()), DType::u8);
    const Tensor scale = full({1, 1}, 3.0, DType::f32, &where());
    const std::vector<double> values = nn::unpacked_state({codes, scale}, code).to_doubles();
    std::vector<float> exact;
    for (size_t i = 0; i < 256; ++i) {
      ASSERT_NEAR(values[i], 3 * table[i], 1e-6 * std::abs(3 * table[i])) << i;
      exact.push_back(static_cast<float>(3 * table[i]));
    }
    const nn::PackedState back = pack(exact, code);
    EXPECT_EQ(back.scales.item(), 3);
    const std::vector<double> found = back.codes.to_doubles();
    for (size_t i = 0; i < 256; ++i) EXPECT_EQ(found[i], code == StateCode::with_sign && table[i] == 0 ? 0 : double(i));
  }
}

TEST_P(PackedState, NumbersGetTheNearestCode) {
  for (const StateCode code : {StateCode::with_sign, StateCode::positive}) {
    const std::array<double, 256> table = table_of(code);
    std::vector<float> values;
    for (const double size : {1.0, 1e-2, 1e-4, 1e-6, 1e-8}) {
      for (const float x : uniform(2 * nn::state_block, 3, size)) values.push_back(x);
    }
    std::array<double, 256> sorted = table;
    std::ranges::sort(sorted);
    for (size_t i = 0; i + 1 < 256; ++i) {  // beside each border
      const double middle = (sorted[i] + sorted[i + 1]) / 2;
      values.push_back(static_cast<float>(middle * (1 - 1e-5)));
      values.push_back(static_cast<float>(middle * (1 + 1e-5)));
    }
    while (values.size() % nn::state_block != 0) values.push_back(0);
    for (size_t first = 0; first < values.size(); first += nn::state_block) values[first] = 1;
    if (code == StateCode::positive)
      std::ranges::transform(values, values.begin(), [](float x) { return std::abs(x); });
    const std::vector<double> codes = pack(values, code).codes.to_doubles();
    for (size_t i = 0; i < values.size(); ++i)
      ASSERT_TRUE(is_nearest(table, code, values[i], static_cast<int>(codes[i]))) << values[i] << " is " << codes[i];
  }
}

TEST_P(PackedState, ZerosAndNumbersThatAreNone) {
  for (const StateCode code : {StateCode::with_sign, StateCode::positive}) {
    std::vector<float> values(4 * nn::state_block, 0.0F);
    values[256] = std::numeric_limits<float>::quiet_NaN();
    values[512] = std::numeric_limits<float>::infinity();
    values[768] = 1e-30F;
    const nn::PackedState made = pack(values, code);
    const std::vector<double> back = nn::unpacked_state(made, code).to_doubles();
    for (size_t i = 0; i < 256; ++i) {
      EXPECT_EQ(back[i], 0);
      EXPECT_TRUE(std::isnan(back[256 + i])) << i;
      EXPECT_TRUE(std::isnan(back[512 + i])) << i;
      EXPECT_NEAR(back[768 + i], i == 0 ? 1e-30 : 0, 1e-35) << i;
    }
  }
  expect_error<ShapeError>(
      [&] {
        nn::packed_state(zeros({2, 255}, DType::f32, &where()), StateCode::positive);
      },
      {"[packed_state]", "(2, 255)", "(N, 256)"});
}

// ---- updates

struct Kind {
  std::string name;
  std::vector<std::pair<std::string, StateCode>> moments;
};
const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {{"adamw", {{"m", StateCode::with_sign}, {"v", StateCode::positive}}},
                                        {"adam", {{"m", StateCode::with_sign}, {"v", StateCode::positive}}},
                                        {"lion", {{"m", StateCode::with_sign}}},
                                        {"sgd", {{"momentum", StateCode::with_sign}}}};
  return all;
}

constexpr double lr = 0.01, beta1 = 0.9, beta2 = 0.99, eps = 1e-8, decay = 0.1;

std::unique_ptr<nn::Optimizer> make(const std::string& kind, const std::vector<Tensor>& p,
                                    nn::StateType states = nn::StateType::bits8) {
  const nn::AdamOptions adam{
      .lr = lr, .beta1 = beta1, .beta2 = beta2, .eps = eps, .weight_decay = decay, .states = states};
  if (kind == "adamw") return std::make_unique<nn::AdamW>(p, adam);
  if (kind == "adam") return std::make_unique<nn::Adam>(p, adam);
  if (kind == "lion")
    return std::make_unique<nn::Lion>(
        p, nn::LionOptions{.lr = lr, .beta1 = beta1, .beta2 = beta2, .weight_decay = decay, .states = states});
  return std::make_unique<nn::SGD>(
      p, nn::SgdOptions{.lr = lr, .momentum = beta1, .weight_decay = decay, .nesterov = true, .states = states});
}

// One element's update in double precision: the formulas of nn/optim.h. `states` become the next ones.
double updated(const std::string& kind, double p, double g, int step, std::vector<double>& states) {
  if (kind == "lion") {
    const double direction = beta1 * states[0] + (1 - beta1) * g;
    states[0] = beta2 * states[0] + (1 - beta2) * g;
    return p * (1 - lr * decay) - lr * (direction > 0 ? 1 : direction < 0 ? -1 : 0);
  }
  if (kind == "sgd") {
    const double d = g + decay * p;
    states[0] = beta1 * states[0] + d;
    return p - lr * (d + beta1 * states[0]);
  }
  const double d = kind == "adam" ? g + decay * p : g;
  states[0] = beta1 * states[0] + (1 - beta1) * d;
  states[1] = beta2 * states[1] + (1 - beta2) * d * d;
  const double m = states[0] / (1 - std::pow(beta1, step)), v = states[1] / (1 - std::pow(beta2, step));
  return (kind == "adamw" ? p * (1 - lr * decay) : p) - lr * m / (std::sqrt(v) + eps);
}

using Elements = std::vector<double>;

// The elements of a state as the table reads codes and scales.
Elements elements_of(const nn::StateDict& state, const std::string& name, StateCode code) {
  const std::array<double, 256> table = table_of(code);
  const Elements codes = state.at(name + ".codes").to_doubles(), scales = state.at(name + ".scales").to_doubles();
  Elements all;
  for (size_t i = 0; i < codes.size(); ++i)
    all.push_back(table[static_cast<size_t>(codes[i])] * scales[i / nn::state_block]);
  return all;
}

void expect_packed(const nn::StateDict& state, const std::string& name, StateCode code, Elements want) {
  const std::array<double, 256> table = table_of(code);
  const Elements codes = state.at(name + ".codes").to_doubles(), scales = state.at(name + ".scales").to_doubles();
  ASSERT_EQ(codes.size(), (want.size() + 255) / 256 * 256);
  want.resize(codes.size());  // zeros
  for (size_t i = 0; i < codes.size(); ++i) {
    const auto first = want.begin() + static_cast<std::ptrdiff_t>(i / 256 * 256);
    const double most =
        std::abs(*std::max_element(first, first + 256, [](double a, double b) { return std::abs(a) < std::abs(b); }));
    ASSERT_NEAR(scales[i / 256], most, 2e-6 * most) << name;
    // What enters the code is rounded to single precision, in several steps that cancel.
    const double share = most == 0 ? 0 : want[i] / most;
    const double found = table[static_cast<size_t>(codes[i])];
    bool near = false;
    for (const double moved : {share, share - 2e-7, share + 2e-7})
      near = near || is_nearest(table, code, moved, static_cast<int>(codes[i]));
    ASSERT_TRUE(near) << name << " " << i << ": " << share << " became " << found;
  }
}

// Sizes of one block after the other, and of parts of one; the small one has f32.
const std::vector<Shape> block_shapes = {Shape{16, 256}, Shape{61, 71}, Shape{4097}, Shape{4095}};

std::vector<Tensor> parameters_on(DeviceContext& where, DType dtype = DType::f32) {
  std::vector<Tensor> all;
  for (size_t i = 0; i < block_shapes.size(); ++i) {
    Tensor p = Tensor::from_vector(uniform(block_shapes[i].numel(), static_cast<uint32_t>(i)), block_shapes[i], &where)
                   .to(dtype);
    eval({p});
    all.push_back(p.set_requires_grad());
  }
  return all;
}

void set_gradients(std::vector<Tensor>& parameters, uint32_t step) {
  for (size_t i = 0; i < parameters.size(); ++i) {
    Tensor& p = parameters[i];
    const std::vector<float> values = uniform(p.numel(), 100 * (step + 1) + static_cast<uint32_t>(i), 0.1);
    p.set_grad(Tensor::from_vector(values, p.shape(), &p.device()).to(p.dtype()));
  }
}

// The oracle goes on from the codes that are there: a number at the border of two codes may get either.
TEST_P(PackedState, UpdatesAreThoseOfDoublePrecision) {
  for (const Kind& kind : kinds()) {
    SCOPED_TRACE(kind.name);
    std::vector<Tensor> parameters = parameters_on(where());
    const auto optimizer = make(kind.name, parameters);
    for (uint32_t step = 0; step < 2; ++step) {
      set_gradients(parameters, step);
      const nn::StateDict before = optimizer->state_dict();
      std::vector<Elements> states[3], p_before, gradients;
      for (size_t i = 0; i < 3; ++i) {
        const std::string prefix = std::to_string(i) + ".";
        for (const auto& [name, code] : kind.moments)
          states[i].push_back(step == 0 ? Elements(static_cast<size_t>(block_shapes[i].numel()))
                                        : elements_of(before, prefix + name, code));
        p_before.push_back(parameters[i].to_doubles());
        gradients.push_back(parameters[i].grad().to_doubles());
      }
      optimizer->step();
      const nn::StateDict after = optimizer->state_dict();
      for (size_t i = 0; i < 3; ++i) {
        const Elements found = parameters[i].to_doubles();
        std::vector<Elements> next(kind.moments.size());
        for (size_t k = 0; k < found.size(); ++k) {
          std::vector<double> own;
          for (const Elements& state : states[i]) own.push_back(state[k]);
          const double want = updated(kind.name, p_before[i][k], gradients[i][k], static_cast<int>(step) + 1, own);
          for (size_t s = 0; s < own.size(); ++s) next[s].push_back(own[s]);
          ASSERT_NEAR(found[k], want, 2e-6) << "parameter " << i << " element " << k << " step " << step;
        }
        for (size_t s = 0; s < next.size(); ++s)
          expect_packed(after, std::to_string(i) + "." + kind.moments[s].first, kind.moments[s].second, next[s]);
      }
    }
  }
}

TEST_P(PackedState, SmallParametersAndOtherOptimizersAreAsTheyWere) {
  for (const Kind& kind : kinds()) {
    std::vector<Tensor> packed = parameters_on(where()), plain = parameters_on(where());
    const auto first = make(kind.name, packed), second = make(kind.name, plain, nn::StateType::f32);
    for (uint32_t step = 0; step < 2; ++step) {
      set_gradients(packed, step);
      set_gradients(plain, step);
      first->step();
      second->step();
    }
    EXPECT_EQ(packed[3].to_bytes(), plain[3].to_bytes()) << kind.name;
    // Lion's signs are the same so early.
    const bool same = packed[0].to_bytes() == plain[0].to_bytes();
    EXPECT_EQ(same, kind.name == "lion") << kind.name;
    size_t bytes = 0, elements = 0;
    for (const auto& [name, tensor] : first->state_dict()) {
      if (name[0] != '3' && !name.ends_with(".step")) bytes += tensor.to_bytes().size();
    }
    for (size_t i = 0; i < 3; ++i) elements += static_cast<size_t>(block_shapes[i].numel()) * kind.moments.size();
    EXPECT_LT(bytes, elements * 11 / 10) << kind.name;
  }
}

TEST_P(PackedState, HalfPrecisionParameters) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    std::vector<Tensor> packed = parameters_on(where(), dtype), exact = parameters_on(reference(), dtype);
    const auto first = make("adamw", packed), second = make("adamw", exact);
    for (uint32_t step = 0; step < 2; ++step) {
      set_gradients(packed, step);
      set_gradients(exact, step);
      first->step();
      second->step();
    }
    for (size_t i = 0; i < packed.size(); ++i) {
      const Elements found = packed[i].to_doubles(), want = exact[i].to_doubles();
      for (size_t k = 0; k < found.size(); ++k) ASSERT_NEAR(found[k], want[k], dtype == DType::f16 ? 2e-3 : 1.6e-2);
    }
  }
}

// A resumed optimizer goes on bit for bit; states of the other kind are refused, with nothing changed.
TEST_P(PackedState, StatesAreSavedAndLoaded) {
  std::vector<Tensor> parameters = parameters_on(where());
  const auto optimizer = make("adamw", parameters);
  for (uint32_t step = 0; step < 2; ++step) {
    set_gradients(parameters, step);
    optimizer->step();
  }
  std::vector<Tensor> copies;
  for (const Tensor& p : parameters) {
    copies.push_back(
        Tensor::from_bytes(p.to_bytes().data(), static_cast<size_t>(p.numel()), p.dtype(), p.shape(), &where())
            .set_requires_grad());
  }
  const auto resumed = make("adamw", copies);
  resumed->load_state_dict(optimizer->state_dict());
  for (uint32_t step = 2; step < 4; ++step) {
    set_gradients(parameters, step);
    set_gradients(copies, step);
    optimizer->step();
    resumed->step();
  }
  for (size_t i = 0; i < copies.size(); ++i) EXPECT_EQ(copies[i].to_bytes(), parameters[i].to_bytes()) << i;

  nn::StateDict state = optimizer->state_dict();
  const auto plain = make("adamw", copies, nn::StateType::f32);
  expect_error<ValueError>([&] { plain->load_state_dict(state); }, {"missing [0.m", "unexpected [0.m.codes"});
  state["0.m.codes"] = cast(state["0.m.codes"], DType::f32);
  expect_error<DTypeError>([&] { resumed->load_state_dict(state); }, {"[AdamW]", "0.m.codes", "f32", "u8"});
  state["0.m.codes"] = zeros({3, 256}, DType::u8, &where());
  expect_error<ShapeError>([&] { resumed->load_state_dict(state); }, {"0.m.codes", "(3, 256)", "(16, 256)"});
}

TEST_P(PackedState, GradientsThatAreNoNumbers) {
  for (const double bad : {not_a_number, std::numeric_limits<double>::infinity()}) {
    for (const std::optional<double> clip : {std::optional<double>(), std::optional<double>(1.0)}) {
      std::vector<Tensor> parameters = parameters_on(where());
      const auto optimizer = make("adamw", parameters);
      optimizer->set_clip_norm(clip);
      set_gradients(parameters, 0);
      optimizer->step();
      std::map<std::string, std::vector<uint8_t>> before;
      for (const auto& [name, tensor] : optimizer->state_dict()) before[name] = tensor.to_bytes();
      const std::vector<uint8_t> p_before = parameters[0].to_bytes();
      set_gradients(parameters, 1);
      std::vector<float> gradient = uniform(4096, 5, 0.1);
      gradient[300] = static_cast<float>(bad);
      parameters[0].set_grad(Tensor::from_vector(gradient, block_shapes[0], &where()));
      optimizer->step();
      if (clip) {
        EXPECT_EQ(parameters[0].to_bytes(), p_before);
        for (const auto& [name, tensor] : optimizer->state_dict()) {
          if (name.ends_with(".step")) continue;
          EXPECT_EQ(tensor.to_bytes(), before.at(name)) << name;
        }
        continue;
      }
      // The element alone at once, its block from the next update on; no other block ever.
      const Elements p = parameters[0].to_doubles();
      for (size_t i = 0; i < p.size(); ++i) EXPECT_EQ(std::isnan(p[i]), i == 300) << i;
      set_gradients(parameters, 2);
      optimizer->step();
      const Elements later = parameters[0].to_doubles();
      for (size_t i = 0; i < later.size(); ++i) EXPECT_EQ(std::isnan(later[i]), i >= 256 && i < 512) << i;
    }
  }
}

TEST(PackedStates, AreForSinglePrecision) {
  const Tensor wide = zeros({4096}, DType::f64, &reference()).set_requires_grad();
  expect_error<DTypeError>([&] { make("adamw", {wide}); }, {"[AdamW] parameter 0 is f64", "8 bits"});
  // Without momentum there is no state.
  Tensor p = zeros({4096}, DType::f32, &reference()).set_requires_grad();
  nn::SGD plain({p}, {.lr = 0.1, .states = nn::StateType::bits8});
  p.set_grad(ones({4096}, DType::f32, &reference()));
  plain.step();
  EXPECT_EQ(plain.state_dict().size(), 1u);
  EXPECT_NEAR(p.to_doubles().back(), -0.1, 1e-7);
}

INSTANTIATE_TEST_SUITE_P(Devices, PackedState, testing::ValuesIn(test::value_devices()), device_test_name);

// The norm needs all gradients at once; what the largest parameter's moments are unpacked to lies beside its own alone.
class PackedStateMemory : public DeviceTest {};
TEST_P(PackedStateMemory, TheLargestIsUnpackedWhenTheOtherGradientsAreGone) {
  std::vector<Tensor> parameters, inputs;
  int64_t elements = 0;
  for (const int64_t rows : {1024, 256, 256, 256, 256, 256, 256, 256, 256}) {
    const auto stream = static_cast<uint32_t>(parameters.size());
    parameters.push_back(Tensor::from_vector(uniform(rows * 256, stream), {rows, 256}, &device()).set_requires_grad());
    inputs.push_back(Tensor::from_vector(uniform(4 * rows, 100 + stream), {4, rows}, &device()));
    elements += rows * 256;
  }
  eval(parameters);
  eval(inputs);
  const auto optimizer = make("adamw", parameters);
  optimizer->set_clip_norm(1);
  device().reset_peak_memory();
  const uint64_t before = device().memory().live_bytes;
  for (int step = 0; step < 2; ++step) {
    Tensor loss = zeros({}, DType::f32, &device());
    for (size_t i = 0; i < parameters.size(); ++i) {
      const Tensor y = matmul(inputs[i], parameters[i]);
      loss = loss + sum(y * y);
    }
    backward(loss);
    optimizer->update();
    optimizer->zero_grad();
    eval({loss});
  }
  const auto gradients = static_cast<uint64_t>(elements) * 4, states = static_cast<uint64_t>(elements) * 2;
  EXPECT_LT(device().memory().peak_bytes - before, gradients + states + (uint64_t{1} << 20));
}
HEDDLE_DEVICE_TESTS(PackedStateMemory);

}  // namespace
}  // namespace heddle::tests
