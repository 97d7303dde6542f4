#include "kernels/encodings/weight.h"

namespace phasor {

void AppendContent(const WeightRef& weight, KeyBytes& key) {
  key.Byte(weight ? 1 : 0);
  if (!weight) return;
  key.Byte(static_cast<uint8_t>(weight->dtype));
  key.Ints(weight->shape);
  key.Text(weight->digest);
}

WeightRef MakeWeight(std::vector<int64_t> shape, const std::vector<double>& values, std::string digest) {
  const size_t bytes = values.size() * sizeof(double);
  const std::shared_ptr<std::byte[]> data(new std::byte[bytes == 0 ? 1 : bytes]);
  if (bytes > 0) std::memcpy(data.get(), values.data(), bytes);
  if (digest.empty()) digest.assign(reinterpret_cast<const char*>(data.get()), bytes);
  auto weight = std::make_shared<Weight>();
  weight->dtype = DType::kF64;
  weight->shape = std::move(shape);
  weight->data = std::shared_ptr<const std::byte>(data, data.get());
  weight->digest = std::move(digest);
  return WeightRef(std::move(weight));
}

}  // namespace phasor
