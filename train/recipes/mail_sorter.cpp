// mail-sorter: postal codes, digit by digit; a piece with a doubtful digit goes to a person.
#include <fmt/format.h>

#include <algorithm>

#include "heddle/core/base/error.h"
#include "heddle/core/functions/functions.h"
#include "heddle/data/batcher.h"
#include "heddle/train/recipes/digits.h"
#include "heddle/train/recipes/image_classifier.h"
#include "heddle/train/recipes/pictures.h"
#include "heddle/train/recipes/recipes.h"
#include "heddle/train/risk_coverage.h"

namespace heddle::train {
namespace {

// Trains on single digits; those of an evaluation are dealt into pieces of mail.
class MailSorter final : public ImageClassifier {
 public:
  explicit MailSorter(const TaskRequest& r)
      : ImageClassifier(make_lenet(r.config, {.channels = 1, .side = digit_side, .classes = 10}, r.device),
                        read_digits(r.config), r.config, r.device),
        length_(r.config.model_value<Integer>("length")),
        threshold_(r.config.model_value<Number>("threshold")) {
    for (const data::DatasetPtr& images : {data().test, data().validation}) {
      if (images && (length_ < 1 || length_ > images->size()))
        throw ValueError(fmt::format("[mail-sorter] a piece of {} digits cannot be made of {} {} images", length_,
                                     images->size(), images == data().test ? "test" : "validation"));
    }
    if (!(threshold_ >= 0 && threshold_ <= 1))
      throw ValueError(fmt::format("[mail-sorter] the threshold is {}, expected a probability", threshold_));
  }

 protected:
  Evaluation measure(const data::DatasetPtr& images) override {
    Digits digits;
    Evaluation e = ImageClassifier::measure(
        images, [&](const Tensor& logits, const Tensor& labels) { digits.add(logits, labels); });
    const Pieces pieces = deal(digits);
    const RiskPoint chosen = risk_at(pieces.confidence, pieces.wrong, threshold_);
    const double right = 1 - risk_at(pieces.confidence, pieces.wrong, 0).risk;
    e.metrics = {{"pieces_right", right},
                 {"decided", chosen.coverage},
                 {"wrong_of_decided", chosen.risk},
                 {"digit_accuracy", e.metric("accuracy")}};
    e.curve = risk_coverage_curve(pieces.confidence, pieces.wrong);
    return e;
  }

 private:
  // Of each image: the probability of what it was taken for, and whether it is that.
  struct Digits {
    std::vector<double> sure;
    std::vector<bool> right;
    void add(const Tensor& logits, const Tensor& labels) {
      const std::vector<double> probability = max(softmax(logits, 1), {1}).to_doubles(),
                                hit = cast(argmax(logits, 1) == labels, DType::f32).to_doubles();
      sure.insert(sure.end(), probability.begin(), probability.end());
      for (const double h : hit) right.push_back(h != 0);
    }
  };
  // A piece is as sure as its most doubtful digit, and wrong if one digit is.
  struct Pieces {
    std::vector<double> confidence;
    std::vector<bool> wrong;
  };
  Pieces deal(const Digits& digits) const {
    const auto images = static_cast<int64_t>(digits.sure.size());
    const std::vector<uint32_t> order = data::shuffled_order(images, 1, 0);
    const int64_t count = images / length_;
    Pieces pieces{std::vector<double>(static_cast<size_t>(count), 1),
                  std::vector<bool>(static_cast<size_t>(count), false)};
    for (int64_t i = 0; i < count * length_; ++i) {
      const auto piece = static_cast<size_t>(i / length_);
      const size_t digit = order[static_cast<size_t>(i)];
      pieces.confidence[piece] = std::min(pieces.confidence[piece], digits.sure[digit]);
      if (!digits.right[digit]) pieces.wrong[piece] = true;
    }
    return pieces;
  }

  int64_t length_;
  double threshold_;
};

}  // namespace

Recipe mail_sorter() {
  std::vector<ModelOption> model = lenet_model();
  model.push_back({"length", Integer{5}, "digits of a piece of mail"});
  model.push_back(
      {"threshold", Number{0.99}, "least probability of every digit of a piece that is sorted without a person"});
  return {.name = "mail-sorter",
          .help = "digit strings with a reject option: a piece with a doubtful digit goes to a person",
          .model = std::move(model),
          .unused = joined(ImageClassifier::unused_options(), own_data_options()),
          .defaults = lenet_defaults,
          .make = [](const TaskRequest& r) -> std::unique_ptr<Task> { return std::make_unique<MailSorter>(r); },
          .predictor =
              [](const TaskRequest& r) {
                return image_predictor(r, make_lenet, {.channels = 1, .side = digit_side, .classes = 10});
              },
          .network =
              [](const TaskRequest& r) {
                return image_network(r, make_lenet, {.channels = 1, .side = digit_side, .classes = 10});
              }};
}

}  // namespace heddle::train
