#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "heddle/core/compile/compile.h"
#include "heddle/core/device/context.h"
#include "heddle/nn/generate.h"

namespace heddle::nn {
namespace {

constexpr float impossible = -1e30f;

struct Hypothesis {
  std::vector<int32_t> tokens;
  float score = 0;  // sum of log-probabilities
};

// One search: the device proposes, the host keeps the books.
class Search {
 public:
  Search(Decoder& decoder, const BeamOptions& options)
      : decoder_(decoder), options_(options), beams_(static_cast<size_t>(options.beams)) {
    // At first all beams are the prompt: only one of them counts.
    for (size_t b = 1; b < beams_.size(); ++b) beams_[b].score = impossible;
  }

  std::vector<Beam> run(std::span<const int32_t> prompt) {
    const auto step = compile(
        [this](const Tensor& tokens, const Tensor& order, const Tensor& scores) {
          decoder_.reorder(order);
          return propose(decoder_.step(tokens), scores);
        },
        {.name = "beam_search"});
    std::vector<int32_t> rows;
    for (size_t b = 0; b < beams_.size(); ++b) rows.insert(rows.end(), prompt.begin(), prompt.end());
    const Tensor tokens = upload<int32_t>(rows, {options_.beams, static_cast<int64_t>(prompt.size())});
    std::vector<Tensor> proposed = propose(decoder_.read(tokens), uploaded_scores());
    for (int64_t made = 1;; ++made) {
      choose(proposed[0].to_vector<float>(), proposed[1].to_vector<int64_t>());
      if (made == options_.tokens || is_done()) break;
      proposed =
          step(upload<int32_t>(last_, {options_.beams}), upload<int32_t>(order_, {options_.beams}), uploaded_scores());
    }
    for (const Hypothesis& h : beams_) finish(h);
    std::ranges::stable_sort(finished_, [](const Beam& a, const Beam& b) { return a.score > b.score; });
    finished_.resize(std::min(finished_.size(), beams_.size()));
    return std::move(finished_);
  }

 private:
  template <class T>
  Tensor upload(const std::vector<T>& values, const Shape& shape) const {
    return Tensor::from_vector(values, shape, &decoder_.device());
  }
  Tensor uploaded_scores() const {
    std::vector<float> scores;
    for (const Hypothesis& h : beams_) scores.push_back(h.score);
    return upload(scores, {options_.beams, 1});
  }

  // Twice as many candidates as beams: even if half of them end, every beam goes on.
  std::vector<Tensor> propose(const Tensor& logits, const Tensor& scores) const {
    const Tensor total = reshape(log_softmax(logits) + scores, {-1});
    const Ordered best = topk(total, std::min(2 * options_.beams, total.dim(0)));
    return {best.values, best.indices};
  }

  void choose(const std::vector<float>& scores, const std::vector<int64_t>& places) {
    const std::vector<Hypothesis> before = std::move(beams_);
    beams_.clear();
    order_.clear();
    last_.clear();
    for (size_t i = 0; i < scores.size() && beams_.size() < before.size(); ++i) {
      const auto from = static_cast<size_t>(places[i] / decoder_.vocabulary());
      const auto token = static_cast<int32_t>(places[i] % decoder_.vocabulary());
      if (std::ranges::find(options_.stop, token) != options_.stop.end()) {
        finish({before[from].tokens, scores[i]});
        continue;
      }
      beams_.push_back({before[from].tokens, scores[i]});
      beams_.back().tokens.push_back(token);
      order_.push_back(static_cast<int32_t>(from));
      last_.push_back(token);
    }
    while (beams_.size() < before.size()) {  // a vocabulary smaller than the beams
      beams_.push_back({{}, impossible});
      order_.push_back(0);
      last_.push_back(0);
    }
  }

  double rank(float score, size_t length) const {
    return score / std::pow(static_cast<double>(std::max<size_t>(length, 1)), options_.length_penalty);
  }

  void finish(const Hypothesis& h) {
    if (h.score > impossible / 2) finished_.push_back({h.tokens, rank(h.score, h.tokens.size())});
  }

  // As many have ended as there are beams, and no other can become better as it grows.
  bool is_done() const {
    if (finished_.size() < beams_.size()) return false;
    const auto worst = std::ranges::min_element(finished_, {}, &Beam::score);
    return rank(beams_.front().score, beams_.front().tokens.size()) < worst->score;
  }

  Decoder& decoder_;
  BeamOptions options_;
  std::vector<Hypothesis> beams_;
  std::vector<int32_t> order_, last_;
  std::vector<Beam> finished_;
};

}  // namespace

std::vector<Beam> beam_search(Decoder& decoder, std::span<const int32_t> prompt, const BeamOptions& options) {
  const NoGradScope no_grad;
  if (options.beams < 1 || options.beams > 65536 || options.tokens < 0 || options.tokens > INT32_MAX) {
    throw ValueError(
        fmt::format("[beam_search] {} beams of {} tokens cannot be meant: 1 to 65536 beams, and less than 2^31 tokens",
                    options.beams, options.tokens));
  }
  if (prompt.empty()) throw ValueError("[beam_search] the prompt is empty; a model goes on with at least one token");
  const int64_t length = static_cast<int64_t>(prompt.size()) + options.tokens;
  if (decoder.context() > 0 && length > decoder.context() + 1) {
    throw ValueError(fmt::format("[beam_search] a prompt of {} tokens and {} more do not fit the model's context of {}",
                                 prompt.size(), options.tokens, decoder.context()));
  }
  if (options.tokens == 0) return {Beam{}};
  return Search(decoder, options).run(prompt);
}

}  // namespace heddle::nn
