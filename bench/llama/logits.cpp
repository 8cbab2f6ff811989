// Tokens and logits of texts by llama.cpp, for bench/llama_logits_compare.py, which compiles this against a build that
// the user has.
//
//   llama_logits MODEL.gguf MOST OUT < texts
//
// Standard input: for each text its bytes' number (int32) and the bytes. OUT: the size of the vocabulary (int32), then
// for each text the number of tokens, of which at most MOST are read (int32), the tokens, and their logits (float32).
// Exit code 2 where llama.cpp refuses a file. Thread safety: a program.
#include <llama.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

namespace {

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "llama_logits: %s\n", what);
  std::exit(2);
}

std::vector<llama_token> tokens_of(const llama_vocab* vocab, const std::string& text, size_t most) {
  std::vector<llama_token> tokens(text.size() + 8);
  const int32_t count = llama_tokenize(vocab, text.data(), static_cast<int32_t>(text.size()), tokens.data(),
                                       static_cast<int32_t>(tokens.size()), true, false);
  if (count < 0) fail("a text has more tokens than bytes");
  tokens.resize(std::min(static_cast<size_t>(count), most));
  return tokens;
}

void put(std::ofstream& out, const void* values, size_t bytes) {
  out.write(static_cast<const char*>(values), static_cast<std::streamsize>(bytes));
}

void answer(llama_context* context, const llama_vocab* vocab, std::vector<llama_token> tokens, std::ofstream& out) {
  const auto count = static_cast<int32_t>(tokens.size());
  const auto vocabulary = static_cast<size_t>(llama_vocab_n_tokens(vocab));
  put(out, &count, sizeof count);
  put(out, tokens.data(), tokens.size() * sizeof tokens[0]);
  llama_memory_clear(llama_get_memory(context), true);
  for (llama_token& token : tokens) {
    if (llama_decode(context, llama_batch_get_one(&token, 1)) != 0) fail("llama_decode failed");
    put(out, llama_get_logits_ith(context, -1), vocabulary * sizeof(float));
  }
}

llama_context* context_of(llama_model* model) {
  llama_context_params params = llama_context_default_params();
  params.n_ctx = 2048;
  params.n_threads = params.n_threads_batch = 1;  // more of them wait for each other where cores are shared
  params.type_k = params.type_v = GGML_TYPE_F32;
  params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
  llama_context* context = llama_init_from_model(model, params);
  if (context == nullptr) fail("no context could be made");
  return context;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) fail("usage: llama_logits MODEL.gguf MOST OUT < texts");
  llama_log_set(
      [](ggml_log_level level, const char* text, void*) {
        if (level == GGML_LOG_LEVEL_ERROR) std::fputs(text, stderr);
      },
      nullptr);
  llama_model* model = llama_model_load_from_file(argv[1], llama_model_default_params());
  if (model == nullptr) fail("the model was refused");
  llama_context* context = context_of(model);
  const llama_vocab* vocab = llama_model_get_vocab(model);
  std::ofstream out(argv[3], std::ios::binary);
  const int32_t vocabulary = llama_vocab_n_tokens(vocab);
  put(out, &vocabulary, sizeof vocabulary);
  for (int32_t bytes = 0; std::cin.read(reinterpret_cast<char*>(&bytes), sizeof bytes);) {
    std::string text(static_cast<size_t>(bytes), '\0');
    if (!std::cin.read(text.data(), bytes)) fail("the last text is cut off");
    answer(context, vocab, tokens_of(vocab, text, std::strtoul(argv[2], nullptr, 10)), out);
  }
  return out.flush() ? 0 : 2;
}
