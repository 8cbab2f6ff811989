// image-classifier and table on data that a test draws: they learn what cannot be guessed, go on bit for bit where they
// were, and say of a file what their evaluation said; what they refuse.
#ifdef HEDDLE_HAS_PNG
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/data/preprocess.h"
#include "heddle/data/records.h"
#include "heddle/data/table.h"
#include "heddle/nn/models/known.h"
#include "tests/support/device_test.h"
#include "tests/support/devices.h"
#include "tests/support/drawn_images.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/recorded_run.h"

namespace heddle::train {
namespace {

namespace fs = std::filesystem;
using test::contains;
using test::thrown_text;
using Json = nlohmann::json;
using Options = std::map<std::string, std::string>;

// Rows of a house: its price is 3 * size + 20 in town b, less in a, and noise; sizes are missing now and then.
std::string houses(int rows, bool with_names = false) {
  std::mt19937 random(7);
  std::string text = with_names ? "name,size,town,rooms,price\n" : "size,town,rooms,price\n";
  for (int i = 0; i < rows; ++i) {
    const int size = 20 + static_cast<int>(random() % 100), town = static_cast<int>(random() % 3);
    const int noise = static_cast<int>(random() % 5), price = 3 * size + 40 * town + noise;
    if (with_names) text += fmt::format("house{},", i);
    text += fmt::format("{},{},{},{}.5\n", random() % 20 == 0 ? "" : std::to_string(size), "abc"[town], random() % 4,
                        price);
  }
  return text;
}

class OwnData : public testing::TestWithParam<std::string> {
 protected:
  DeviceContext& where() const { return device(GetParam()); }
  std::string put(const std::string& name, const std::string& text) {
    std::ofstream(folder / name, std::ios::binary) << text;
    return folder / name;
  }
  static void set(Config& c, const Options& options) {
    for (const auto& [key, value] : options) c.set(key, value);
  }
  Config stripes(const Options& more) {
    if (!fs::exists(folder / "stripes")) test::draw_stripe_folder(folder / "stripes", 40);
    Config c = recipe_config("image-classifier");
    set(c, {{"data.path", folder / "stripes"},
            {"model.name", "cnn"},
            {"data.image_size", "16"},
            {"training.batch", "8"},
            {"optimizer.lr", "0.01"}});
    set(c, more);
    return c;
  }
  Config prices(const Options& more) {
    if (!fs::exists(folder / "houses.csv")) put("houses.csv", houses(300));
    Config c = recipe_config("table");
    set(c, {{"data.path", folder / "houses.csv"}, {"data.target", "price"}, {"model.hidden", "16"}});
    set(c, more);
    return c;
  }
  // Into a folder of that name; until step `stop_before` where it is given, or on from there.
  RecordedRun run(const Config& c, const std::string& name, int64_t stop_before = -1, bool resume = false) {
    return recorded_run(c, where(), folder / name, stop_before, resume);
  }
  void expect_resumes(const Config& c) {
    const RecordedRun whole = run(c, "whole");
    ASSERT_EQ(whole.losses().size(), static_cast<size_t>(c.training.steps));
    run(c, "cut", 4);
    const RecordedRun cut = run(c, "cut", -1, true);
    EXPECT_EQ(cut.losses(), whole.losses());
    EXPECT_TRUE(test::read_bytes(cut.model) == test::read_bytes(whole.model));
  }
  std::vector<Prediction> predicted(const std::string& model, const std::vector<std::string>& files,
                                    std::vector<std::string>* remarks = nullptr, bool skip_broken = false) {
    ModelFile file = read_model_file(model, where());
    const std::unique_ptr<Predictor> predictor = make_predictor(file, where());
    std::vector<Prediction> all;
    predictor->predict(files, {.skip_broken = skip_broken}, [&](const Prediction& p) { all.push_back(p); });
    if (remarks != nullptr) *remarks = predictor->remarks();
    return all;
  }
  // Of the examples of its evaluation.
  std::vector<Prediction> evaluated(const std::string& model) {
    ModelFile file = read_model_file(model, where());
    const std::unique_ptr<Task> task = make_task(file.config, where(), file.metadata);
    task->model().load_state_dict(file.state);
    task->model().eval();
    std::vector<Prediction> all;
    EXPECT_TRUE(task->predict(0, [&](const Prediction& p) { all.push_back(p); }));
    return all;
  }
  std::string refused(Config c) {
    return thrown_text<Error>([&] { make_task(c, where()); });
  }

