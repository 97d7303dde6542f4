// M-RoPE: text with images and videos in it.
#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"

#include "server/enum_text.h"
#include "server/grpc_status.h"
#include "server/item_parser.h"
#include "server/position_rules.h"
#include "server/position_rules_omni.h"

namespace phasor::server {
namespace {

constexpr int64_t kMaxMerge = 64;
constexpr double kDefaultTokensPerSecond = 4;

bool IsHunyuan(const v1::MropePositions& rule) { return rule.layout() == v1::MROPE_LAYOUT_HUNYUAN_VL; }
constexpr char kLayoutsWithSeconds[] =
    "unset, or MROPE_LAYOUT_QWEN2_5_VL, MROPE_LAYOUT_QWEN2_5_OMNI, MROPE_LAYOUT_QWEN3_OMNI";
bool HasSeconds(const v1::MropePositions& rule) { return rule.layout() == v1::MROPE_LAYOUT_QWEN2_5_VL || IsOmni(rule); }
int64_t MergeOf(const v1::MropePositions& rule) { return rule.has_spatial_merge() ? rule.spatial_merge() : 2; }

// Tokens of an image or video after merging.
struct Grid {
  int64_t time = 1, height = 0, width = 0;
  double interval = 1;  // positions from frame to frame
};

Grid GridOf(const v1::MropePositions& rule, const v1::MropeGrid& grid, bool video) {
  Grid g{.time = grid.has_time() ? grid.time() : 1,
         .height = grid.height() / MergeOf(rule),
         .width = grid.width() / MergeOf(rule)};
  if (video && rule.has_temporal_merge()) g.time /= rule.temporal_merge();
  if (rule.layout() == v1::MROPE_LAYOUT_QWEN2_5_VL) {
    // Images have no time to spread. The product is taken before the frame's number comes in, as the library does.
    const double seconds = grid.has_second_per_grid() ? grid.second_per_grid() : 1;
    const double rate = rule.has_tokens_per_second() ? rule.tokens_per_second() : kDefaultTokensPerSecond;
    g.interval = video ? seconds * rate : 1;
  }
  if (IsOmni(rule) && video) g.interval = OmniInterval(rule, grid);
  if (IsHunyuan(rule)) ++g.width;  // the token that ends a row
  return g;
}

absl::Status CheckGrid(const v1::MropePositions& rule, const v1::MropeGrid& grid, bool video, const std::string& path,
                       const Limits& limits) {
  const int64_t merge = MergeOf(rule);
  for (const auto& [name, extent] : {std::pair<const char*, int64_t>{"height", grid.height()}, {"width", grid.width()}}) {
    if (extent < merge || extent % merge != 0 || extent > limits.max_positions) {
      return InvalidField(absl::StrCat(path, ".", name), absl::StrCat(extent),
                          absl::StrCat("a positive multiple of ", merge, " (spatial_merge), up to ", limits.max_positions));
    }
  }
  const int64_t time = grid.has_time() ? grid.time() : 1;
  const bool single = !video || rule.layout() == v1::MROPE_LAYOUT_QWEN3_VL || IsHunyuan(rule);
  const int64_t merge_time = video && rule.has_temporal_merge() ? rule.temporal_merge() : 1;
  if (time < 1 || time > limits.max_positions || time % merge_time != 0 ||
      (single && rule.layout() >= v1::MROPE_LAYOUT_QWEN3_VL && time != 1)) {
    return InvalidField(absl::StrCat(path, ".time"), absl::StrCat(time),
                        single && rule.layout() >= v1::MROPE_LAYOUT_QWEN3_VL
                            ? "1: every frame is a segment of its own"
                            : absl::StrCat("1 or more, a multiple of ", merge_time, " (temporal_merge)"));
  }
  if (grid.has_second_per_grid() && !(HasSeconds(rule) && video)) {
    return InvalidField(absl::StrCat(path, ".second_per_grid"), absl::StrCat(grid.second_per_grid()),
                        video ? kLayoutsWithSeconds : "unset: images have no time");
  }
  if (grid.has_second_per_grid() && !(grid.second_per_grid() >= 0 && grid.second_per_grid() <= 1e9)) {
    return InvalidField(absl::StrCat(path, ".second_per_grid"), absl::StrCat(grid.second_per_grid()), "0 … 1e9");
  }
  return absl::OkStatus();
}

absl::Status CheckParameters(const v1::MropePositions& rule, const std::string& path) {
  if (auto status = CheckEnum(absl::StrCat(path, ".layout"), rule.layout(), v1::MropeLayout_descriptor()); !status.ok()) {
    return status;
  }
  if (auto status = CheckEnum(absl::StrCat(path, ".advance"), rule.advance(), v1::MropeAdvance_descriptor()); !status.ok()) {
    return status;
  }
  if (MergeOf(rule) < 1 || MergeOf(rule) > kMaxMerge) {
    return InvalidField(absl::StrCat(path, ".spatial_merge"), absl::StrCat(MergeOf(rule)), absl::StrCat("1 … ", kMaxMerge));
  }
  if (rule.has_temporal_merge() && (rule.temporal_merge() < 1 || rule.temporal_merge() > kMaxMerge)) {
    return InvalidField(absl::StrCat(path, ".temporal_merge"), absl::StrCat(rule.temporal_merge()),
                        absl::StrCat("1 … ", kMaxMerge));
  }
  if (rule.has_tokens_per_second() && !HasSeconds(rule)) {
    return InvalidField(absl::StrCat(path, ".tokens_per_second"), absl::StrCat(rule.tokens_per_second()),
                        kLayoutsWithSeconds);
  }
  if (rule.has_tokens_per_second() && !(rule.tokens_per_second() >= 0 && rule.tokens_per_second() <= 1e9)) {
    return InvalidField(absl::StrCat(path, ".tokens_per_second"), absl::StrCat(rule.tokens_per_second()), "0 … 1e9");
  }
  if (rule.has_axes() && (!IsHunyuan(rule) || (rule.axes() != 3 && rule.axes() != 4))) {
    return InvalidField(absl::StrCat(path, ".axes"), absl::StrCat(rule.axes()),
                        IsHunyuan(rule) ? "3 or 4" : "unset: the layout has 3");
  }
  if (IsOmni(rule)) {
    if (auto status = CheckOmni(rule, path); !status.ok()) return status;
  }
  if (rule.segments().empty()) return InvalidField(absl::StrCat(path, ".segments"), "nothing", "at least one segment");
  return absl::OkStatus();
}

// Writes tokens one after the other.
class Writer {
 public:
  Writer(const v1::MropePositions& rule, const RuleSize& size) : rule_(rule) {
    ids_.whole.resize(static_cast<size_t>(size.axes));
    for (auto& axis : ids_.whole) axis.reserve(static_cast<size_t>(size.count));
  }

