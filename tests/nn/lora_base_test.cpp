// Adapters know their base: its digest in the file, bases of the same shapes with other norms, and copies in bf16. That
// folders and GGUF files of a model agree is said in llama_gguf_families_test.cpp and llama_merged_test.cpp.
#include "heddle/io/safetensors.h"
#include "heddle/nn/lora_files.h"
#include "heddle/nn/models/llama_digest.h"
#include "heddle/nn/nn.h"
#include "tests/nn/lora_support.h"
#include "tests/nn/support.h"
#include "tests/support/temporary_folder.h"

namespace heddle::tests {
namespace {

// Norms have values that bf16 holds, those of the first one a little above `norm`.
nn::Llama make(double norm) {
  Generator generator{.seed = 5};
  nn::Llama model({.vocabulary = 19, .context = 16, .layers = 2, .heads = 4, .key_heads = 2, .width = 24, .hidden = 20},
                  {.device = reference(), .generator = &generator});
  model.eval();
  const NoGradScope no_grad;
  for (auto& [name, p] : model.state_dict()) {
    if (name.ends_with("norm.weight")) Tensor(p).assign(full(p.shape(), norm += 0.25, DType::f32, &reference()));
  }
  return model;
}

TEST(LoraBase, AnotherOneIsRefused) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "a";
  nn::Llama model = make(0.5), copy = make(0.5), other = make(0.75), half = make(0.5);
  half.to(DType::bf16);
  const std::string own = nn::digest_of(model), theirs = nn::digest_of(other);
  EXPECT_EQ(own.size(), 64u);
  EXPECT_NE(own, theirs);
  EXPECT_EQ(own, nn::digest_of(half));
  const nn::Lora lora = adapters(model, {.rank = 2});
  nn::save_peft(path, lora, "some/base", own);
  EXPECT_EQ(read_safetensors(path + "/adapter_model.safetensors").metadata.at("heddle.base"), own);

  const Values before = logits(other);
  const std::string both = own.substr(0, 8) + ", this is " + theirs.substr(0, 8);
  expect_error<IoError>([&] { nn::load_peft(path, other); }, {"[adapter]", both.c_str()});
  EXPECT_EQ(logits(other), before);
  EXPECT_TRUE(other.parameters()[0].requires_grad());
  const nn::Lora taken = nn::load_peft(path, copy), by_half = nn::load_peft(path, half);
  EXPECT_EQ(logits(copy), logits(model));

  const nn::StateDict state = lora.state_dict();
  const auto with = [&](const Metadata& metadata) {
    save_safetensors(path + "/adapter_model.safetensors", TensorMap(state.begin(), state.end()), metadata);
  };
  with({{"heddle.base", "me"}});
  expect_error<IoError>([&] { nn::load_peft(path, other); }, {"heddle.base is 'me', no SHA-256"});
  with({{"format", "pt"}});  // of PEFT
  EXPECT_EQ(nn::load_peft(path, other).paths(), lora.paths());
}

}  // namespace
}  // namespace heddle::tests