  test::TemporaryFolder folder;
};

TEST_P(OwnData, PicturesAreLearnedAndPredictedAsTheyWereEvaluated) {
  const RecordedRun done = run(stripes({{"training.epochs", "12"}}), "a");
  EXPECT_EQ(done.evaluation.split, "validation");
  EXPECT_EQ(done.evaluation.examples, 16);
  EXPECT_GE(done.evaluation.metric("accuracy"), 0.9);  // by chance at most 13 of 16, once in a hundred times
  const std::vector<Prediction> evaluations = evaluated(done.model);
  ASSERT_EQ(evaluations.size(), 16u);
  std::vector<std::string> files;
  int right = 0;
  for (const Prediction& p : evaluations) {
    files.push_back(p.file);
    EXPECT_EQ(fs::path(p.file).parent_path().filename(), p.label);
    right += p.top.front().first == p.label;
    EXPECT_NEAR(p.top[0].second + p.top[1].second, 1, 1e-6);
    EXPECT_GE(p.top[0].second, p.top[1].second);
  }
  EXPECT_DOUBLE_EQ(right / 16.0, done.evaluation.metric("accuracy"));
  fs::rename(folder / "stripes", folder / "moved");  // a model needs no training data
  for (std::string& file : files) file = folder / "moved" + file.substr((folder / "stripes").size());
  const std::vector<Prediction> predictions = predicted(done.model, files);
  ASSERT_EQ(predictions.size(), evaluations.size());
  for (size_t i = 0; i < files.size(); ++i) {
    EXPECT_EQ(predictions[i].file, files[i]);
    EXPECT_EQ(predictions[i].top, evaluations[i].top);  // bit for bit
  }
  EXPECT_EQ(predicted(done.model, {folder / "moved/lying"}).size(), 40u);
}

TEST_P(OwnData, PicturesResumeBitForBit) {
  expect_resumes(stripes({{"training.steps", "7"}, {"log.eval_every", "2"}, {"data.mixup", "0.2"}}));
}

TEST_P(OwnData, TablesResumeBitForBit) {
  expect_resumes(prices({{"training.steps", "9"}, {"log.eval_every", "2"}, {"training.batch", "16"}}));
}

// Three numbers for one column that can be missing and its indicator, and three towns.
TEST_P(OwnData, NumbersOfATableAreLearnedAndPredicted) {
  const RecordedRun done = run(prices({{"training.epochs", "60"}, {"optimizer.lr", "0.01"}}), "a");
  EXPECT_EQ(done.evaluation.examples, 60);
  EXPECT_GT(done.evaluation.metric("r2"), 0.9);
  EXPECT_LT(done.evaluation.metric("mae"), done.evaluation.metric("rmse"));
  const std::vector<Prediction> evaluations = evaluated(done.model);
  const std::vector<Prediction> predictions = predicted(done.model, {folder / "houses.csv"});
  ASSERT_EQ(predictions.size(), 300u);
  double squares = 0;
  for (const Prediction& p : evaluations) {
    const Prediction& same = predictions.at(static_cast<size_t>(p.row - 1));
    EXPECT_EQ(same.row, p.row);
    EXPECT_NEAR(same.value, p.value, 1e-4 * std::abs(p.value));  // other neighbours in the batch
    squares += std::pow(p.value - std::stod(p.label), 2) / 60;
  }
  EXPECT_NEAR(std::sqrt(squares), done.evaluation.metric("rmse"), 1e-4 * done.evaluation.metric("rmse"));
  std::vector<std::string> remarks;
  const std::vector<Prediction> others =
      predicted(done.model, {put("new.csv", "rooms,size,town\n1,50,a\n1,,zz\n2,100,c\n")}, &remarks);
  ASSERT_EQ(others.size(), 3u);
  EXPECT_NEAR(others[0].value, 152, 40);
  EXPECT_NEAR(others[2].value, 382, 40);
  for (const Prediction& p : others) EXPECT_TRUE(std::isfinite(p.value));
  ASSERT_EQ(remarks.size(), 1u);
  EXPECT_TRUE(contains(remarks[0], "1 texts of " + folder / "new.csv" + " are none that training had"));
  EXPECT_TRUE(contains(remarks[0], "'zz' in column 'town'"));
}

TEST_P(OwnData, ClassesOfATable) {
  std::string text = "x,y,kind\n";
  std::mt19937 random(3);
  for (int i = 0; i < 200; ++i) {
    const int x = static_cast<int>(random() % 100), y = static_cast<int>(random() % 100);
    text += fmt::format("{},{},{}\n", x, y, x > y ? "below" : "above");
  }
  Config c = prices({{"data.path", put("kinds.csv", text)}, {"data.target", "kind"}, {"optimizer.lr", "0.01"}});
  set(c, {{"training.epochs", "40"}, {"training.label_smoothing", "0.05"}});
  const RecordedRun done = run(c, "a");
  EXPECT_GE(done.evaluation.metric("accuracy"), 0.9);
  EXPECT_EQ(done.evaluation.confusion.size(), 2u);
  const std::vector<Prediction> evaluations = evaluated(done.model);
  ASSERT_EQ(evaluations.size(), 40u);
  const std::vector<Prediction> predictions = predicted(done.model, {folder / "kinds.csv"});
  for (const Prediction& p : evaluations)
    EXPECT_EQ(predictions.at(static_cast<size_t>(p.row - 1)).top.front().first, p.top.front().first);
  EXPECT_EQ(predicted(done.model, {put("one.csv", "y,x\n10,90\n")}).at(0).top.at(0).first, "below");
}

// The weights, and the figures, are those of the checkpoint with the lowest loss; a run that goes on does not notice.
TEST_P(OwnData, TheModelIsTheBestOne) {
  Config c = prices({{"training.steps", "12"},
                     {"log.eval_every", "3"},
                     {"training.batch", "16"},
                     {"optimizer.lr", "3"},
                     {"training.early_stop", "0"},
                     {"training.clip_norm", "0"}});
  const std::unique_ptr<Task> task = make_task(c, where());
  RunFolder files(folder / "best", false);
  struct Losses final : Callback {
    std::map<int64_t, double> by_step;
    void on_evaluate(Trainer& t, const Evaluation& e) override { by_step[t.step()] = e.loss; }
  };
  const auto losses = std::make_shared<Losses>();
  Trainer trainer(*task, c, where());
  trainer.write_to(files);
  trainer.add(losses);
  trainer.run();
  ASSERT_EQ(losses->by_step.size(), 4u);
  const auto best = std::min_element(losses->by_step.begin(), losses->by_step.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  EXPECT_EQ(trainer.model_step(), best->first);
  EXPECT_NEAR(trainer.evaluation().loss, best->second, 1e-6 * best->second);
  ModelFile file = read_model_file(files.path(), where());
  const std::unique_ptr<Task> again = make_task(file.config, where(), file.metadata);
  again->model().load_state_dict(file.state);
  again->model().eval();
  EXPECT_NEAR(again->evaluate(0).loss, best->second, 1e-6 * best->second);
  EXPECT_EQ(load_latest_checkpoint(files.checkpoints())->step, 12);
  c.checkpoint.use_best = false;
  EXPECT_EQ(run(c, "last").evaluation.loss, losses->by_step.at(12));
}

INSTANTIATE_TEST_SUITE_P(Devices, OwnData, testing::ValuesIn(test::value_devices()), tests::device_test_name);

class OwnDataOnTheHost : public OwnData {};

TEST_P(OwnDataOnTheHost, EveryClassifierTakesTheImages) {
  for (const nn::KnownModel& known : nn::known_models()) {
    if (!known.make_classifier || known.name == "vit-b16" || known.name == "resnet34" || known.name == "resnet50")
      continue;  // large
    const auto model = known.make_classifier({.channels = 3, .side = 32, .classes = 5}, where());
    model->eval();
    EXPECT_EQ((*model)(zeros({1, 3, 32, 32}, DType::f32, &where())).shape(), (Shape{1, 5})) << known.name;
    int64_t heads = 0;
    for (const auto& [name, tensor] : model->state_dict())
      heads += name.starts_with(known.head.substr(0, known.head.size() - 1)) && tensor.dim(0) == 5;
    EXPECT_EQ(heads, 2) << known.name << ": weight and bias of " << known.head;
  }
  Config c = stripes({{"model.name", "resnet81"}});
  EXPECT_TRUE(contains(refused(c), "there is no classifier of images 'resnet81'; did you mean resnet18"));
  c = stripes({{"model.name", "gpt2"}});
  EXPECT_TRUE(contains(refused(c), "there is no classifier of images 'gpt2'"));
  EXPECT_TRUE(contains(refused(stripes({{"data.task", "regression"}})), "has no meaning for this recipe"));
}

// Two classes into three: the last layer is new, the rest as it was, and images are normalised as before.
TEST_P(OwnDataOnTheHost, WeightsOfAnotherRunBeginWithANewHead) {
  const RecordedRun first = run(stripes({{"training.steps", "2"}}), "a");
  fs::create_directories(folder / "stripes/dark");
  for (int i = 0; i < 4; ++i)
    data::write_png(folder / fmt::format("stripes/dark/{}.png", i),
                    data::Array::of(std::vector<uint8_t>(3 * 20 * 20, static_cast<uint8_t>(i)), {3, 20, 20}));
  Config c = stripes({{"run.init_from", first.model}, {"run.freeze", "features.*"}, {"training.steps", "2"}});
  const std::unique_ptr<Task> task = make_task(c, where());
  const nn::StateDict before = read_model_file(first.model, where()).state, now = task->model().state_dict();
  EXPECT_EQ(now.at("features.0.weight").to_doubles(), before.at("features.0.weight").to_doubles());
  EXPECT_EQ(now.at("head.weight").dim(0), 3);
  ASSERT_EQ(task->remarks().size(), 1u);
  EXPECT_TRUE(contains(task->remarks()[0], "weights are for 2 classes and the data has 3: the last layer, head.*"));
  const auto mean = [](const Metadata& m) { return data::Preprocessing::parse(m.at("preprocessing")).statistics.mean; };
  EXPECT_EQ(mean(task->metadata()), mean(read_model_file(first.model, where()).metadata));
  const RecordedRun second = run(c, "b");
  EXPECT_EQ(read_model_file(second.model, where()).state.at("features.0.weight").to_doubles(),
            before.at("features.0.weight").to_doubles());
  fs::remove(first.model);  // a trained model needs its file alone
  EXPECT_EQ(predicted(second.model, {folder / "stripes/dark/0.png"}).at(0).top.size(), 3u);
  save_safetensors(folder / "other.safetensors", {{"fc.weight", zeros({7, 3}, DType::f32, &where())}});
  c = stripes({{"run.init_from", folder / "other.safetensors"}});
  EXPECT_TRUE(contains(refused(c), "missing"));
  save_safetensors(folder / "other.safetensors", {{"head.weight", zeros({7, 64}, DType::f32, &where())}});
  EXPECT_TRUE(contains(refused(c), "[init-from] the weights do not fit the model"));
}

TEST_P(OwnDataOnTheHost, BrokenImagesAreNamedOrCounted) {
  Config c = stripes({{"training.steps", "2"}});
  put("stripes/lying/105.png", "");
  const std::string zero = refused(c);
  EXPECT_TRUE(contains(zero, "lying/105.png: neither a PNG nor a JPEG file; 1 of 80 images cannot be read"));
  c.data.skip_broken = true;
  const std::unique_ptr<Task> task = make_task(c, where());
  ASSERT_EQ(task->remarks().size(), 1u);
  EXPECT_TRUE(contains(task->remarks()[0], "1 of 80 training images cannot be read and are left out"));
  EXPECT_EQ(task->training().dataset->size(), 63);
  const RecordedRun done = run(c, "a");
  EXPECT_TRUE(contains(thrown_text<IoError>([&] { predicted(done.model, {folder / "stripes/lying/105.png"}); }),
                       "neither a PNG"));
  std::vector<std::string> remarks;
  EXPECT_EQ(predicted(done.model, {folder / "stripes"}, &remarks, true).size(), 79u);
  ASSERT_EQ(remarks.size(), 1u);
  EXPECT_TRUE(contains(remarks[0], "1 of 80 files cannot be read"));
  for (const auto& entry : fs::directory_iterator(folder / "stripes/standing"))
    std::ofstream(entry.path(), std::ios::binary) << "x";
  EXPECT_TRUE(contains(refused(c), "no image of the class 'standing' that can be read"));
}

TEST_P(OwnDataOnTheHost, ImagesThatNothingCanBeLearnedOf) {
  EXPECT_TRUE(contains(refused(recipe_config("image-classifier")), "--data is missing"));
  EXPECT_TRUE(contains(refused(stripes({{"data.validation", "0"}})), "neither a folder val nor a folder test"));
  Config c = stripes({});
  fs::remove_all(folder / "stripes/standing");
  EXPECT_TRUE(contains(refused(c), "has one class alone, 'lying'"));
  fs::create_directories(folder / "stripes/standing");
  EXPECT_TRUE(contains(refused(c), "stripes/standing: the folder of a class has no .png"));
}

// The three forms hold the same images: the same first loss.
TEST_P(OwnDataOnTheHost, FoldersTablesAndRecordsAreOne) {
  Config c = stripes({{"training.steps", "1"}});
  const double expected = run(c, "folder").losses().at(0);
  std::string list = "of,file\n";
  for (const char* of : {"lying", "standing"}) {
    for (int i = 0; i < 40; ++i) list += fmt::format("{},stripes/{}/{}.png\n", of, of, 100 + i);
  }
  Config table = c;
  set(table, {{"data.path", put("list.csv", list)}, {"data.image_column", "file"}, {"data.target", "of"}});
  EXPECT_EQ(run(table, "table").losses().at(0), expected);
  const data::ImageFolder source(folder / "stripes");
  data::pack(source, folder / "packed.rec", data::Preprocessing{.classes = source.classes()}.str());
  Config records = c;
  set(records, {{"data.path", folder / "packed.rec"}, {"data.limit_train", "8"}});
  EXPECT_TRUE(std::isfinite(run(records, "records").losses().at(0)));
  Config cifar = recipe_config("cifar-resnet");
  set(cifar, {{"model.blocks", "1"},
              {"model.width", "4"},
              {"training.steps", "2"},
              {"training.batch", "4"},
              {"data.validation", "0.1"}});
  for (const char* path : {"stripes", "packed.rec"}) {
    cifar.data.path = folder / path;
    const RecordedRun done = run(cifar, std::string("cifar-") + path);
    EXPECT_EQ(done.evaluation.examples, 8) << path;
    EXPECT_EQ(predicted(done.model, {folder / "stripes/lying/100.png"}).size(), 1u);
  }
}

TEST_P(OwnDataOnTheHost, PartsOfTheirOwn) {
  test::draw_stripe_folder(folder / "parts/train", 8);
  test::draw_stripe_folder(folder / "parts/val", 3, 100);
  Config c = stripes({{"training.steps", "1"}});
  c.data.path = folder / "parts";
  std::unique_ptr<Task> task = make_task(c, where());
  task->model().eval();
  EXPECT_EQ(task->training().dataset->size(), 16);
  EXPECT_EQ(task->evaluate(0).examples, 6);
  EXPECT_EQ(task->test(0).examples, 0);
  test::draw_stripe_folder(folder / "parts/test", 2, 200);
  task = make_task(c, where());
  task->model().eval();
  EXPECT_EQ(task->test(0).examples, 4);
  c.data.limit_test = 2;
  task = make_task(c, where());
  task->model().eval();
  EXPECT_EQ(task->evaluate(2).examples, 2);
}

TEST_P(OwnDataOnTheHost, TablesThatNothingCanBeLearnedOf) {
  EXPECT_TRUE(contains(refused(recipe_config("table")), "--data is missing"));
  EXPECT_TRUE(contains(refused(prices({{"data.target", ""}})), "--target is missing"));
  EXPECT_TRUE(contains(refused(prices({{"data.target", "cost"}})), "has no column 'cost'; there are: size, town"));
  EXPECT_TRUE(contains(refused(prices({{"data.target", "town"}, {"data.task", "regression"}})), "is not a number"));
  EXPECT_TRUE(contains(refused(prices({{"data.validation", "0"}})), "a table has no other rows"));
  EXPECT_TRUE(contains(refused(prices({{"data.path", put("few.csv", "x,y\n1,2.5\n")}, {"data.target", "y"}})),
                       "is 2.5 in every row"));
  Config c = prices({{"data.path", put("named.csv", houses(60, true))}});
  const std::unique_ptr<Task> task = make_task(c, where());
  ASSERT_EQ(task->remarks().size(), 1u);
  EXPECT_TRUE(contains(task->remarks()[0], "the column 'name' has "));
}

TEST_P(OwnDataOnTheHost, ModelsOfOtherRecipesPredictNothing) {
  Config c = recipe_config("vae");
  c.declare_model(find_recipe("vae").model);
  ModelFile file{.path = "m.safetensors", .config = c};
  EXPECT_TRUE(
      contains(thrown_text<ValueError>([&] { make_predictor(file, where()); }),
               "m.safetensors is a model of vae, which predicts neither classes nor numbers; models of mnist-mlp"));
  for (const char* recipe : {"table", "image-classifier"}) {
    ModelFile empty{.path = "m.safetensors", .config = recipe_config(recipe)};
    EXPECT_TRUE(contains(thrown_text<IoError>([&] { make_predictor(empty, where()); }), "not written by heddle train"));
  }
}

INSTANTIATE_TEST_SUITE_P(Host, OwnDataOnTheHost, testing::Values("reference:0"), tests::device_test_name);

}  // namespace
}  // namespace heddle::train
#endif
