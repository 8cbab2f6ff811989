// Who may include whom: tools -> train -> nn, data -> io, autograd -> core <- backend_*, deploy -> runtime -> io, and
// distributed -> core;
// driver headers only in backends. A room of core/ includes itself and those before it, and its modules include each
// other in no circle.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace heddle {
namespace {

namespace fs = std::filesystem;

// The one file above the device layer that asks backends' compilers for text (heddle kernel --print ptx).
constexpr const char* compiler_caller = "tools/kernel_binary.cpp";
constexpr const char* driver_opener =
    "tools/probe/probe.cpp";  // in the place of a backend; of ours, what a system needs
constexpr const char* driver_compiler = "tools/certify/radv_worker.cpp";  // a process that only compiles with a driver

// Folder (or single file) -> folders it may include.
const std::map<std::string, std::set<std::string>>& allowed() {
  static const std::map<std::string, std::set<std::string>> table = {
      {"core", {"core"}},
      {"autograd", {"core", "autograd"}},
      {"distributed", {"core", "distributed"}},
      {"nn", {"core", "distributed", "autograd", "io", "nn"}},
      {"data", {"core", "io", "data"}},
      {"io", {"core", "io"}},
      {"onnx", {"core", "io", "onnx"}},
      {"runtime", {"core", "io", "runtime"}},
      {"deploy", {"core", "io", "runtime", "deploy"}},
      {"train", {"core", "distributed", "autograd", "nn", "data", "io", "train"}},
      {"backend_vulkan", {"core", "backend_vulkan"}},
      {"backend_opencl", {"core", "backend_opencl"}},
      {"backend_cuda", {"core", "backend_cuda"}},
      {"bench", {"core", "autograd", "nn", "data", "io", "bench"}},
      {"checks", {"core", "autograd", "nn", "checks"}},
      {"tools",
       {"core", "distributed", "autograd", "nn", "data", "io", "onnx", "train", "bench", "checks", "runtime", "deploy",
        "tools"}},
      {compiler_caller, {"core", "tools", "backend_vulkan", "backend_cuda"}},
      {driver_opener, {}},
      {driver_compiler, {"core", "tools"}},
      {"examples", {"heddle.h"}},
  };
  return table;
}

// The rooms of core/ in the order of permission.
constexpr std::array rooms = {
    "base",        // shapes, dtypes, errors, files, texts
    "contract",    // what a backend and the core agree on
    "dialect",     // kernel files and their printers
    "tiles",       // which tile sizes a kernel gets
    "device",      // contexts, memory, plug-ins
    "op",          // the rows of ops
    "graph",       // tensors and their nodes
    "functions",   // what users call
    "reference",   // every op in double precision
    "ir",          // the planner's graph
    "record",      // pending nodes to a graph and its key
    "simplify",    // rules and passes
    "specialise",  // what one device computes better
    "schedule",    // which vertices become one kernel
    "lower",       // a group becomes a kernel
    "memory",      // the arena
    "inspect",     // profiles, traffic, saved launches
    "run",         // plans, launches, caches
    "compile",     // compile(f)
};

// The last room that a folder outside of core/ may include; others may include all.
constexpr std::pair<const char*, const char*> last_rooms[] = {
    {"backend_vulkan", "device"}, {"backend_opencl", "device"}, {"backend_cuda", "device"},   {"io", "graph"},
    {"data", "functions"},        {"runtime", "run"},           {"distributed", "functions"},
};

// The number of a room by a path such as core/base/shape.h; that of none is the last.
size_t room_of(const std::string& path) {
  const std::string below = path.substr(path.find('/') + 1);
  return static_cast<size_t>(std::find(rooms.begin(), rooms.end(), below.substr(0, below.find('/'))) - rooms.begin());
}

// What is wrong with an include of `target` in `file`, both in core/; empty when nothing is.
std::string room_complaint(const std::string& file, const std::string& target) {
  const size_t from = room_of(file), to = room_of(target);
  if (from == rooms.size()) return "core/ has no such room";
  return to <= from ? "" : fmt::format("core/{} must not include {}, which stands after it", rooms[from], target);
}

bool is_driver_header(const std::string& name) {
  static const std::regex pattern("^(vulkan/|volk|CL/|OpenCL/|cuda|nvrtc|cublas|glslang/|SPIRV|spirv)");
  return std::regex_search(name, pattern);
}

std::string first_part(const std::string& path) { return path.substr(0, path.find('/')); }

// The library is included as its users do, <heddle/...>; tests, tools and benchmarks by their folders.
constexpr std::string_view include_root = "heddle/";
bool stays_at_home(const std::string& folder) {
  return folder == "tests" || folder == "tools" || folder == "bench" || folder == "checks";
}
std::string below_root(const std::string& name) {
  return name.starts_with(include_root) ? name.substr(include_root.size()) : name;
}

// The one folder that knows the systems; its headers name nothing of one, but for windows_text.h.
constexpr std::string_view systems = "core/base/system/";

// The one file that names std::filesystem, whose narrow texts are not UTF-8 on every system.
constexpr std::string_view paths = "core/base/path.h";

// What is wrong with a line for other systems than one; empty when nothing is.
std::string system_complaint(const std::string& line) {
  static const std::regex header(
      "^\\s*#\\s*include\\s*<(sys/"
      ".*|(unistd|dlfcn|link|fcntl|signal|poll|spawn|dirent|fnmatch|glob|pthread|termios|sched|io|windows)"
      "\\.h)>");
  static const std::regex macro("^\\s*#.*\\b(_WIN32|__linux__|__APPLE__|__unix__|__MINGW32__)\\b");
  if (std::regex_search(line, header)) return "a system's header outside of core/base/system";
  if (line.find("std::filesystem") != std::string::npos) return "std::filesystem instead of heddle::fs";
  return std::regex_search(line, macro) ? "a system's macro outside of core/base/system" : "";
}

// What is wrong with an #include line in a file of that folder; empty when nothing is.
std::string complaint(const std::string& folder, const std::string& line) {
  static const std::regex pattern("^\\s*#\\s*include\\s*([<\"])([^>\"]+)[>\"]");
  std::smatch match;
  if (!std::regex_search(line, match, pattern)) return {};
  const std::string name = match[2];
  if (is_driver_header(name) && folder.rfind("backend_", 0) != 0 && folder != driver_opener &&
      folder != driver_compiler)
    return "driver header above the device layer";
  if (match[1] == "<") return {};
  if (folder == driver_opener && below_root(name).starts_with(systems)) return {};
  const std::string target = first_part(below_root(name));
  if (allowed().count(target) == 0 && target != "heddle.h")
    return "quoted include that is not relative to the repository's root";
  if (name.starts_with(include_root) == stays_at_home(target)) return "include that is not below heddle/";
  if (allowed().at(folder).count(target) == 0) return folder + " must not include " + target;
  return {};
}

// The file that an #include line of ours names; empty for others.
std::string included(const std::string& line) {
  static const std::regex pattern("^\\s*#\\s*include\\s*\"([^\"]+)\"");
  std::smatch match;
  return std::regex_search(line, match, pattern) ? below_root(match[1]) : std::string();
}

std::vector<fs::path> sources(const std::string& folder) {
  std::vector<fs::path> files;
  const fs::path root = fs::path(HEDDLE_SOURCE_DIR) / folder;
  if (!fs::is_directory(root)) return files;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    const std::string extension = entry.path().extension().string();
    if (extension == ".h" || extension == ".cpp" || extension == ".inc") files.push_back(entry.path());
  }
  return files;
}

