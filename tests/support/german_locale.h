// A locale in which a comma stands for the decimal point, made with localedef in a folder of its own, for as long as it
// lives.
#pragma once

#include <clocale>
#include <cstdlib>
#include <string>

#include "tests/support/temporary_folder.h"

namespace heddle::test {

class GermanLocale {
 public:
  GermanLocale() {
    const std::string command = "localedef -i de_DE -f UTF-8 '" + (folder_ / "de_DE.UTF-8") + "' >/dev/null 2>&1";
    if (std::system(command.c_str()) != 0) return;
    ::setenv("LOCPATH", folder_.path().c_str(), 1);
    installed_ = std::setlocale(LC_ALL, "de_DE.UTF-8") != nullptr && *std::localeconv()->decimal_point == ',';
  }
  ~GermanLocale() {
    std::setlocale(LC_ALL, "C");
    ::unsetenv("LOCPATH");
  }
  GermanLocale(const GermanLocale&) = delete;
  GermanLocale& operator=(const GermanLocale&) = delete;

  // False where localedef or its sources are not installed.
  bool installed() const { return installed_; }

 private:
  TemporaryFolder folder_;
  bool installed_ = false;
};

}  // namespace heddle::test
