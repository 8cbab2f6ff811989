// OpenBLAS, as bench/peers/openblas.cpp uses it.
#include <cblas.h>

int main() {
  const float one = 1;
  float result = 0;
  const blasint size = 1;
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, size, size, size, 1.0f, &one, size, &one, size, 0.0f, &result,
              size);
  return result != 1;
}