TEST(IncludeDirection, EveryFileKeepsTheLayers) {
  size_t files = 0, lines = 0;
  for (const auto& [folder, targets] : allowed()) {
    for (const fs::path& file : sources(folder)) {
      ++files;
      const std::string name = fs::relative(file, HEDDLE_SOURCE_DIR).generic_string();
      const std::string& rule =
          name == compiler_caller || name == driver_opener || name == driver_compiler ? name : folder;
      std::ifstream in(file);
      std::string line;
      for (int number = 1; std::getline(in, line); ++number) {
        lines += line.rfind("#include", 0) == 0;
        const std::string wrong = complaint(rule, line);
        EXPECT_TRUE(wrong.empty()) << file.string() << ":" << number << ": " << wrong << ": " << line;
      }
    }
  }
  EXPECT_GT(files, 50u);  // the walk really found the sources
  EXPECT_GT(lines, 200u);
}

TEST(IncludeDirection, SystemsAreKnownInOneFolder) {
  for (const auto& [folder, targets] : allowed()) {
    for (const fs::path& path : sources(folder)) {
      const std::string file = fs::relative(path, HEDDLE_SOURCE_DIR).generic_string();
      if (file.starts_with(systems) || file == paths) continue;
      std::ifstream in(path);
      std::string line;
      for (int number = 1; std::getline(in, line); ++number)
        EXPECT_EQ(system_complaint(line), "") << file << ":" << number << ": " << line;
    }
  }
  EXPECT_NE(system_complaint("#include <unistd.h>"), "");
  EXPECT_NE(system_complaint("#include <sys/stat.h>"), "");
  EXPECT_NE(system_complaint("#if defined(_WIN32)"), "");
  EXPECT_EQ(system_complaint("#include <csignal>"), "");
  EXPECT_NE(system_complaint("std::filesystem::exists(path);"), "");
  EXPECT_EQ(system_complaint("fs::exists(path);"), "");
}

