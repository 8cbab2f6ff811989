// Greedy continuations and perplexities by llama.cpp, for bench/llama_adapter_compare.py, which compiles this against a
// build that the user has.
//
//   llama_greedy MODEL.gguf ADAPTER.gguf|- TOKENS < lines
//
// A line of standard input is a text: prompt of a continuation. Printed is for each the logarithm of its probability a
// token (each given those before it), a tab, and the tokens that follow, with spaces between. Exit code 2 where
// llama.cpp refuses a file. Thread safety: a program.
#include <llama.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

namespace {

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "llama_greedy: %s\n", what);
  std::exit(2);
}

double log_probability(const float* logits, int32_t vocabulary, llama_token token) {
  const double most = *std::max_element(logits, logits + vocabulary);
  double sum = 0;
  for (int32_t i = 0; i < vocabulary; ++i) sum += std::exp(logits[i] - most);
  return logits[token] - most - std::log(sum);
}

std::vector<llama_token> tokens_of(const llama_vocab* vocab, const std::string& text) {
  std::vector<llama_token> tokens(text.size() + 8);
  const int32_t count = llama_tokenize(vocab, text.data(), static_cast<int32_t>(text.size()), tokens.data(),
                                       static_cast<int32_t>(tokens.size()), true, false);
  if (count < 1) fail("a line has no tokens");
  tokens.resize(static_cast<size_t>(count));
  return tokens;
}

void answer(llama_context* context, const llama_vocab* vocab, const std::string& text, int tokens) {
  const int32_t vocabulary = llama_vocab_n_tokens(vocab);
  llama_memory_clear(llama_get_memory(context), true);
  const std::vector<llama_token> prompt = tokens_of(vocab, text);
  llama_token next = 0;
  double sum = 0;
  std::string made;
  for (size_t i = 0; i < prompt.size() + static_cast<size_t>(tokens); ++i) {
    llama_token token = i < prompt.size() ? prompt[i] : next;
    if (i >= prompt.size()) {
      if (llama_vocab_is_eog(vocab, token)) break;
      made += (made.empty() ? "" : " ") + std::to_string(token);
    }
    if (llama_decode(context, llama_batch_get_one(&token, 1)) != 0) fail("llama_decode failed");
    const float* logits = llama_get_logits_ith(context, -1);
    if (i + 1 < prompt.size()) sum += log_probability(logits, vocabulary, prompt[i + 1]);
    next = static_cast<llama_token>(std::max_element(logits, logits + vocabulary) - logits);
  }
  std::printf("%.9f\t%s\n", prompt.size() > 1 ? sum / static_cast<double>(prompt.size() - 1) : 0.0, made.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) fail("usage: llama_greedy MODEL.gguf ADAPTER.gguf|- TOKENS < lines");
  llama_log_set(
      [](ggml_log_level level, const char* text, void*) {
        if (level == GGML_LOG_LEVEL_ERROR) std::fputs(text, stderr);
      },
      nullptr);
  llama_model* model = llama_model_load_from_file(argv[1], llama_model_default_params());
  if (model == nullptr) fail("the model was refused");
  llama_context_params params = llama_context_default_params();
  params.n_ctx = 2048;
  params.n_threads = params.n_threads_batch = 1;  // more of them wait for each other where cores are shared
  params.type_k = params.type_v = GGML_TYPE_F32;
  params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
  llama_context* context = llama_init_from_model(model, params);
  if (context == nullptr) fail("no context could be made");
  if (std::string(argv[2]) != "-") {
    llama_adapter_lora* adapter = llama_adapter_lora_init(model, argv[2]);
    float scale = 1;
    if (adapter == nullptr || llama_set_adapters_lora(context, &adapter, 1, &scale) != 0)
      fail("the adapter was refused");
  }
  for (std::string line; std::getline(std::cin, line);)
    answer(context, llama_model_get_vocab(model), line, std::atoi(argv[3]));
  return 0;
}
