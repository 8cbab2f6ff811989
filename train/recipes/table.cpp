// table: classes or numbers from the rows of a CSV file.
#include "heddle/data/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/functions/nn/losses.h"
#include "heddle/train/recipes/batches.h"
#include "heddle/train/recipes/class_meter.h"
#include "heddle/train/recipes/recipes.h"
#include "heddle/train/recipes/table_net.h"

namespace heddle::train {
namespace {

constexpr const char* code_key = "table";  // of the metadata
constexpr double forgotten = 0.02;  // share of categories that training takes for unknown, so that those have a meaning

std::shared_ptr<TableNet> make_network(const Config& c, const data::TableCode& code, DeviceContext& device) {
  return std::make_shared<TableNet>(
      TableNetOptions{.numbers = code.numbers(),
                      .categories = code.categories(),
                      .hidden = c.model_value<Integers>("hidden"),
                      .out = std::max<int64_t>(1, static_cast<int64_t>(code.target.classes.size())),
                      .dropout = c.model_value<Number>("dropout")},
      nn::ParameterOptions{.device = device});
}

data::TableCode stored_code(const TaskRequest& r) {
  const auto stored = r.metadata.find(code_key);
  if (stored == r.metadata.end())
    throw IoError("[predict] the model does not say what its columns are; not written by heddle train table");
  return data::TableCode::parse(stored->second);
}

// What the model says of all rows of a dataset, in the units of the target.
void predict_rows(nn::Module& model, const data::TableCode& code, const data::DatasetPtr& rows, DeviceContext& device,
                  const Callable<void(int64_t index, double label, Prediction prediction)>& see) {
  const data::TableTarget& target = code.target;
  if (!target.classes.empty())
    return predict_classes(model, rows, {}, target.classes, device,
                           [&](int64_t index, int32_t label, Prediction p) { see(index, label, std::move(p)); });
  const NoGradScope no_grad;
  int64_t index = 0;
  for_each_batch(rows, evaluation_batch(*rows, {}), {}, device, [&](const std::vector<Tensor>& batch) {
    const std::vector<float> values = model(batch.at(0)).to_vector<float>(), labels = batch.at(1).to_vector<float>();
    for (size_t i = 0; i < labels.size(); ++i) {
      Prediction prediction;
      prediction.value = values[i] * target.deviation + target.mean;
      see(index++, labels[i] * target.deviation + target.mean, std::move(prediction));
    }
  });
}

data::TableTask task_of(const std::string& name) {
  if (name == "classification") return data::TableTask::classification;
  return name == "regression" ? data::TableTask::regression : data::TableTask::automatic;
}

// Categories become unknown now and then.
data::Transform forget_categories(int64_t numbers) {
  return [numbers](data::Sample sample, data::Random& random) {
    const std::span<float> features = sample.at(0).as<float>();
    for (size_t i = static_cast<size_t>(numbers); i < features.size(); ++i) {
      if (random.chance(forgotten)) features[i] = 0;
    }
    return sample;
  };
}

class TableRows final : public Task {
 public:
  explicit TableRows(const TaskRequest& r) : config_(r.config), device_(r.device) {
    read(r);
    model_ = make_network(r.config, code_, r.device);
  }
  nn::Module& model() override { return *model_; }
  const TrainingData& training() const override { return data_; }
  Tensor loss(const std::vector<Tensor>& batch) override { return loss_of(batch, config_.training.label_smoothing); }
  Evaluation evaluate(int64_t limit) override {
    const data::DatasetPtr rows = data::first(validation_, limit);
    Evaluation e = code_.target.classes.empty() ? measure_numbers(rows) : measure_classes(rows);
    e.split = "validation";
    return e;
  }
  bool predict(int64_t limit, const Callable<void(const Prediction&)>& see) override {
    predict_rows(*model_, code_, data::first(validation_, limit), device_, [&](int64_t index, double, Prediction p) {
      p.file = config_.data.path;
      p.row = held_out_[static_cast<size_t>(index)] + 1;
      p.label = labels_[static_cast<size_t>(index)];
      see(p);
    });
    return true;
  }
  Metadata metadata() const override { return {{code_key, code_.str()}}; }
  std::vector<std::string> remarks() const override { return remarks_; }

