// Numbers in files mean the same in a program that has set a locale with another decimal point.
#include <gtest/gtest.h>

#include <memory>

#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/data/transforms.h"
#include "heddle/io/safetensors.h"
#include "heddle/train/early_stopping.h"
#include "heddle/train/toml.h"
#include "heddle/train/trainer.h"
#include "tests/support/german_locale.h"
#include "tests/train/small_task.h"

namespace heddle::train {
namespace {

class Locale : public testing::Test {
 protected:
  // One for all tests: localedef takes a second.
  static void SetUpTestSuite() { locale_ = std::make_unique<test::GermanLocale>(); }
  static void TearDownTestSuite() { locale_.reset(); }
  void SetUp() override {
    if (!locale_->installed()) GTEST_SKIP() << "localedef cannot make de_DE.UTF-8 here";
  }
  static inline std::unique_ptr<test::GermanLocale> locale_;
};

TEST_F(Locale, TransformsHaveAPoint) {
  EXPECT_NO_THROW(data::parse_transform("random_flip 0.5"));
  EXPECT_THROW(data::parse_transform("random_flip 0,5"), ValueError);
}

TEST_F(Locale, ConfigurationsComeBack) {
  Config c;
  c.optimizer.lr = 0.125;
  Config read;
  read.parse(c.str(), "text");
  EXPECT_EQ(read.optimizer.lr, 0.125);
}

TEST_F(Locale, EarlyStoppingComesBack) {
  EarlyStopping stopping(3);
  const Metadata state = {{"early_stopping.bad", "1"}, {"early_stopping.best", "0.1"}};
  stopping.load_state(state);
  EXPECT_EQ(stopping.state(), state);
  stopping.load_state({{"early_stopping.bad", "1"}, {"early_stopping.best", "0x1.8p-1"}});  // of an earlier version
  EXPECT_EQ(stopping.state().at("early_stopping.best"), "0.75");
  EXPECT_THROW(stopping.load_state({{"early_stopping.bad", "1"}, {"early_stopping.best", "soon"}}), IoError);
  EXPECT_THROW(stopping.load_state({{"early_stopping.bad", "-1"}, {"early_stopping.best", "1"}}), IoError);
}

TEST_F(Locale, APlateausStateIsResumed) {
  Config c;
  c.training.batch = 32;
  c.training.steps = 4;
  c.log.eval_every = 1;
  c.optimizer.lr = 0.5;
  c.schedule.name = "plateau";
  c.schedule.patience = 1;
  const test::TemporaryFolder folder;
  DeviceContext& host = device("reference:0");
  for (const bool resume : {false, true}) {
    c.training.limit_steps = resume ? 0 : 2;
    SmallTask task(1, 0, host);
    task.next_losses = {1.5, 1.5, 1.5, 1.5};
    RunFolder files(folder.path() + "/run", resume);
    Trainer trainer(task, c, host);
    trainer.write_to(files);
    if (resume) trainer.resume();
    trainer.run();
    EXPECT_EQ(trainer.step(), resume ? 4 : 2);
  }
}

}  // namespace
}  // namespace heddle::train
