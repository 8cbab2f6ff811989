// `heddle export` of a model with what was trained beside it, as files that say the same.
#include "heddle/core/base/path.h"
#include "heddle/data/pipeline_tokenizer.h"
#include "tests/cli/finetune_fixture.h"
#include "tests/cli/user_error.h"
#include "tests/data/sentence_piece_file.h"
#include "tests/support/packed_blocks.h"

namespace heddle {
namespace {

using test::expect_user_error;
using FinetuneExport = test::FinetuneCommand;

TEST_F(FinetuneExport, MergedModelsSayTheSame) {
  trained("run");
  const std::string adapter = folder / "run/adapter", hf = folder / "merged", gguf = folder / "merged.gguf";
  const std::string wanted = said({"--adapter", adapter});
  const auto exported = [&](const std::string& out, Words more) {
    more.insert(more.begin(), {"export", model, "--adapter", adapter, "-o", out, "--device", "reference:0"});
    return json(more);
  };
  EXPECT_EQ(exported(hf, {})["tensors"], (Json{{"F32", 21}}));
  EXPECT_EQ(json({"generate", hf, "--device", "reference:0", "--prompt", "what follows 3?", "--tokens", "12",
                  "--greedy"})["text"],
            wanted);
  // The tokenizer is this library's own, which no GGUF file names.
  expect_user_error({"export", model, "-o", gguf, "--type", "f32"}, "save a folder instead");
  EXPECT_FALSE(fs::exists(gguf));
  test::TinyLlamaFile(GgmlType::q4_1).write(gguf);
  const std::string half = folder / "half.gguf";
  EXPECT_EQ(json({"export", gguf, "-o", half, "--type", "f16", "--device", "reference:0"})["tensors"],
            (Json{{"F32", 5}, {"F16", 15}}));
  expect_user_error({"export", model, "-o", hf}, "is no empty folder");
  expect_user_error({"export", model, "-o", gguf, "--type", "q5_k"}, "--type q5_k is none of f32");
  expect_user_error({"export", model, "-o", folder / "m.onnx"}, "a .gguf file or a folder");
  expect_user_error({"export", model, "-o", folder / "new", "--type", "q4_0"}, "f32, f16 or bf16");
  expect_user_error({"export", gguf, "-o", folder / "new"}, "is written as a .gguf file");
  expect_user_error({"export", gguf, "-o", gguf}, "is the model itself");
  expect_user_error({"export", "mlp", "-o", "m.onnx", "--adapter", adapter}, "--adapter and --type are for");
}

// A folder with SentencePiece's tokenizer as a GGUF file: the same tokens, logits and text.
TEST_F(FinetuneExport, SentencePieceBecomesAGgufFile) {
  const auto tokenizer = test::SentencePieceFile().read().tokenizer;
  write("hf/tokenizer.json", dynamic_cast<const data::PipelineTokenizer&>(*tokenizer).tokenizer_json());
  write_model(tokenizer->size());
  const std::string gguf = folder / "m.gguf";
  EXPECT_EQ(json({"export", model, "-o", gguf, "--type", "f32", "--device", "reference:0"})["tensors"],
            (Json{{"F32", 21}}));
  const auto answer = [&](const std::string& from, Words more) {
    more.insert(more.begin(), {"generate", from, "--device", "reference:0", "--prompt", "the loom's h\u00E9ddles"});
    return json(more);
  };
  EXPECT_EQ(answer(gguf, {"--greedy", "--tokens", "12"})["text"],
            answer(model, {"--greedy", "--tokens", "12"})["text"]);
  const Json found = answer(gguf, {"--perplexity", "64"}), wanted = answer(model, {"--perplexity", "64"});
  EXPECT_EQ(found["prompt"], wanted["prompt"]);
  EXPECT_NEAR(found["perplexity"].get<double>(), wanted["perplexity"].get<double>(), 1e-3);
}

}  // namespace
}  // namespace heddle
