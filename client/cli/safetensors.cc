#include "client/cli/safetensors.h"

#include <rapidjson/document.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "client/cli/text.h"
#include "kernels/core/checked_math.h"

namespace phasor::cli {
namespace {

constexpr std::pair<std::string_view, DType> kNames[] = {{"F64", DType::kF64},   {"F32", DType::kF32}, {"F16", DType::kF16},
                                                         {"BF16", DType::kBF16}, {"I32", DType::kI32}, {"I64", DType::kI64},
                                                         {"BOOL", DType::kBool}};
constexpr uint64_t kMaxHeader = uint64_t{100} << 20;

using Writer = rapidjson::Writer<rapidjson::StringBuffer>;

void WriteString(Writer& writer, std::string_view text) {
  writer.String(text.data(), static_cast<rapidjson::SizeType>(text.size()));
}

void WriteMetadata(Writer& writer, const ArrayWriter::Metadata& metadata) {
  writer.StartObject();
  for (const auto& [key, value] : metadata) {
    WriteString(writer, key);
    WriteString(writer, value);
  }
  writer.EndObject();
}

absl::Status Bad(absl::string_view name, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("not a sound .safetensors file: ", name, name.empty() ? "" : ": ", why));
}

// One entry of the header, without its data.
struct Placed {
  ArrayInfo info;
  uint64_t begin = 0, end = 0;
};

absl::StatusOr<Placed> ParseEntry(std::string name, const rapidjson::Value& value) {
  if (!value.IsObject() || !value.HasMember("dtype") || !value.HasMember("shape") || !value.HasMember("data_offsets") ||
      !value["dtype"].IsString() || !value["shape"].IsArray() || !value["data_offsets"].IsArray()) {
    return Bad(name, "it lacks dtype, shape or data_offsets");
  }
  Placed placed;
  placed.info.name = std::move(name);
  const std::string_view given = value["dtype"].GetString();
  const auto* known =
      std::find_if(std::begin(kNames), std::end(kNames), [&](const auto& entry) { return entry.first == given; });
  if (known == std::end(kNames)) {
    return Bad(placed.info.name, absl::StrCat("element type ", View(given), "; allowed: F64 F32 F16 BF16 I32 I64 BOOL"));
  }
  placed.info.dtype = known->second;
  for (const auto& extent : value["shape"].GetArray()) {
    if (!extent.IsInt64() || extent.GetInt64() < 0) return Bad(placed.info.name, "a bad extent");
    placed.info.shape.push_back(extent.GetInt64());
  }
  const auto& offsets = value["data_offsets"];
  if (offsets.Size() != 2 || !offsets[0].IsUint64() || !offsets[1].IsUint64() ||
      offsets[0].GetUint64() > offsets[1].GetUint64()) {
    return Bad(placed.info.name, "bad data_offsets");
  }
  placed.begin = offsets[0].GetUint64();
  placed.end = offsets[1].GetUint64();
  const std::optional<int64_t> elements = CheckedElements(placed.info.shape);
  const std::optional<int64_t> size = elements ? CheckedMul(*elements, SizeOf(placed.info.dtype)) : std::nullopt;
  if (!size || static_cast<uint64_t>(*size) != placed.end - placed.begin)
    return Bad(placed.info.name, "its shape, type and data_offsets disagree");
  return placed;
}

}  // namespace

std::string SafetensorsHeader(const std::vector<ArrayInfo>& arrays, const ArrayWriter::Metadata& metadata) {
  rapidjson::StringBuffer buffer;
  Writer writer(buffer);
  writer.StartObject();
  if (!metadata.empty()) {
    WriteString(writer, "__metadata__");
    WriteMetadata(writer, metadata);
  }
  int64_t offset = 0;
  for (const ArrayInfo& info : arrays) {
    WriteString(writer, info.name);
    writer.StartObject();
    WriteString(writer, "dtype");
    for (const auto& [name, dtype] : kNames) {
      if (dtype == info.dtype) WriteString(writer, name);
    }
    WriteString(writer, "shape");
    writer.StartArray();
    for (const int64_t extent : info.shape) writer.Int64(extent);
    writer.EndArray();
    WriteString(writer, "data_offsets");
    writer.StartArray();
    writer.Int64(offset);
    offset += info.bytes();
    writer.Int64(offset);
    writer.EndArray();
    writer.EndObject();
  }
  writer.EndObject();
  std::string header(buffer.GetString(), buffer.GetSize());
  header.append((8 - header.size() % 8) % 8, ' ');
  std::string out;
  for (int i = 0; i < 8; ++i) out.push_back(static_cast<char>(uint64_t{header.size()} >> (8 * i)));
  return out + header;
}

std::string MetadataJson(const ArrayWriter::Metadata& metadata) {
  rapidjson::StringBuffer buffer;
  Writer writer(buffer);
  WriteMetadata(writer, metadata);
  return std::string(buffer.GetString(), buffer.GetSize());
}

absl::StatusOr<std::vector<LoadedArray>> ParseSafetensors(std::string_view bytes) {
  if (bytes.size() < 8) return Bad("", "it is shorter than its header");
  uint64_t length = 0;
  for (int i = 0; i < 8; ++i) length |= uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  if (length > kMaxHeader || length > bytes.size() - 8) return Bad("", "its header runs past the end");
  rapidjson::Document document;
  document.Parse<rapidjson::kParseIterativeFlag>(bytes.data() + 8, length);
  if (document.HasParseError() || !document.IsObject()) return Bad("", "its header is no JSON object");
  const std::string_view payload = bytes.substr(8 + length);

  std::vector<Placed> placed;
  for (const auto& member : document.GetObject()) {
    std::string name(member.name.GetString(), member.name.GetStringLength());
    if (name == "__metadata__") continue;
    absl::StatusOr<Placed> entry = ParseEntry(std::move(name), member.value);
    if (!entry.ok()) return entry.status();
    if (entry->end > payload.size()) return Bad(entry->info.name, "its data run past the end");
    placed.push_back(*std::move(entry));
  }
  std::sort(placed.begin(), placed.end(),
            [](const Placed& a, const Placed& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  std::vector<LoadedArray> out;
  uint64_t covered = 0;
  for (Placed& entry : placed) {
    if (entry.begin < covered) return Bad(entry.info.name, "its data overlap another array's");
    covered = entry.end;
    const auto* data = reinterpret_cast<const std::byte*>(payload.data() + entry.begin);
    out.push_back({std::move(entry.info), std::vector<std::byte>(data, data + (entry.end - entry.begin))});
  }
  return out;
}

}  // namespace phasor::cli
