// Llamas out of GGUF files: packed and unpacked weights, rows of heads put into order, files that do not fit.
#include "heddle/nn/models/llama_gguf.h"

#include <algorithm>
#include <cmath>

#include "heddle/nn/nn.h"
#include "tests/nn/support.h"
#include "tests/support/coverage.h"
#include "tests/support/device_test.h"
#include "tests/support/packed_blocks.h"
#include "tests/support/temporary_folder.h"

namespace heddle::tests {
namespace {

using test::TinyLlamaFile;

Gguf opened(const TinyLlamaFile& file) { return Gguf::of(FileBytes::of(file.bytes()), "tiny"); }

Tensor text(DeviceContext& where, int64_t length = 11) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < length; ++i) tokens.push_back(static_cast<int32_t>(i * i * 7 + 3) % 261);
  return Tensor::from_vector(tokens, {1, length}, &where);
}

class LlamaGgufTest : public DeviceTest {};

// Q4_K and Q6_K need rows of 256 elements: tests/conformance/packed_matmul_test.cpp.
TEST_P(LlamaGgufTest, PackedWeightsAreTheirNumbers) {
  const NoGradScope no_grad;
  size_t number = 0;
  for (const GgmlType type : {GgmlType::q4_0, GgmlType::q4_1, GgmlType::q8_0, GgmlType::f16, GgmlType::bf16}) {
    if (!takes_case(GetParam(), "", number++)) continue;
    const Gguf file = opened(TinyLlamaFile(type, type != GgmlType::q4_0));
    nn::Llama packed = nn::load_llama(file, "tiny", device());
    nn::Llama plain = nn::load_llama(file, "tiny", reference(), nn::GgufWeights::unpacked);
    for (const int64_t length : {1, 11}) {
      const Values expected = plain(text(reference(), length)).to_doubles();
      const Values found = packed(text(device(), length)).to_doubles();
      ASSERT_EQ(found.size(), expected.size());
      for (size_t i = 0; i < found.size(); ++i)
        ASSERT_NEAR(found[i], expected[i], 2e-3 * (1 + std::abs(expected[i]))) << block_of(type).name << " at " << i;
    }
    const double rounding = block_of(type).elements > 1 ? 1e-3 : 3e-2;  // a cache in 16 bits
    const nn::DecoderPtr decoder = nn::cached_decoder(packed, 1, 32);
    decoder->read(text(device(), 10));
    const Values whole = packed(text(device())).to_doubles();
    const Values last = decoder->step(squeeze(slice(text(device()), 1, {.start = 10, .stop = 11}), 1)).to_doubles();
    for (size_t i = 0; i < last.size(); ++i)
      ASSERT_NEAR(last[i], whole[whole.size() - last.size() + i], rounding * (1 + std::abs(last[i]))) << i;
  }
}

// Where the device reads the mapped file, too.
TEST_P(LlamaGgufTest, AssignedWeightsLeaveTheMappedFileAlone) {
  const NoGradScope no_grad;
  const test::TemporaryFolder folder;
  const std::string path = folder / "tiny.gguf";
  TinyLlamaFile(GgmlType::q4_1).write(path);
  const Gguf file = Gguf::map(path);
  const std::vector<uint8_t> before(file.file()->bytes().begin(), file.file()->bytes().end());
  nn::Llama mapped = nn::load_llama(file, path, device());
  nn::Llama copied = nn::load_llama(Gguf::read(path), path, device());
  EXPECT_EQ(mapped(text(device())).to_doubles(), copied(text(device())).to_doubles());
  Tensor weight = mapped.state_dict().at("model.embed_tokens.weight");
  weight.assign(zeros(weight.shape(), DType::u8, &device()));
  for (const double byte : weight.to_doubles()) ASSERT_EQ(byte, 0);
  EXPECT_TRUE(std::equal(before.begin(), before.end(), file.file()->bytes().begin()));
}
HEDDLE_DEVICE_TESTS(LlamaGgufTest);

