#include "server/knowledge/distill_files.h"

#include <bit>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace phasor::server {
namespace {

constexpr size_t kAlignment = 8;

void AppendLittleEndian(uint64_t bits, std::string* out) {
  for (int shift = 0; shift < 64; shift += 8) out->push_back(static_cast<char>(bits >> shift & 0xff));
}

std::string Exactly(double value) { return absl::StrFormat("%.17g", value); }

}  // namespace

std::vector<std::pair<std::string, std::string>> DescriptionOf(const Side& side, const Distilled& distilled) {
  const DistilledSpec& spec = distilled.spec;
  const bool series = distilled.form == DistillForm::kCosineSeries;
  std::string source = "a table";
  if (side.spec) {
    const std::string_view name = SchemeOf(side.spec->spec).name;
    source.assign(name.begin(), name.end());
  }
  const absl::string_view family{Name(side.family).data(), Name(side.family).size()};
  std::vector<std::pair<std::string, std::string>> lines{
      {"form", series ? "cosine series" : "perceptron"},
      {"input", series ? "x[k] = cos(pi*k*(m - first_position + 0.5)/num_positions), k = 0 .. cosine_terms - 1"
                       : "x = 2*((m - first_position)/(num_positions - 1)) - 1"},
      {"function", series ? "rows = x w1^T + b1" : "rows = silu(silu(x w1^T + b1) w2^T + b2) w3^T + b3"},
      {"first_position", absl::StrCat(spec.first_position.value_or(0))},
      {"num_positions", absl::StrCat(spec.num_positions)},
      {"source", source},
      {"family", absl::StrCat(family, side.family == Family::kBias ? ": m is query - key" : "")},
      {"max_error", Exactly(distilled.errors.max_error)},
      {"rms_error", Exactly(distilled.errors.rms_error)}};
  if (series) lines.emplace_back("cosine_terms", absl::StrCat(spec.cosine_terms));
  if (distilled.errors.max_beyond) lines.emplace_back("max_error_beyond", Exactly(*distilled.errors.max_beyond));
  if (side.family == Family::kRotation && side.columns * 2 == spec.w[series ? 0 : 2]->shape[0]) {
    lines.emplace_back("columns", "cosines, then sines");
  }
  return lines;
}

std::string SafetensorsOf(const Side& side, const Distilled& distilled) {
  std::vector<std::string> entries;
  std::string data;
  const auto add = [&](const std::string& name, const WeightRef& weight) {
    const size_t begin = data.size();
    for (const double value : weight->values()) AppendLittleEndian(std::bit_cast<uint64_t>(value), &data);
    entries.push_back(absl::StrCat("\"", name, "\":{\"dtype\":\"F64\",\"shape\":[", absl::StrJoin(weight->shape, ","),
                                   "],\"data_offsets\":[", begin, ",", data.size(), "]}"));
  };
  for (size_t i = 0; i < distilled.spec.w.size() && distilled.spec.w[i]; ++i) {
    add(absl::StrCat("w", i + 1), distilled.spec.w[i]);
    add(absl::StrCat("b", i + 1), distilled.spec.b[i]);
  }
  std::vector<std::string> metadata;
  for (const auto& [name, value] : DescriptionOf(side, distilled)) {
    metadata.push_back(absl::StrCat("\"", name, "\":\"", value, "\""));
  }
  std::string header =
      absl::StrCat("{\"__metadata__\":{", absl::StrJoin(metadata, ","), "},", absl::StrJoin(entries, ","), "}");
  header.resize((header.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  std::string file;
  AppendLittleEndian(header.size(), &file);
  return absl::StrCat(file, header, data);
}

}  // namespace phasor::server
