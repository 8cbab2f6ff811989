// Messages of compilers that ignore #line name the files that a program was put together of.
#ifdef HEDDLE_HAS_OPENCL
#include <gtest/gtest.h>

#include "heddle/backend_opencl/build_log.h"

namespace heddle::opencl {
namespace {

constexpr const char* program =
    "#define A\n"
    "#line 7 \"shaders/prelude.cl\"\n"
    "float seven;\n"
    "float eight;\n"
    "#line 40 \"shaders/body.hk\"\n"
    "forty\n"
    "forty_one";

TEST(OpenClBuildLog, NamesTheFileOfALine) {
  EXPECT_EQ(by_line_directives("input.cl:7:5: error: forty_one\n    ^\ninput.cl:4:1: note: eight\n", program),
            "shaders/body.hk:41:5: error: forty_one\n    ^\nshaders/prelude.cl:8:1: note: eight\n");
}

TEST(OpenClBuildLog, LeavesWhatIsPlacedOrHasNoPlace) {
  for (const char* log :
       {"", "1 error generated.", "error: no kernel\n", "shaders/body.hk:7:5: error: x",
        "input.cl:1:1: error: in front of the first directive", "input.cl:8:1: error: behind the end",
        "input.cl:0:1: error", "input.cl:99999999999999999999:1: error", "a:-3:1: error", ":", "a:", "a:7", "\n\n"})
    EXPECT_EQ(by_line_directives(log, program), log);
  EXPECT_EQ(by_line_directives("a:1:1: error", ""), "a:1:1: error");
  EXPECT_EQ(by_line_directives("a:3:1: error", "#line x \"f\"\n#line 4\nint"), "a:3:1: error");
}

}  // namespace
}  // namespace heddle::opencl
#endif