TEST(LlamaGguf, RowsOfHeadsAreHalvesHere) {
  TinyLlamaFile file(GgmlType::f32);
  const nn::Llama model = nn::load_llama(opened(file), "tiny", reference());
  const Values turned = model.state_dict().at("model.layers.1.self_attn.k_proj.weight").to_doubles();
  const std::vector<uint8_t>& bytes = file.tensors.at("blk.1.attn_k.weight").bytes;
  std::vector<float> rows(bytes.size() / 4);
  dequantise(GgmlType::f32, bytes, rows);
  // Head 1, pair 3: rows 16 + 6 and 16 + 7 of the file.
  for (size_t k = 0; k < 64; ++k) {
    EXPECT_EQ(turned[(16 + 3) * 64 + k], rows[(16 + 6) * 64 + k]);
    EXPECT_EQ(turned[(16 + 8 + 3) * 64 + k], rows[(16 + 7) * 64 + k]);
  }
}

TEST(LlamaGguf, ReadsOptions) {
  const nn::LlamaOptions o = nn::llama_options(opened(TinyLlamaFile(GgmlType::q8_0, false)), "tiny");
  EXPECT_EQ(nn::describe(o), nn::describe(nn::LlamaOptions{.vocabulary = 261,
                                                           .context = 96,
                                                           .layers = 2,
                                                           .heads = 4,
                                                           .key_heads = 2,
                                                           .width = 64,
                                                           .hidden = 96,
                                                           .eps = static_cast<double>(1e-5F),
                                                           .rope_base = 1000}));
  EXPECT_TRUE(nn::llama_options(opened(TinyLlamaFile()), "tiny").tied);
}

TEST(LlamaGguf, RefusesFilesThatDoNotFit) {
  const auto refused = [](auto change, const char* why) {
    TinyLlamaFile file;
    change(file);
    const Gguf read = opened(file);
    expect_error<IoError>([&] { nn::load_llama(read, "tiny", reference()); }, {why});
  };
  refused([](auto& f) { f.texts["general.architecture"] = "rwkv6"; },
          "[gguf] tiny: the architecture is 'rwkv6'; read are gemma2, gemma3, llama, phi3, qwen2, qwen3");
  refused([](auto& f) { f.numbers.erase("llama.block_count"); }, "llama.block_count");
  refused([](auto& f) { f.texts["llama.block_count"] = "2", f.numbers.erase("llama.block_count"); }, "whole number");
  refused([](auto& f) { f.numbers["llama.block_count"] = 0; }, "llama.block_count is 0");
  refused([](auto& f) { f.numbers["llama.block_count"] = 1u << 30; }, "expected 1 to 10000");
  refused([](auto& f) { f.numbers["llama.block_count"] = 3; }, "blk.2.attn_q.weight, blk.2.attn_v.weight");
  refused([](auto& f) { f.numbers["llama.block_count"] = 1; }, "that no such model has: blk.1.attn_k.weight");
  refused([](auto& f) { f.numbers["llama.attention.head_count"] = 5; }, "5 heads and 2 of keys do not fit");
  refused([](auto& f) { f.numbers["llama.embedding_length"] = 128; }, "llama.rope.dimension_count is 16");
  refused([](auto& f) { f.numbers["llama.feed_forward_length"] = 160; }, "blk.0.ffn_down.weight (64, 96) instead of");
  refused([](auto& f) { f.numbers["llama.expert_count"] = 8; }, "mixture of experts");
  refused([](auto& f) { f.texts["llama.rope.scaling.type"] = "yarn"; }, "scaled ('yarn')");
  const auto rope_factors = [](int64_t count) {
    return [count](auto& f) {
      f.tensors["rope_freqs.weight"] = {GgmlType::f32, {count}, test::random_blocks(GgmlType::f32, count, 1)};
    };
  };
  refused(rope_factors(8), "rope_factors must be above 0");
  refused(rope_factors(16), "rope_freqs.weight (16) does not fit heads whose 16 elements turn");
  refused(
      [](auto& f) {
        f.tensors.erase("token_embd.weight");
        f.tensors.erase("blk.0.attn_norm.weight");
      },
      "token_embd.weight");
}

}  // namespace
}  // namespace heddle::tests
