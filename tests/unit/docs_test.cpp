// The documents: files and pages that they name are there, and no line is too long to read.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace heddle {
namespace {

namespace fs = std::filesystem;

const fs::path root = HEDDLE_SOURCE_DIR;

std::string text_of(const fs::path& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<fs::path> files_with(const std::set<std::string>& extensions) {
  std::vector<fs::path> found;
  for (fs::recursive_directory_iterator at(root), end; at != end; ++at) {
    const std::string name = at->path().filename().string();
    if (at->is_directory() && (name.starts_with("build") || name.starts_with("."))) at.disable_recursion_pending();
    if (at->is_regular_file() && extensions.contains(at->path().extension().string())) found.push_back(at->path());
  }
  return found;
}

// Every page but the list of changes, which names what was.
std::vector<fs::path> pages() {
  std::vector<fs::path> found;
  for (const fs::path& page : files_with({".md"}))
    if (page.filename() != "CHANGELOG.md") found.push_back(page);
  return found;
}

// Every match of the first group.
std::set<std::string> matches(const std::string& text, const std::string& pattern) {
  const std::regex form(pattern);
  std::set<std::string> found;
  for (std::sregex_iterator at(text.begin(), text.end(), form), end; at != end; ++at) found.insert((*at)[1]);
  return found;
}

TEST(Docs, FilesThatTheyNameAreThere) {
  const std::string path =
      "`((?:autograd|backend_\\w+|bench|checks|cmake|core|data|distributed|docs|examples|io|nn|shaders|tests|tools|"
      "train)/"
      "[\\w/.-]+\\.(?:h|cpp|inc|hk|hki|md|py|sh|cmake|txt|json|js|css))(?::[\\d, ]+)?`";
  int count = 0;
  for (const fs::path& page : pages()) {
    for (const std::string& named : matches(text_of(page), path)) {
      ++count;
      EXPECT_TRUE(named.find("NAME") != std::string::npos || fs::exists(root / named)) << page << " names " << named;
    }
  }
  EXPECT_GT(count, 200);
}

TEST(Docs, FoldersThatTheyNameAreThere) {
  const std::string path =
      "`((?:autograd|backend_\\w+|bench|checks|cmake|core|data|distributed|docs|examples|io|nn|shaders|tests|tools|"
      "train)/"
      "(?:[\\w-]+/)*)`";
  for (const fs::path& page : pages())
    for (const std::string& named : matches(text_of(page), path))
      EXPECT_TRUE(fs::is_directory(root / named)) << page << " names " << named;
}

TEST(Docs, LinksLeadToPages) {
  for (const fs::path& page : pages())
    for (const std::string& link : matches(text_of(page), R"(\]\(([^)#:\s]+)\))"))
      EXPECT_TRUE(fs::exists(page.parent_path() / link)) << page << " links to " << link;
}

// Rows of tables cannot be broken.
TEST(Docs, NoLineIsTooLong) {
  for (const fs::path& page : files_with({".md"})) {
    std::istringstream lines(text_of(page));
    std::string line;
    for (int number = 1; std::getline(lines, line); ++number)
      EXPECT_TRUE(line.size() <= 160 || line.starts_with("|")) << page << ":" << number;
  }
  for (const fs::path& file : files_with({".sh", ".cmake", ".py"})) {
    std::istringstream lines(text_of(file));
    std::string line;
    for (int number = 1; std::getline(lines, line); ++number) EXPECT_LE(line.size(), 160u) << file << ":" << number;
  }
}

TEST(Docs, ReadmeAndDesignLeadToTheGlossary) {
  for (const char* page : {"README.md", "docs/design.md"})
    EXPECT_NE(text_of(root / page).find("glossary.md)"), std::string::npos) << page;
}

}  // namespace
}  // namespace heddle
