// Choices of tunables, asked of the kernel files.
#include "heddle/core/tiles/choices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <regex>
#include <string>

#include "heddle/core/base/error.h"
#include "heddle/core/dialect/builtin_files.h"
#include "heddle/core/dialect/kernel_file.h"
#include "heddle/core/tiles/conv_schedules.h"
#include "heddle/core/tiles/matmul_schedules.h"

namespace heddle {
namespace {

TEST(Choices, OfEveryKernelFileAscend) {
  for (const std::string& body : KernelFile::builtin_names()) {
    for (const KernelTunable& t : KernelFile::builtin(body).tunables) {
      EXPECT_TRUE(std::is_sorted(t.choices.begin(), t.choices.end())) << body << " " << t.name;
    }
  }
}

TEST(Choices, FitASizeOrAreTheLastOfTheirEnd) {
  // shaders/attention.hk: SIZE [16 32 64 96 128 192 256]
  for (const auto& [size, least, most] :
       {std::array<int64_t, 3>{0, 16, 16}, {16, 16, 16}, {17, 32, 16}, {96, 96, 96}, {97, 128, 96}, {300, 256, 256}}) {
    EXPECT_EQ(choice_at_least("attention", "SIZE", size), least) << size;
    EXPECT_EQ(choice_at_most("attention", "SIZE", size), most) << size;
  }
  EXPECT_EQ(choice_at_least("matmul", "WIDE", 65), 256) << "declared by a part";
}

TEST(Choices, OfWhatNoFileDeclaresAreRefused) {
  EXPECT_THROW(choices_of("matmul", "NONE"), ValueError);
  EXPECT_THROW(choices_of("none", "MR"), ValueError);
}

// The number under which a file takes one of its parts: #include "matmul_dot.hki" when SCHEDULE == 4.
std::map<std::string, int64_t> schedules_of(const std::string& body) {
  std::map<std::string, int64_t> schedules;
  for (const BuiltinFile& file : builtin_files()) {
    if (file.name != body + ".hk") continue;
    const std::string text(file.text);
    const std::regex include("#include \"" + body + "_(\\w+)\\.hki\" when SCHEDULE == (\\d+)");
    for (std::sregex_iterator at(text.begin(), text.end(), include), end; at != end; ++at)
      schedules[(*at)[1]] = std::stoll((*at)[2]);
  }
  return schedules;
}

TEST(Choices, OfSchedulesHaveTheNumbersOfTheFiles) {
  using Numbers = std::map<std::string, int64_t>;
  {
    namespace schedules = matmul_schedules;
    EXPECT_EQ(schedules_of("matmul"), (Numbers{{"lanes", schedules::lanes},
                                               {"tiles", schedules::tiles},
                                               {"columns", schedules::columns},
                                               {"packed", schedules::packed},
                                               {"dot", schedules::dot},
                                               {"units", schedules::units},
                                               {"stream", schedules::stream},
                                               {"warpgroups", schedules::warpgroups},
                                               {"core_units", schedules::core_units}}));
  }
  namespace schedules = conv_schedules;
  Numbers conv{{"lanes", schedules::lanes},         {"tiles", schedules::tiles}, {"packed", schedules::packed},
               {"registers", schedules::registers}, {"rows", schedules::rows},   {"winograd", schedules::winograd},
               {"pointwise", schedules::pointwise}, {"dots", schedules::dots},   {"strips", schedules::strips}};
  EXPECT_EQ(schedules_of("conv"), conv);
  conv.erase("pointwise");
  conv.erase("strips");
  conv["planes"] = schedules::planes;
  EXPECT_EQ(schedules_of("conv_weight_grad"), conv);
}

// Waking another thread gains half of a launch's time with two, most of it with many.
TEST(Choices, SmallWorkIsLessWithMoreThreads) {
  EXPECT_TRUE(is_small_work(int64_t{1} << 40, int64_t{1} << 40, 1));
  EXPECT_TRUE(is_small_work(1 << 21, 1 << 18, 2));
  EXPECT_FALSE(is_small_work((1 << 21) + 1, 1 << 18, 2));
  EXPECT_FALSE(is_small_work(1 << 21, (1 << 18) + 1, 2));
  EXPECT_TRUE(is_small_work(1 << 20, 1, 64));
  EXPECT_FALSE(is_small_work(1 << 21, 1, 64));
}

}  // namespace
}  // namespace heddle