TEST(IncludeDirection, TheRoomsOfCoreKeepTheirOrder) {
  std::set<size_t> seen;
  for (const fs::path& path : sources("core")) {
    const std::string file = fs::relative(path, HEDDLE_SOURCE_DIR).generic_string();
    seen.insert(room_of(file));
    std::ifstream in(path);
    std::string line;
    for (int number = 1; std::getline(in, line); ++number) {
      const std::string target = included(line);
      if (target.rfind("core/", 0) != 0) continue;
      const std::string wrong = room_complaint(file, target);
      EXPECT_TRUE(wrong.empty()) << file << ":" << number << ": " << wrong;
    }
  }
  EXPECT_EQ(seen.size(), rooms.size());
  for (const char* room : rooms) {
    std::ifstream readme(fs::path(HEDDLE_SOURCE_DIR) / "core" / room / "README.md");
    int lines = 0;
    for (std::string line; std::getline(readme, line); ++lines) {
    }
    EXPECT_TRUE(lines > 0 && lines <= 10) << "core/" << room << "/README.md: " << lines << " lines";
  }
}

// Module -> those that its files include. A module is a .h and .cpp of one name in one folder.
using Includes = std::map<std::string, std::set<std::string>>;
std::string module_of(const std::string& path) { return path.substr(0, path.rfind('.')); }

Includes modules_of_core() {
  Includes modules;
  for (const fs::path& path : sources("core")) {
    const std::string module = module_of(fs::relative(path, HEDDLE_SOURCE_DIR).generic_string());
    std::set<std::string>& targets = modules[module];
    std::ifstream in(path);
    for (std::string line; std::getline(in, line);) {
      const std::string target = included(line);
      if (target.rfind("core/", 0) == 0 && module_of(target) != module) targets.insert(module_of(target));
    }
  }
  return modules;
}

// Depth first: one circle for each include that leads back to a module that is open.
void walk(const std::string& module, const Includes& includes, std::set<std::string>& seen,
          std::vector<std::string>& open, std::vector<std::string>& circles) {
  if (!seen.insert(module).second || includes.count(module) == 0) return;
  open.push_back(module);
  for (const std::string& target : includes.at(module)) {
    const auto first = std::find(open.begin(), open.end(), target);
    if (first != open.end())
      circles.push_back(fmt::format("{} -> {}", fmt::join(first, open.end(), " -> "), target));
    else
      walk(target, includes, seen, open, circles);
  }
  open.pop_back();
}

// Each as "a -> b -> a"; none when no modules include each other.
std::vector<std::string> circles_of(const Includes& includes) {
  std::set<std::string> seen;
  std::vector<std::string> open, circles;
  for (const auto& [module, targets] : includes) walk(module, includes, seen, open, circles);
  return circles;
}

TEST(IncludeDirection, NoModulesOfCoreIncludeEachOtherInACircle) {
  const Includes modules = modules_of_core();
  EXPECT_GT(modules.size(), 200u);  // the walk really found them
  for (const std::string& circle : circles_of(modules)) ADD_FAILURE() << circle;
}

