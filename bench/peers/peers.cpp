#include "bench/peers/peers.h"

namespace heddle::bench {

Bytes random_bytes(int64_t count, DType dtype, uint32_t stream) {
  std::vector<float> values = random_floats(count, stream);
  if (dtype == DType::i8) {
    for (float& value : values) value *= 254;  // whole bytes: -127 to 127
  }
  auto bytes = std::make_shared<std::vector<uint8_t>>(values.size() * size_of(dtype));
  for (size_t i = 0; i < values.size(); ++i) store_element(bytes->data(), dtype, i, values[i]);
  return bytes;
}

std::vector<float> floats_of(const std::vector<uint8_t>& bytes, DType dtype) {
  std::vector<float> values(bytes.size() / size_of(dtype));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(load_element(bytes.data(), dtype, i));
  return values;
}

}  // namespace heddle::bench