  void Text(int64_t tokens) {
    for (int64_t i = 0; i < tokens; ++i) Same(next_++);
    counted_ += tokens;
  }

  void Padding(int64_t tokens) {
    for (int64_t i = 0; i < tokens; ++i) {
      for (auto& axis : ids_.whole) axis.push_back(0);
    }
  }

  void Vision(const Grid& grid) {
    const int64_t start = next_;
    for (int64_t t = 0; t < grid.time; ++t) {
      // The start is added after the frame's number was scaled and truncated.
      const int64_t frame = start + static_cast<int64_t>(static_cast<double>(t) * grid.interval);
      for (int64_t h = 0; h < grid.height; ++h) {
        for (int64_t w = 0; w < grid.width; ++w) Token({frame, start + h, start + w});
      }
    }
    counted_ += grid.time * grid.height * grid.width;
    next_ = rule_.advance() == v1::MROPE_ADVANCE_SPATIAL ? start + std::max(grid.height, grid.width) : largest_ + 1;
  }

  void HunyuanImage(const Grid& grid) {
    for (int64_t h = 0; h < grid.height; ++h) {
      for (int64_t w = 0; w < grid.width; ++w) {
        if (ids_.whole.size() == 4) {
          Token({next_, w, h, images_});
        } else {
          Token({w, h, images_});
        }
        ++next_;
      }
    }
    counted_ += grid.height * grid.width;
    ++images_;
  }

  RuleIds Take() && {
    ids_.rope_delta = largest_ + 1 - counted_;
    return std::move(ids_);
  }

 private:
  void Same(int64_t position) {
    for (auto& axis : ids_.whole) axis.push_back(position);
    largest_ = std::max(largest_, position);
  }
  void Token(std::initializer_list<int64_t> coordinates) {
    size_t axis = 0;
    for (int64_t coordinate : coordinates) {
      ids_.whole[axis++].push_back(coordinate);
      largest_ = std::max(largest_, coordinate);
    }
  }