TEST(IncludeDirection, CirclesAreFound) {
  using Found = std::vector<std::string>;
  EXPECT_EQ(circles_of({{"a", {"b", "c"}}, {"b", {"c"}}, {"c", {}}}), Found());
  EXPECT_EQ(circles_of({{"a", {"no module"}}, {"b", {}}}), Found());
  EXPECT_EQ(circles_of({{"a", {"b"}}, {"b", {"a"}}}), Found{"a -> b -> a"});
  EXPECT_EQ(circles_of({{"a", {"b"}}, {"b", {"c"}}, {"c", {"d"}}, {"d", {"b"}}}), Found{"b -> c -> d -> b"});
  EXPECT_EQ(module_of("core/graph/tensor.h"), module_of("core/graph/tensor.cpp"));
}

TEST(IncludeDirection, FoldersStopAtTheirLastRoom) {
  for (const auto& [folder, last] : last_rooms) {
    const size_t limit = room_of(fmt::format("core/{}/", last));
    for (const fs::path& path : sources(folder)) {
      std::ifstream in(path);
      for (std::string line; std::getline(in, line);) {
        const std::string target = included(line);
        if (target.rfind("core/", 0) != 0) continue;
        EXPECT_LE(room_of(target), limit) << path.string() << ": " << line;
      }
    }
  }
}

TEST(IncludeDirection, TheRuleOfRooms) {
  EXPECT_EQ(room_complaint("core/ir/ir.h", "core/base/shape.h"), "");
  EXPECT_EQ(room_complaint("core/functions/nn/conv.cpp", "core/functions/math/math.h"), "");
  EXPECT_NE(room_complaint("core/base/shape.cpp", "core/ir/ir.h"), "");
  EXPECT_NE(room_complaint("core/graph/tensor.cpp", "core/functions/functions.h"), "");
  EXPECT_NE(room_complaint("core/elsewhere/file.cpp", "core/base/shape.h"), "");
  EXPECT_NE(room_complaint("core/run/compiled_graph.cpp", "core/elsewhere/file.h"), "");
  EXPECT_EQ(included("#include \"heddle/core/base/shape.h\""), "core/base/shape.h");
  EXPECT_EQ(included("#include <vector>"), "");
  EXPECT_NE(complaint("core", "#include \"core/base/shape.h\""), "");
  EXPECT_NE(complaint("tools", "#include \"heddle/tools/output.h\""), "");
}

TEST(IncludeDirection, TheRuleItself) {
  EXPECT_EQ(complaint("core", "#include \"heddle/core/base/shape.h\""), "");
  EXPECT_EQ(complaint("core", "#include <vector>"), "");
  EXPECT_EQ(complaint("core", "int x;  // #include \"heddle/nn/nn.h\""), "");
  EXPECT_EQ(complaint("backend_vulkan", "#include <vulkan/vulkan.h>"), "");
  EXPECT_EQ(complaint("backend_opencl", "  # include <CL/cl.h>"), "");
  EXPECT_NE(complaint("core", "#include \"heddle/autograd/autograd.h\""), "");
  EXPECT_NE(complaint("autograd", "#include \"heddle/nn/nn.h\""), "");
  EXPECT_NE(complaint("nn", "#include \"heddle/data/datasets.h\""), "");
  EXPECT_NE(complaint("backend_vulkan", "#include \"heddle/backend_opencl/loader.h\""), "");
  EXPECT_NE(complaint("core", "#include \"heddle/backend_vulkan/device.h\""), "");
  EXPECT_NE(complaint("core", "#include <vulkan/vulkan.h>"), "");
  EXPECT_NE(complaint(driver_opener, "#include \"heddle/core/base/shape.h\""), "");
  EXPECT_EQ(complaint(driver_opener, "#include \"heddle/core/base/system/library.h\""), "");
  EXPECT_NE(complaint(driver_compiler, "#include \"heddle/backend_vulkan/device.h\""), "");
  EXPECT_NE(complaint("nn", "#include \"CL/cl.h\""), "");
  EXPECT_NE(complaint("tools", "#include <cuda.h>"), "");
  EXPECT_NE(complaint("core", "#include \"shape.h\""), "");
}

}  // namespace
}  // namespace heddle
