// utf8proc, as data/unicode.cpp uses it.
#include <utf8proc.h>

int main() {
  return utf8proc_category(0xFC) >= UTF8PROC_CATEGORY_LU && utf8proc_category('1') <= UTF8PROC_CATEGORY_NO ? 0 : 1;
}