  const v1::MropePositions& rule_;
  RuleIds ids_;
  int64_t next_ = 0;
  int64_t largest_ = -1;
  int64_t counted_ = 0;
  int64_t images_ = 0;
};

}  // namespace

absl::StatusOr<RuleSize> SizeOfMrope(const v1::MropePositions& rule, const std::string& path, const Limits& limits) {
  if (auto status = CheckParameters(rule, path); !status.ok()) return status;
  RuleSize size{.axes = IsHunyuan(rule) && rule.axes() != 3 ? 4 : 3, .count = 0};
  double furthest = 0;
  for (int i = 0; i < rule.segments_size(); ++i) {
    const v1::MropeSegment& segment = rule.segments(i);
    const std::string at = absl::StrCat(path, ".segments[", i, "]");
    double tokens = 0;
    switch (segment.content_case()) {
      case v1::MropeSegment::kText:
      case v1::MropeSegment::kPadding: {
        const int64_t given = segment.has_text() ? segment.text() : segment.padding();
        if (given < 0) {
          return InvalidField(absl::StrCat(at, segment.has_text() ? ".text" : ".padding"), absl::StrCat(given), "0 or more");
        }
        tokens = static_cast<double>(given);
        furthest += tokens;
        break;
      }
      case v1::MropeSegment::kImage:
      case v1::MropeSegment::kVideo: {
        const bool video = segment.has_video();
        const std::string field = at + (video ? ".video" : ".image");
        if (video && IsHunyuan(rule)) return InvalidField(field, "a video", "text or an image: the layout has no videos");
        const v1::MropeGrid& given = video ? segment.video() : segment.image();
        if (auto status = CheckGrid(rule, given, video, field, limits); !status.ok()) return status;
        const Grid grid = GridOf(rule, given, video);
        tokens = static_cast<double>(grid.time) * static_cast<double>(grid.height) * static_cast<double>(grid.width);
        furthest += tokens + static_cast<double>(grid.time) * grid.interval;
        break;
      }
      case v1::MropeSegment::kAudioInVideo: {
        const v1::MropeAudioInVideo& given = segment.audio_in_video();
        const std::string field = at + ".audio_in_video";
        if (!IsOmni(rule)) {
          return InvalidField(field, "a video with audio",
                              "another segment: MROPE_LAYOUT_QWEN2_5_OMNI and MROPE_LAYOUT_QWEN3_OMNI have these");
        }
        if (auto status = CheckGrid(rule, given.video(), true, field + ".video", limits); !status.ok()) return status;
        if (auto status = CheckAudioInVideo(rule, given, field); !status.ok()) return status;
        const Grid grid = GridOf(rule, given.video(), true);
        tokens = static_cast<double>(grid.time) * static_cast<double>(grid.height) * static_cast<double>(grid.width) +
                 static_cast<double>(given.audio()) + kAudioInVideoMarks;
        furthest += tokens + static_cast<double>(grid.time) * grid.interval;
        break;
      }
      case v1::MropeSegment::CONTENT_NOT_SET:
        return InvalidField(at, "nothing", "one of text, image, video, padding, audio_in_video");
    }
    const double total = static_cast<double>(size.count) + tokens;
    if (!(total <= static_cast<double>(limits.max_positions))) {
      return OverLimit(at, static_cast<int64_t>(std::min(total, 0x1p62)), "max_positions", limits.max_positions,
                       "positions up to here");
    }
    if (!(furthest < 0x1p62)) return InvalidField(at, "frames that far apart", "positions below 2^62");
    size.count += static_cast<int64_t>(tokens);
  }
  return size;
}

RuleIds IdsOfMrope(const v1::MropePositions& rule, const RuleSize& size) {
  if (IsOmni(rule)) return IdsOfOmni(rule, size);
  Writer writer(rule, size);
  for (const v1::MropeSegment& segment : rule.segments()) {
    if (segment.has_text()) {
      writer.Text(segment.text());
    } else if (segment.has_padding()) {
      writer.Padding(segment.padding());
    } else {
      const Grid grid = GridOf(rule, segment.has_video() ? segment.video() : segment.image(), segment.has_video());
      IsHunyuan(rule) ? writer.HunyuanImage(grid) : writer.Vision(grid);
    }
  }
  return std::move(writer).Take();
}

}  // namespace phasor::server
