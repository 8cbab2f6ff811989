// The contract of core/contract/device.h: what kernels see, and which are refused.
#include <algorithm>
#include <bit>
#include <cmath>

#include "heddle/core/contract/kernel_compiler.h"
#include "heddle/core/dialect/printer.h"
#include "tests/conformance/device_contract.h"

namespace heddle {
namespace {

using namespace device_contract;

// What a compiler made for a device is loaded by another object of it, and by none of another backend.
TEST_P(DeviceContract, LoadsWhatACompilerMade) {
  const KernelBinary binary = compile_kernel(increment_source(), dev().caps());
  EXPECT_EQ(binary_fault(binary), "");
  const KernelBinary* const binaries[] = {&binary, &binary};
  const std::vector<KernelId> kernels = dev().load_all(binaries);
  ASSERT_EQ(kernels.size(), 2u);
  const BufferId x = dev().alloc(4);
  const int32_t forty = 40;
  dev().write(x, 0, &forty, 4);
  dev().submit(
      record({Dispatch{kernels[0], {1, 1, 1}, {{x, 0, 4}}, {1}}, Dispatch{kernels[1], {1, 1, 1}, {{x, 0, 4}}, {1}}}));
  int32_t value = 0;
  dev().read(x, 0, &value, 4);
  EXPECT_EQ(value, 42);

  KernelBinary other = binary;
  other.kind = binary.kind == KernelBinary::Kind::cuda ? KernelBinary::Kind::opencl_c : KernelBinary::Kind::cuda;
  const KernelBinary* const foreign[] = {&other};
  EXPECT_THROW(dev().load_all(foreign), DeviceError);
  other = binary;
  other.signature.group = {dev().caps().max_group[0] + 1, 1, 1};
  EXPECT_THROW(dev().load_all(foreign), LimitError);
}

// Every f16, as drivers that cannot convert halves read it (PrintOptions::halves_by_integers).
TEST_P(DeviceContract, HalvesByIntegers) {
  const Caps caps = dev().caps();
  if (caps.target != Target::glsl) GTEST_SKIP() << "the option is GLSL's";
  const KernelSource source = elementwise("halves", {{"h", DType::f16, Access::read}, {"f", DType::i32, Access::write}},
                                          {}, "STORE(f, i, CAST(int, AS_UINT(LOAD(h, i))));");
  PrintOptions options = print_options(caps);
  options.texel_images = caps.texel_images;
  options.halves_by_integers = true;
  KernelBinary binary = compile_kernel(source, caps);
  binary.text = print(source, Target::glsl, options);
  binary.bytes = builtin_compiler(Target::glsl)->compile_text(binary.text, source.name, caps);
  const KernelBinary* const binaries[] = {&binary};
  const KernelId kernel = dev().load_all(binaries).front();

  constexpr uint32_t n = 65536;
  std::vector<uint16_t> halves(n);
  std::iota(halves.begin(), halves.end(), uint16_t{0});
  const BufferId h = dev().alloc(n * 2), f = dev().alloc(n * 4);
  dev().write(h, 0, halves.data(), n * 2);
  dev().submit(record({Dispatch{kernel, {groups_for(n), 1, 1}, {{h, 0, n * 2}, {f, 0, n * 4}}, {n}}}));
  std::vector<uint32_t> bits(n);
  dev().read(f, 0, bits.data(), n * 4);
  for (uint32_t i = 0; i < n; ++i) {
    const float expected = f16_to_f32(halves[i]);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(std::bit_cast<float>(bits[i]))) << i;
    } else {
      EXPECT_EQ(bits[i], std::bit_cast<uint32_t>(expected)) << i;
    }
  }
}

