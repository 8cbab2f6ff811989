// train/model_parallel/stages.h: blocks follow each other in places, and the fullest place has as little as can be.
#include "heddle/train/model_parallel/stages.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "heddle/nn/models/gpt.h"

namespace heddle::train {
namespace {

// Multiply-adds of a token, in blocks of the model: a block has its weights' and two for each position and width.
double vocabulary_in_blocks(const nn::GptOptions& o) {
  const double weights = 4.0 * 3 * static_cast<double>(o.width * o.width),
               attention = 2.0 * static_cast<double>(o.context * o.width);
  return static_cast<double>(o.vocabulary * o.width) / (weights + attention);
}

double fullest(const std::vector<nn::BlockRange>& places, double last) {
  double most = 0;
  for (size_t i = 0; i < places.size(); ++i) {
    const auto blocks = static_cast<double>(places[i].second - places[i].first);
    most = std::max(most, blocks + (i + 1 == places.size() ? last : 0));
  }
  return most;
}

// Over all ways to cut the blocks.
double least_of_all(int64_t blocks, int64_t places, double last) {
  if (places == 1) return static_cast<double>(blocks) + last;
  double least = 1e9;
  for (int64_t first = 1; first <= blocks - places + 1; ++first)
    least = std::min(least, std::max(static_cast<double>(first), least_of_all(blocks - first, places - 1, last)));
  return least;
}

std::vector<nn::BlockRange> places_of(const Config& config, int64_t ranks, const nn::GptOptions& model) {
  std::vector<nn::BlockRange> places;
  const Stages stages = stages_of(config, {.ranks = ranks, .place = 0}, model);
  for (int64_t place = 0; place < stages.places(); ++place) places.push_back(stages.at(place));
  return places;
}

TEST(Stages, TheFullestHasTheLeastOperations) {
  for (const int64_t vocabulary : {65, 5'000, 50'257}) {
    for (const int64_t layers : {4, 7, 12}) {
      for (const int64_t ranks : {1, 2, 3, 4}) {
        nn::GptOptions model = nn::gpt2();
        model.vocabulary = vocabulary;
        model.layers = layers;
        const std::vector<nn::BlockRange> places = places_of(Config(), ranks, model);
        ASSERT_EQ(places.size(), static_cast<size_t>(ranks));
        EXPECT_EQ(places.front().first, 0);
        EXPECT_EQ(places.back().second, layers);
        for (size_t i = 0; i + 1 < places.size(); ++i) EXPECT_EQ(places[i].second, places[i + 1].first);
        for (const auto& [first, second] : places) EXPECT_LT(first, second);
        const double last = vocabulary_in_blocks(model);
        EXPECT_NEAR(fullest(places, last), least_of_all(layers, ranks, last), 1e-9) << vocabulary << " " << layers;
      }
    }
  }
}

TEST(Stages, OfKnownModels) {
  using Ranges = std::vector<nn::BlockRange>;
  EXPECT_EQ(places_of(Config(), 2, nn::gpt2()), (Ranges{{0, 8}, {8, 12}}));  // its vocabulary is 4.5 blocks
  EXPECT_EQ(places_of(Config(), 2, nn::nanogpt_char_cpu()), (Ranges{{0, 2}, {2, 4}}));
  Config interleaved;
  interleaved.training.pipeline = "interleaved";
  EXPECT_EQ(places_of(interleaved, 2, nn::nanogpt_char_cpu()), (Ranges{{0, 1}, {1, 2}, {2, 3}, {3, 4}}));
  EXPECT_EQ(places_of(interleaved, 1, nn::nanogpt_char_cpu()), (Ranges{{0, 4}}));
}

}  // namespace
}  // namespace heddle::train
