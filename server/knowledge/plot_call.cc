#include <optional>
#include <utility>

#include "server/grpc_status.h"
#include "server/knowledge/calls.h"
#include "server/knowledge/plot_subject.h"
#include "server/knowledge/side_call.h"
#include "server/knowledge/wire_side.h"
#include "server/spec_parser.h"
#include "server/text.h"

namespace phasor::server {
namespace {

constexpr int64_t kLastPosition = (int64_t{1} << 31) - 1;
constexpr size_t kMaxTitle = 200;
constexpr int64_t kDefaultMapRows = 256;

absl::Status CheckRequest(const v1::PlotRequest& request) {
  if (!v1::PlotKind_IsValid(request.kind()) || request.kind() == v1::PLOT_KIND_UNSPECIFIED) {
    return InvalidField("kind", request.kind() == 0 ? "nothing" : Cat(static_cast<int>(request.kind())),
                        "TABLE, WAVELENGTHS, SCORE_DECAY, BIAS, DIFFERENCE, SIMILARITY");
  }
  if (!v1::PlotFormat_IsValid(request.format()))
    return InvalidField("format", Cat(static_cast<int>(request.format())), "SVG");
  const bool two = request.kind() == v1::PLOT_KIND_DIFFERENCE;
  if (!two && request.has_other()) return InvalidField("other", "a second encoding", "nothing but with DIFFERENCE");
  if (request.title().size() > kMaxTitle)
    return InvalidField("title", Cat(request.title().size(), " bytes"), Cat("up to ", kMaxTitle, " bytes"));
  struct Row {
    const char* field;
    int64_t given, lowest, highest;
  };
  for (const Row& row :
       {Row{"first_position", request.first_position(), 0, kLastPosition},
        Row{"count", request.count(), 0, kMaxComparedRows},
        Row{"trained_length", request.trained_length(), 0, kMaxSequenceLength},
        Row{"wanted_length", request.wanted_length(), 0, kMaxSequenceLength},
        Row{"sequence_length", request.has_sequence_length() ? request.sequence_length() : 1, 1, kMaxSequenceLength},
        Row{"width", request.width() == 0 ? kDefaultPlotWidth : request.width(), kMinPlotWidth, kMaxPlotWidth}}) {
    if (absl::Status status = CheckRange(row.field, row.given, row.lowest, row.highest); !status.ok()) return status;
  }
  return absl::OkStatus();
}

PlotSettings SettingsOf(const KnowledgeContext& context, const v1::PlotRequest& request) {
  PlotSettings settings;
  settings.cancel = context.cancel;
  settings.title = request.title();
  if (request.width() > 0) settings.width = static_cast<double>(request.width());
  settings.trained_length = request.trained_length();
  settings.wanted_length = request.wanted_length();
  return settings;
}

absl::StatusOr<Picture> Draw(const KnowledgeContext& context, const v1::PlotRequest& request, const Side& a, const Side* b) {
  const Backend& backend = context.backend;
  std::optional<int64_t> first;
  if (request.first_position() > 0) first = request.first_position();
  const bool map = request.kind() == v1::PLOT_KIND_TABLE || request.kind() == v1::PLOT_KIND_SIMILARITY;
  const auto window = ChooseWindow(a, b, first, request.count(), map ? kDefaultMapRows : kDefaultRows);
  if (!window.ok()) return window.status();
  const PlotSettings settings = SettingsOf(context, request);
  switch (request.kind()) {
    case v1::PLOT_KIND_TABLE:
      return PlotTable(backend, a, *window, settings);
    case v1::PLOT_KIND_WAVELENGTHS:
      return PlotWavelengths(a, settings);
    case v1::PLOT_KIND_SCORE_DECAY:
      return PlotDecay(backend, a, *window, settings);
    case v1::PLOT_KIND_BIAS:
      return PlotBias(backend, a, *window, settings);
    case v1::PLOT_KIND_DIFFERENCE:
      return PlotDifference(backend, a, *b, *window, settings);
    default:
      return PlotSimilarity(backend, a, *window, settings);
  }
}

}  // namespace

absl::StatusOr<v1::PlotResponse> Plot(const KnowledgeContext& context, const v1::PlotRequest& request) {
  if (absl::Status status = CheckRequest(request); !status.ok()) return status;
  std::optional<int64_t> length;
  if (request.has_sequence_length()) length = request.sequence_length();
  absl::StatusOr<Picture> picture = absl::InternalError("nothing drawn");
  if (request.kind() == v1::PLOT_KIND_DIFFERENCE) {
    const auto sides = ReadSides(request.subject(), "subject", request.other(), "other", length, context.limits);
    if (!sides.ok()) return sides.status();
    picture = Draw(context, request, sides->a, &sides->b);
  } else {
    const auto side = ReadSide(request.subject(), "subject", length, context.limits, nullptr);
    if (!side.ok()) return side.status();
    picture = Draw(context, request, *side, nullptr);
  }
  if (!picture.ok()) return AtSide(request.subject(), "subject", picture.status());
  v1::PlotResponse response;
  response.set_media_type("image/svg+xml");
  response.set_image(std::move(picture->svg));
  response.set_description(std::move(picture->description));
  return response;
}

}  // namespace phasor::server