TEST_P(DeviceContract, ConstantsAndManyBindingsAtOffsets) {
  constexpr uint32_t n = 45;
  const uint64_t stride =
      (n * 4 + dev().caps().buffer_alignment - 1) / dev().caps().buffer_alignment * dev().caps().buffer_alignment;
  const KernelSource source =
      elementwise("many",
                  {{"a", DType::f32, Access::read},
                   {"b", DType::f32, Access::read},
                   {"c", DType::i32, Access::read},
                   {"d", DType::f32, Access::read},
                   {"out", DType::f32, Access::write},
                   {"index", DType::i32, Access::write}},
                  {{"scale", ConstParam::Type::f32}, {"shift", ConstParam::Type::i32}, {"base", ConstParam::Type::u32}},
                  "STORE(out, i, LOAD(a, i) * scale + LOAD(b, i) - LOAD(d, i));\n"
                  "    STORE(index, i, LOAD(c, i) + shift + CAST(int, base));");
  const KernelId kernel = dev().compile(source);
  const BufferId arena = dev().alloc(7 * stride);
  const RecordingId clear = record({Fill{{arena, 0, 7 * stride}, 0x7fc00000u}});
  dev().submit(clear);
  std::vector<float> a(n), b(n), d(n), out(n);
  std::vector<int32_t> c(n), index(n);
  for (uint32_t i = 0; i < n; ++i) {
    a[i] = static_cast<float>(i) * 0.5f;
    b[i] = 100.0f - static_cast<float>(i);
    c[i] = static_cast<int32_t>(i) - 20;
    d[i] = static_cast<float>(i % 3);
  }
  dev().write(arena, 0, a.data(), n * 4);
  dev().write(arena, stride, b.data(), n * 4);
  dev().write(arena, 2 * stride, c.data(), n * 4);
  dev().write(arena, 3 * stride, d.data(), n * 4);
  const float scale = -4.0f;
  uint32_t scale_bits;
  std::memcpy(&scale_bits, &scale, 4);
  std::vector<Binding> bindings;
  for (const uint64_t slot : {0, 1, 2, 3, 4, 6}) bindings.push_back({arena, slot * stride, n * 4});
  const RecordingId work = record(
      {Dispatch{kernel, {groups_for(n), 1, 1}, bindings, {n, scale_bits, static_cast<uint32_t>(-7), 4000000000u}}});
  dev().submit(work);
  dev().read(arena, 4 * stride, out.data(), n * 4);
  dev().read(arena, 6 * stride, index.data(), n * 4);
  for (uint32_t i = 0; i < n; ++i) {
    EXPECT_EQ(out[i], a[i] * scale + b[i] - d[i]) << i;  // exact: small multiples of 0.5
    EXPECT_EQ(index[i], static_cast<int32_t>(static_cast<uint32_t>(c[i] - 7) + 4000000000u)) << i;
  }
  uint32_t guard = 0;
  dev().read(arena, 4 * stride + n * 4, &guard, 4);
  if (n * 4 < stride) {
    EXPECT_EQ(guard, 0x7fc00000u);
  }
  dev().read(arena, 5 * stride, &guard, 4);
  EXPECT_EQ(guard, 0x7fc00000u);
}

TEST_P(DeviceContract, GroupsOfThreeDimensionsAndSharedMemory) {
  KernelSource source;
  source.name = "mirror";
  source.buffers = {{"x", DType::i32, Access::read}, {"out", DType::i32, Access::write}};
  source.shared = {{"tile", "int", 12}};
  source.group = {4, 3, 1};
  source.body =
      "  uint lane = LOCAL_ID(1) * 4u + LOCAL_ID(0);\n"
      "  uint group = (GROUP_ID(2) * NUM_GROUPS(1) + GROUP_ID(1)) * NUM_GROUPS(0) + GROUP_ID(0);\n"
      "  tile[lane] = LOAD(x, group * 12u + lane);\n  BARRIER();\n"
      "  STORE(out, group * 12u + lane, tile[11u - lane] * 10);\n";
  const KernelId kernel = dev().compile(source);
  constexpr uint32_t groups = 5 * 3 * 2, n = groups * 12;
  std::vector<int32_t> values(n), expected(n);
  std::iota(values.begin(), values.end(), 1);
  for (uint32_t i = 0; i < n; ++i) expected[i] = values[i / 12 * 12 + 11 - i % 12] * 10;
  const BufferId x = make(values), out = make(std::vector<int32_t>(n, 0));
  const RecordingId work = record({Dispatch{kernel, {5, 3, 2}, {{x, 0, n * 4}, {out, 0, n * 4}}, {}}});
  dev().submit(work);
  EXPECT_EQ(get(out, n), expected);
}

TEST_P(DeviceContract, StoresEveryElementType) {
  constexpr uint32_t n = 41;
  for (int t = 0; t < dtype_count; ++t) {
    const auto type = static_cast<DType>(t);
    if ((type == DType::f64 && !dev().caps().f64) || (type == DType::i64 && !dev().caps().i64)) continue;
    const size_t bytes = n * size_of(type);
    std::vector<uint8_t> values(bytes), back(bytes + 8, 0xee);
    const bool is_unsigned = type == DType::u8 || type == DType::boolean;
    for (uint32_t i = 0; i < n; ++i)
      store_element(values.data(), type, i, is_unsigned ? i % 7 : static_cast<double>(i) - 20);
    const BufferId x = dev().alloc(bytes), out = dev().alloc(bytes + 8);
    dev().write(x, 0, values.data(), bytes);
    dev().write(out, 0, back.data(), back.size());
    const KernelId kernel = dev().compile(elementwise("copy_" + std::string(name_of(type)),
                                                      {{"x", type, Access::read}, {"out", type, Access::write}}, {},
                                                      "STORE(out, i, LOAD(x, i));"));
    const RecordingId work = record({Dispatch{kernel, {groups_for(n), 1, 1}, {{x, 0, bytes}, {out, 0, bytes}}, {n}}});
    dev().submit(work);
    dev().read(out, 0, back.data(), back.size());
    EXPECT_TRUE(std::equal(values.begin(), values.end(), back.begin())) << name_of(type);
    for (size_t i = bytes; i < back.size(); ++i)
      EXPECT_EQ(back[i], 0xee) << name_of(type) << ": a byte behind the end was written";
  }
}

