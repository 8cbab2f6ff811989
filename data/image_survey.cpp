#include "heddle/data/image_survey.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

#include "heddle/core/base/error.h"

namespace heddle::data {
namespace {

constexpr size_t most_threads = 16;

// Means of one image, of its values and of their squares, for each channel.
struct Facts {
  std::vector<double> mean, square;
  std::string fault;  // empty: it was read
};

Facts facts_of(const Dataset& images, int64_t index) {
  Facts facts;
  Random random(0, 0, static_cast<uint64_t>(index));
  Sample sample;
  try {
    sample = images.get(index, random);
  } catch (const IoError& error) {
    facts.fault = error.what();
    return facts;
  }
  const Array& image = sample.at(0);
  if (image.dtype != DType::u8 || image.shape.rank() != 3 || image.shape.numel() == 0)
    throw ShapeError(fmt::format("[images] example {} is {} {}; expected pixels u8 (channels, height, width)", index,
                                 image.shape.str(), name_of(image.dtype)));
  const auto channels = static_cast<size_t>(image.shape[0]), plane = image.bytes.size() / channels;
  const std::span<const uint8_t> pixels = image.as<uint8_t>();
  for (size_t c = 0; c < channels; ++c) {
    uint64_t sum = 0, squares = 0;
    for (const uint8_t value : pixels.subspan(c * plane, plane)) {
      sum += value;
      squares += uint64_t{value} * value;
    }
    facts.mean.push_back(static_cast<double>(sum) / 255 / static_cast<double>(plane));
    facts.square.push_back(static_cast<double>(squares) / (255.0 * 255) / static_cast<double>(plane));
  }
  return facts;
}

// Images are taken one after the other by whoever is free.
class Readers {
 public:
  explicit Readers(const Dataset& images) : images_(images), facts_(static_cast<size_t>(images.size())) {}

  std::vector<Facts> run() {
    const size_t wanted = std::clamp<size_t>(std::thread::hardware_concurrency(), 1, most_threads);
    std::vector<std::thread> others;
    try {
      for (size_t i = 1; i < std::min(wanted, facts_.size()); ++i) others.emplace_back([this] { work(); });
    } catch (const std::system_error&) {  // with those that the system has
    }
    work();
    for (std::thread& other : others) other.join();
    if (error_) std::rethrow_exception(error_);
    return std::move(facts_);
  }

 private:
  void work() noexcept {
    for (size_t i = next_++; i < facts_.size(); i = next_++) {
      try {
        facts_[i] = facts_of(images_, static_cast<int64_t>(i));
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (!error_) error_ = std::current_exception();
        next_ = facts_.size();
      }
    }
  }

  const Dataset& images_;
  std::vector<Facts> facts_;
  std::atomic<size_t> next_{0};
  std::mutex mutex_;
  std::exception_ptr error_;
};

Statistics statistics_of(const std::vector<Facts>& all, const std::vector<int64_t>& whole) {
  Statistics s;
  if (whole.empty()) return s;
  const size_t channels = all[static_cast<size_t>(whole[0])].mean.size();
  for (size_t c = 0; c < channels; ++c) {
    double mean = 0, square = 0;
    for (const int64_t i : whole) {
      const Facts& facts = all[static_cast<size_t>(i)];
      if (facts.mean.size() != channels)
        throw ShapeError(
            fmt::format("[images] example {} has {} channels, the first {}", i, facts.mean.size(), channels));
      mean += facts.mean[c] / static_cast<double>(whole.size());
      square += facts.square[c] / static_cast<double>(whole.size());
    }
    s.mean.push_back(mean);
    s.deviation.push_back(std::max(1.0 / 255, std::sqrt(std::max(0.0, square - mean * mean))));
  }
  return s;
}

}  // namespace

ImageSurvey survey_images(const Dataset& images, bool skip) {
  const std::vector<Facts> facts = Readers(images).run();
  ImageSurvey survey;
  for (size_t i = 0; i < facts.size(); ++i) {
    if (facts[i].fault.empty())
      survey.whole.push_back(static_cast<int64_t>(i));
    else
      survey.broken.push_back(facts[i].fault);
  }
  if (!skip && !survey.broken.empty())
    throw IoError(fmt::format("{}; {} of {} images cannot be read; --skip-broken leaves them out", survey.broken[0],
                              survey.broken.size(), facts.size()));
  survey.statistics = statistics_of(facts, survey.whole);
  return survey;
}

}  // namespace heddle::data