 private:
  void read(const TaskRequest& r) {
    const Config& c = r.config;
    if (c.data.path.empty())
      throw ValueError("[table] --data is missing: a .csv file, whose first line names its columns");
    const data::CsvTable table(c.data.path);
    const auto stored = r.metadata.find(code_key);
    const bool used = stored != r.metadata.end();
    if (used) code_ = data::TableCode::parse(stored->second);
    data::TableLabels labels = target_of(table, used);
    if (c.data.validation == 0 && !used)
      throw ValueError("[table] --validation is 0, but a table has no other rows to test the model on");
    split(labels.labels, used);
    if (!used) {
      data::MadeTableCode made = data::make_table_code(table, labels.target, rows_);
      code_ = std::move(made.code);
      remarks_ = std::move(made.remarks);
    }
    data::EncodedTable encoded = data::encode(table, code_, true);
    const data::DatasetPtr all = data::from_arrays({std::move(encoded.features), std::move(encoded.target)});
    validation_ = data::subset(all, held_out_);
    const size_t target = table.column(code_.target.name);
    for (const int64_t row : held_out_) labels_.push_back(table.text(row, target));
    data_ = {.name = c.data.path, .dataset = data::first(data::subset(all, rows_), c.data.limit_train)};
    if (!code_.categories().empty()) data_.transforms = {forget_categories(code_.numbers())};
  }

  // Of a model that is used, its classes as they are.
  data::TableLabels target_of(const data::CsvTable& table, bool used) const {
    if (!used) {
      if (config_.data.target.empty())
        throw ValueError(
            fmt::format("[table] --target is missing: the column of {} that is to be predicted", config_.data.path));
      return data::read_target(table, {config_.data.target, task_of(config_.data.task)});
    }
    data::TableLabels labels{code_.target, std::vector<int32_t>(static_cast<size_t>(table.size()))};
    if (table.size() == 0) throw IoError(fmt::format("[table] {}: there are no rows", config_.data.path));
    if (code_.target.classes.empty()) return labels;
    const data::Array numbers = data::encode(table, code_, true).target;
    std::ranges::copy(numbers.as<int32_t>(), labels.labels.begin());
    return labels;
  }

  void split(const std::vector<int32_t>& labels, bool used) {
    held_out_ = data::stratified_share(labels, config_.data.validation, static_cast<uint64_t>(config_.run.seed));
    std::vector<int64_t> all(labels.size());
    std::iota(all.begin(), all.end(), int64_t{0});
    std::ranges::set_difference(all, held_out_, std::back_inserter(rows_));
    if (held_out_.empty() && used) held_out_ = all;
    if (held_out_.empty())
      throw ValueError(fmt::format("[table] --validation {} holds out none of the {} rows of {}",
                                   config_.data.validation, labels.size(), config_.data.path));
  }

  Tensor loss_of(const std::vector<Tensor>& batch, double smoothing) {
    const Tensor out = (*model_)(batch.at(0));
    if (code_.target.classes.empty()) return mse_loss(squeeze(out, 1), batch.at(1));
    CrossEntropyOptions options;
    options.label_smoothing = smoothing;
    return cross_entropy(out, batch.at(1), options);
  }

  Evaluation measure_classes(const data::DatasetPtr& rows) {
    ClassMeter meter(static_cast<int64_t>(code_.target.classes.size()), device_);
    for_each_batch(rows, evaluation_batch(*rows, {}), {}, device_,
                   [&](const std::vector<Tensor>& batch) { meter.add((*model_)(batch.at(0)), batch.at(1)); });
    return meter.result(rows->size());
  }