TEST_P(DeviceContract, CompileErrorCarriesTheLog) {
  auto broken = elementwise("broken", {{"out", DType::i32, Access::write}}, {},
                            "STORE(out, i, not_a_function_of_the_dialect(i));");
  try {
    dev().compile(broken);
    FAIL() << "the kernel compiled";
  } catch (const CompileError& error) {
    EXPECT_NE(error.log().find("not_a_function_of_the_dialect"), std::string::npos) << error.log();
    EXPECT_NE(std::string(error.what()).find("broken"), std::string::npos) << error.what();
  }
  const BufferId x = make({1, 2, 3});
  const KernelId kernel = dev().compile(increment_source());  // the device goes on
  const RecordingId work = record({Dispatch{kernel, {1, 1, 1}, {{x, 0, 12}}, {3}}});
  dev().submit(work);
  EXPECT_EQ(get(x, 3), (std::vector<int32_t>{2, 3, 4}));
}

TEST_P(DeviceContract, RefusesBrokenCommands) {
  const Caps& caps = dev().caps();
  const KernelId kernel = dev().compile(increment_source());
  const BufferId x = make(std::vector<int32_t>(1024, 0));
  const Binding whole{x, 0, 4096};
  const auto dispatch = [&](std::vector<Binding> bindings, std::vector<uint32_t> constants, uint32_t groups = 1) {
    return std::vector<Command>{Dispatch{kernel, {groups, 1, 1}, std::move(bindings), std::move(constants)}};
  };
  EXPECT_THROW(record(dispatch({}, {1})), DeviceError);
  EXPECT_THROW(record(dispatch({whole, whole}, {1})), DeviceError);
  EXPECT_THROW(record(dispatch({whole}, {})), DeviceError);
  EXPECT_THROW(record(dispatch({{x, 0, 4100}}, {1})), DeviceError);
  EXPECT_THROW(record(dispatch({{x, 4096, 4}}, {1})), DeviceError);
  EXPECT_THROW(record(dispatch({{BufferId{987654}, 0, 4}}, {1})), DeviceError);
  if (caps.buffer_alignment > 4) {
    EXPECT_THROW(record(dispatch({{x, 4, 8}}, {1})), DeviceError);
  }
  EXPECT_THROW(record({Dispatch{KernelId{987654}, {1, 1, 1}, {whole}, {1}}}), DeviceError);
  EXPECT_THROW(record({Copy{{x, 0, 8}, {x, 16, 4}}}), DeviceError);
  EXPECT_THROW(record({Fill{{x, 4090, 8}, 0}}), DeviceError);
  if (caps.max_groups[0] < UINT32_MAX) {
    EXPECT_THROW(record(dispatch({whole}, {1}, caps.max_groups[0] + 1)), LimitError);
  }
  EXPECT_THROW(dev().alloc(0), DeviceError);
  EXPECT_THROW(dev().alloc(caps.max_allocation_bytes + 1), LimitError);
  uint32_t value = 0;
  EXPECT_THROW(dev().write(x, 4093, &value, 4), DeviceError);
  EXPECT_THROW(dev().read(x, 5000, &value, 4), DeviceError);
  EXPECT_THROW(dev().wait(Ticket{1u << 30}), DeviceError);
  EXPECT_EQ(get(x, 1024), std::vector<int32_t>(1024, 0));
}

TEST_P(DeviceContract, RefusesKernelsOverTheLimits) {
  const Caps& caps = dev().caps();
  auto wide = increment_source();
  wide.group = {caps.max_group_lanes + 1, 1, 1};
  EXPECT_THROW(dev().compile(wide), LimitError);
  auto greedy = increment_source();
  greedy.shared = {{"tile", "float", caps.shared_bytes / 4 + 1}};
  EXPECT_THROW(dev().compile(greedy), LimitError);
  if (caps.max_binding_bytes >= caps.max_allocation_bytes) GTEST_SKIP() << "no buffer is larger than a binding may be";
  if (caps.max_binding_bytes > (1ull << 30)) GTEST_SKIP() << "one assertion would take gigabytes";
  const BufferId big = dev().alloc(caps.max_binding_bytes + 4);
  const KernelId kernel = dev().compile(increment_source());
  try {
    record({Dispatch{kernel, {1, 1, 1}, {{big, 0, caps.max_binding_bytes + 4}}, {1}}});
    FAIL() << "the binding was accepted";
  } catch (const LimitError& error) {
    EXPECT_NE(std::string(error.what()).find("max_binding_bytes"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace heddle
