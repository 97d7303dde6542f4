// Bias windows of schemes over windows of an image, and of learned functions of positions.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "kernels/program/window_bias.h"
#include "server/describe.h"
#include "server/fingerprint.h"
#include "server/window_bias_work.h"
#include "server/window_layout.h"
#include "server/work_parsers.h"

namespace phasor::server {
namespace {

void AppendPlaces(const PlaceRows& rows, std::string* key) {
  absl::StrAppend(key, " ", rows.stride, ",", rows.places.size(), ":");
  const char* bytes = reinterpret_cast<const char*>(rows.places.data());
  *key += Sha256(std::string_view(bytes, rows.places.size() * sizeof(int64_t)));
}

absl::Status CheckProducts(const EncodingSpec& spec, const WindowLayout& layout, const Limits& limits) {
  if (layout.indices) return absl::OkStatus();
  const int64_t batch = layout.rows_differ ? layout.batch_rows() : 1;
  return CheckFunctionProducts("bias", spec, batch, layout.rows(), layout.request.keys, layout.Consecutive(), limits);
}

LastPosition LastPositionOf(const v1::BiasWindow& window, const WindowLayout& layout) {
  const BiasRequest& request = layout.request;
  const auto largest_of = [](const PlaceRows& rows, int64_t otherwise) {
    return rows.places.empty() ? otherwise : *std::max_element(rows.places.begin(), rows.places.end());
  };
  return LastOf(window, largest_of(layout.queries, request.query_offset + request.queries - 1),
                largest_of(layout.keys, request.keys - 1));
}

// Shapes and the plan say the rest.
std::string KeyOf(const WindowLayout& layout) {
  const BiasRequest& request = layout.request;
  std::string key = absl::StrCat("window-bias ", layout.indices ? 1 : 0, " ", static_cast<int>(request.form), " ",
                                 request.first_head, " ", layout.first_distance);
  AppendPlaces(layout.queries, &key);
  AppendPlaces(layout.keys, &key);
  if (layout.masked) absl::StrAppend(&key, " masked ", request.query_offset, " ");
  if (layout.masked) key += layout.masking_key;
  return key;
}

}  // namespace

ParsedWork ParseWindowBiasWork(const v1::PrecomputeItem& message, const TableSource& source, ParseContext& context) {
  const EncodingSpec& spec = source.spec.spec;
  const std::optional<BiasTraits> traits = TraitsOf(spec);
  if (!traits) return nullptr;
  absl::StatusOr<WindowLayout> layout = ParseWindowLayout(message, std::string(SchemeOf(spec).name), *traits, context);
  if (!layout.ok()) return layout.status();
  auto array = ArrayOf(*layout, context.limits);
  if (!array.ok()) return array.status();
  if (auto status = CheckProducts(spec, *layout, context.limits); !status.ok()) return status;
  const LastPosition last = traits->tokens > 0 ? LastPosition() : LastPositionOf(message.bias(), *layout);
  std::string key = KeyOf(*layout);
  auto work = std::make_shared<WindowBiasWork>(source, *std::move(layout), *std::move(array));
  work->key = std::move(key);
  work->warnings = WarningsFor(source, static_cast<double>(last.position), last.field);
  if (source.max_position && traits->tokens > 0) {
    work->warnings.push_back({"max_position", "without effect: the tokens of a window have their places"});
  }
  return work;
}

}  // namespace phasor::server
