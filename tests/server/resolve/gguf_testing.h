// What the tests of GGUF files share: reading one from disk with its tensors, and making one byte by byte.
#ifndef PHASOR_TESTS_SERVER_RESOLVE_GGUF_TESTING_H_
#define PHASOR_TESTS_SERVER_RESOLVE_GGUF_TESTING_H_

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/resolve/gguf_model.h"

namespace phasor::server {

inline std::string GgufFolder() { return PHASOR_SOURCE_DIR "/tests/golden/gguf"; }

inline std::string ReadBytes(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
}

// The data of the tensors that decide positions; they are float32 in every file of the tests.
inline std::vector<GgufTensor> TensorsOf(const GgufHead& head, std::string_view file) {
  std::vector<GgufTensor> tensors;
  for (const GgufTensorInfo& info : head.tensors) {
    if (!GgufDecidesPositions(info.name)) continue;
    std::vector<float> values(info.elements);
    const size_t start = head.data_offset + info.offset;
    EXPECT_LE(start + values.size() * sizeof(float), file.size());
    std::memcpy(values.data(), file.data() + start, values.size() * sizeof(float));
    tensors.push_back({info.name, std::move(values)});
  }
  return tensors;
}

// Writes heads, sound ones and others. Keys are given in full.
class GgufMaker {
 public:
  GgufMaker& Add(std::string_view key, GgufType type, std::string_view bytes) {
    entries_ += Text(key) + Raw(static_cast<uint32_t>(type)) + std::string(bytes);
    ++entry_count_;
    return *this;
  }
  GgufMaker& String(std::string_view key, std::string_view text) { return Add(key, GgufType::kString, Text(text)); }
  GgufMaker& Uint(std::string_view key, uint32_t value) { return Add(key, GgufType::kUint32, Raw(value)); }
  GgufMaker& Float(std::string_view key, float value) { return Add(key, GgufType::kFloat32, Raw(value)); }
  GgufMaker& Bool(std::string_view key, bool value) { return Add(key, GgufType::kBool, Raw(static_cast<uint8_t>(value))); }
  template <typename T>
  GgufMaker& List(std::string_view key, GgufType element, const std::vector<T>& values) {
    std::string bytes = Raw(static_cast<uint32_t>(element)) + Raw(static_cast<uint64_t>(values.size()));
    for (const T value : values) bytes += Raw(value);
    return Add(key, GgufType::kArray, bytes);
  }
  // A float32 tensor of one dimension.
  GgufMaker& Tensor(std::string_view name, std::vector<float> values) {
    tensor_infos_ +=
        Text(name) + Raw(uint32_t{1}) + Raw(static_cast<uint64_t>(values.size())) + Raw(uint32_t{0}) + Raw(uint64_t{0});
    tensors_.push_back({name, std::move(values)});
    return *this;
  }

  // A float32 tensor of two dimensions, columns first as ggml lists them, without its data.
  GgufMaker& Table(std::string_view name, uint64_t columns, uint64_t rows) {
    tensor_infos_ += Text(name) + Raw(uint32_t{2}) + Raw(columns) + Raw(rows) + Raw(uint32_t{0}) + Raw(uint64_t{0});
    ++table_count_;
    return *this;
  }

  std::string Head(uint32_t version = 3) const {
    return "GGUF" + Raw(version) + Raw(static_cast<uint64_t>(tensors_.size()) + table_count_) + Raw(entry_count_) +
           entries_ + tensor_infos_;
  }
  absl::StatusOr<ModelEncoding> Read() const { return ReadGguf(Head(), tensors_); }

  template <typename T>
  static std::string Raw(T value) {
    std::string bytes(sizeof(T), '\0');
    std::memcpy(bytes.data(), &value, sizeof(T));
    return bytes;
  }
  static std::string Text(std::string_view text) { return Raw(static_cast<uint64_t>(text.size())) + std::string(text); }

 private:
  uint64_t entry_count_ = 0;
  uint64_t table_count_ = 0;
  std::string entries_;
  std::string tensor_infos_;
  std::vector<GgufTensor> tensors_;
};

// A small model of an architecture: 32 layers, 32 heads of 128, 8192 positions.
inline GgufMaker SmallGguf(std::string_view architecture) {
  const std::string prefix = std::string(architecture) + ".";
  GgufMaker maker;
  maker.String("general.architecture", architecture).Uint(prefix + "context_length", 8192).Uint(prefix + "block_count", 32);
  maker.Uint(prefix + "embedding_length", 4096).Uint(prefix + "attention.head_count", 32);
  return maker;
}

}  // namespace phasor::server

#endif  // PHASOR_TESTS_SERVER_RESOLVE_GGUF_TESTING_H_