  // Errors in the units of the target; the loss is that of training, whose unit is the target's deviation.
  Evaluation measure_numbers(const data::DatasetPtr& rows) {
    std::vector<double> labels;
    double squares = 0, magnitudes = 0, sum = 0;
    predict_rows(*model_, code_, rows, device_, [&](int64_t, double label, const Prediction& p) {
      squares += (p.value - label) * (p.value - label);
      magnitudes += std::abs(p.value - label);
      sum += label;
      labels.push_back(label);
    });
    const auto count = static_cast<double>(labels.size());
    double spread = 0;
    for (const double label : labels) spread += (label - sum / count) * (label - sum / count);
    const double deviation = code_.target.deviation;
    // Of equal labels the share that is explained is not defined: all of it where they are met, else nothing.
    const double explained = spread > 0 ? 1 - squares / spread : squares == 0 ? 1 : 0;
    return {.loss = squares / count / (deviation * deviation),
            .examples = rows->size(),
            .metrics = {{"rmse", std::sqrt(squares / count)}, {"mae", magnitudes / count}, {"r2", explained}}};
  }

  const Config config_;
  DeviceContext& device_;
  data::TableCode code_;
  std::vector<int64_t> rows_, held_out_;  // of the file
  TrainingData data_;
  data::DatasetPtr validation_;
  std::vector<std::string> labels_;  // of held_out_, as the file has them
  std::vector<std::string> remarks_;
  std::shared_ptr<TableNet> model_;
};

class TablePredictor final : public Predictor {
 public:
  explicit TablePredictor(const TaskRequest& r)
      : device_(r.device), code_(stored_code(r)), model_(make_network(r.config, code_, r.device)) {}
  nn::Module& model() override { return *model_; }

  void predict(const std::vector<std::string>& files, const PredictOptions&,
               const Callable<void(const Prediction&)>& see) override {
    for (const std::string& file : files) {
      const data::CsvTable table(file);
      if (table.size() == 0) throw IoError(fmt::format("[predict] {}: there are no rows", file));
      data::EncodedTable encoded = data::encode(table, code_, false);
      if (encoded.unseen > 0)
        remarks_.push_back(
            fmt::format("[predict] {} texts of {} are none that training had, and count as unknown: {}{}",
                        encoded.unseen, file, encoded.example, encoded.unseen > 1 ? " ..." : ""));
      const data::DatasetPtr rows = data::from_arrays({std::move(encoded.features), std::move(encoded.target)});
      predict_rows(*model_, code_, rows, device_, [&](int64_t index, double, Prediction prediction) {
        prediction.file = file;
        prediction.row = index + 1;
        see(prediction);
      });
    }
  }
  std::vector<std::string> remarks() const override { return remarks_; }

 private:
  DeviceContext& device_;
  data::TableCode code_;
  std::shared_ptr<TableNet> model_;
  std::vector<std::string> remarks_;
};

void table_defaults(Config& c) {
  c.data.validation = 0.2;
  c.training.epochs = 200;
  c.training.clip_norm = 1;
  c.training.early_stop = 20;
  c.checkpoint.use_best = true;
  c.optimizer.name = "adamw";
  c.optimizer.weight_decay = 0.01;
}

}  // namespace

Recipe table() {
  return {.name = "table",
          .help = "multilayer perceptron on the rows of a .csv: numbers and categories, to classes or a number",
          .model = {{"hidden", Integers{128, 64}, "widths of the hidden layers"},
                    {"dropout", Number{0.1}, "behind each of them"}},
          .unused = {"data.tokenizer", "data.augment", "data.mixup", "data.image_column", "data.image_size",
                     "data.skip_broken", "log.sample_every"},
          .defaults = table_defaults,
          .make = [](const TaskRequest& r) -> std::unique_ptr<Task> { return std::make_unique<TableRows>(r); },
          .predictor = [](const TaskRequest& r) -> std::unique_ptr<Predictor> {
            return std::make_unique<TablePredictor>(r);
          },
          .network = [](const TaskRequest& r) -> Network {
            const data::TableCode code = stored_code(r);
            const auto features = code.numbers() + static_cast<int64_t>(code.categories().size());
            return {make_network(r.config, code, r.device), Shape{1, features}};
          }};
}

}  // namespace heddle::train
