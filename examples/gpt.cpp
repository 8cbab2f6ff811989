// A small GPT learns a text file, byte by byte, and writes some text: gpt FILE [STEPS].
#include <heddle/heddle.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>

using namespace heddle;

constexpr int64_t vocabulary = 256, context = 64, batch = 12;

// `batch` pieces of the text from random places, and what follows each of their bytes.
std::pair<Tensor, Tensor> draw(const std::string& text, std::mt19937_64& random) {
  std::vector<int32_t> now, next;
  for (int64_t b = 0; b < batch; ++b) {
    const size_t start = std::uniform_int_distribution<size_t>(0, text.size() - context - 1)(random);
    for (size_t t = start; t < start + context; ++t) {
      now.push_back(static_cast<uint8_t>(text[t]));
      next.push_back(static_cast<uint8_t>(text[t + 1]));
    }
  }
  return {Tensor::from_vector(now, {batch, context}), Tensor::from_vector(next, {batch * context})};
}

std::string write(nn::Gpt& model, std::string text, int bytes, std::mt19937_64& random) {
  const NoGradScope no_grad;
  model.eval();
  for (int i = 0; i < bytes; ++i) {
    // Always as many tokens, so that there is one step to compile; what lies behind the text is not looked at.
    const size_t known = std::min<size_t>(text.size(), context);
    std::vector<int32_t> tokens(context, 0);
    for (size_t t = 0; t < known; ++t) tokens[t] = static_cast<uint8_t>(text[text.size() - known + t]);
    const std::vector<double> all = softmax(model(Tensor::from_vector(tokens, {1, context}))).to_doubles();
    const double* chances = all.data() + (known - 1) * vocabulary;
    double left = std::uniform_real_distribution(0.0, 1.0)(random);
    int64_t token = 0;
    while (token + 1 < vocabulary && (left -= chances[token]) > 0) ++token;
    text += static_cast<char>(token);
  }
  return text;
}

int main(int argc, char** argv) {
  if (argc < 2) return std::cerr << "usage: gpt FILE [STEPS]\n", 2;
  std::ifstream file(argv[1], std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (text.size() <= context) return std::cerr << argv[1] << " has no " << context + 1 << " bytes\n", 2;
  const int steps = argc > 2 ? std::atoi(argv[2]) : 500;

  manual_seed(1);
  std::mt19937_64 random(1);
  nn::Gpt model(nn::nanogpt_char_cpu(vocabulary));
  nn::AdamW optimizer(model.parameters(), 1e-3);
  optimizer.set_schedule(nn::schedule::cosine(1e-3, steps));
  for (int step = 1; step <= steps; ++step) {
    const auto [now, next] = draw(text, random);
    const Tensor loss = cross_entropy(reshape(model(now), {-1, vocabulary}), next);
    backward(loss);
    optimizer.step();
    optimizer.zero_grad();
    if (step % 50 == 0) std::cout << "step " << step << "  loss " << loss.item() << std::endl;
  }
  std::cout << write(model, "The ", 200, random) << '\n';
}
