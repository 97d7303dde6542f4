#include "server/position_rules_omni.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "server/grpc_status.h"

namespace phasor::server {
namespace {

constexpr double kDefaultChunk = 2;

bool IsFractional(const v1::MropePositions& rule) { return rule.layout() == v1::MROPE_LAYOUT_QWEN3_OMNI; }

double RateOf(const v1::MropePositions& rule) {
  return rule.has_tokens_per_second() ? rule.tokens_per_second() : IsFractional(rule) ? 13 : 25;
}

double ChunkOf(const v1::MropePositions& rule, const v1::MropeAudioInVideo& segment) {
  return std::trunc((segment.has_seconds_per_chunk() ? segment.seconds_per_chunk() : kDefaultChunk) * RateOf(rule));
}

using Token = std::array<double, 3>;

double LargestOf(const Token& token) { return std::max({token[0], token[1], token[2]}); }

// Writes tokens one after the other. Positions of Qwen3-Omni are floats, and every sum is rounded to one.
class OmniWriter {
 public:
  OmniWriter(const v1::MropePositions& rule, const RuleSize& size) : rule_(rule) {
    tokens_.reserve(static_cast<size_t>(size.count));
  }

  void Text(int64_t count) {
    const double start = next_;
    for (int64_t i = 0; i < count; ++i) Put(Same(Sum(start, static_cast<double>(i))));
    if (count > 0) next_ = Sum(LargestOf(tokens_.back()), 1);
    counted_ += count;
  }

  void Padding(int64_t count) { tokens_.insert(tokens_.end(), static_cast<size_t>(count), Token{}); }

  void Vision(const v1::MropeGrid& grid, bool video) {
    const std::vector<Token> frames = FramesOf(grid, video);
    PutPiece(frames);
    counted_ += static_cast<int64_t>(frames.size());
  }

  void AudioInVideo(const v1::MropeAudioInVideo& segment) {
    Marks();
    const double start = next_;
    const std::vector<Token> video = FramesOf(segment.video(), true);
    std::vector<Token> audio;
    for (int64_t i = 0; i < segment.audio(); ++i) audio.push_back(Same(Sum(start, static_cast<double>(i))));
    counted_ += static_cast<int64_t>(video.size() + audio.size());
    if (IsFractional(rule_)) {
      MergeByTime(video, audio);
    } else {
      MergeByChunk(video, audio, start, ChunkOf(rule_, segment));
    }
    Marks();
  }

  RuleIds Take() && {
    RuleIds ids;
    const double delta = largest_ + 1 - static_cast<double>(counted_);
    if (delta == std::floor(delta)) ids.rope_delta = static_cast<int64_t>(delta);
    for (size_t axis = 0; axis < 3; ++axis) {
      if (IsFractional(rule_)) {
        auto& list = ids.fractional.emplace_back();
        for (const Token& token : tokens_) list.push_back(token[axis]);
      } else {
        auto& list = ids.whole.emplace_back();
        for (const Token& token : tokens_) list.push_back(static_cast<int64_t>(token[axis]));
      }
    }
    return ids;
  }

 private:
  double Sum(double a, double b) const {
    return IsFractional(rule_) ? static_cast<double>(static_cast<float>(a) + static_cast<float>(b)) : a + b;
  }
  static Token Same(double position) { return {position, position, position}; }

  void Put(const Token& token) {
    tokens_.push_back(token);
    largest_ = std::max(largest_, LargestOf(token));
  }

  // What follows goes on after this piece, wherever others before it reached.
  void PutPiece(const std::vector<Token>& piece) {
    if (piece.empty()) return;
    double last = LargestOf(piece.front());
    for (const Token& token : piece) {
      Put(token);
      last = std::max(last, LargestOf(token));
    }
    next_ = Sum(last, 1);
  }

  // The two tokens that start or end vision and audio.
  void Marks() {
    if (IsFractional(rule_)) return Text(2);
    const Token mark = Same(next_);
    PutPiece({mark, mark});
    counted_ += 2;
  }

  // Tokens of an image or video from the next position on.
  std::vector<Token> FramesOf(const v1::MropeGrid& grid, bool video) const {
    const int64_t merge = rule_.has_spatial_merge() ? rule_.spatial_merge() : 2;
    const int64_t height = grid.height() / merge, width = grid.width() / merge;
    const float seconds = grid.has_second_per_grid() ? static_cast<float>(grid.second_per_grid()) : 1;
    std::vector<Token> tokens;
    for (int64_t t = 0; t < (grid.has_time() ? grid.time() : 1); ++t) {
      const float at = static_cast<float>(t) * seconds * static_cast<float>(RateOf(rule_));
      const double frame = !video ? 0 : IsFractional(rule_) ? static_cast<double>(at) : std::trunc(static_cast<double>(at));
      for (int64_t h = 0; h < height; ++h) {
        for (int64_t w = 0; w < width; ++w) {
          tokens.push_back({Sum(frame, next_), Sum(static_cast<double>(h), next_), Sum(static_cast<double>(w), next_)});
        }
      }
    }
    return tokens;
  }

  void MergeByTime(const std::vector<Token>& video, const std::vector<Token>& audio) {
    size_t v = 0, a = 0;
    while (v < video.size() && a < audio.size()) PutPiece({video[v][0] <= audio[a][0] ? video[v++] : audio[a++]});
    PutPiece({video.begin() + static_cast<std::ptrdiff_t>(v), video.end()});
    PutPiece({audio.begin() + static_cast<std::ptrdiff_t>(a), audio.end()});
  }

  // The end of the chunk that begins at token `from`, the chunk'th of all: a token beyond the chunk's positions opens the
  // next one, however far it lies.
  static size_t EndOfChunk(const std::vector<Token>& tokens, size_t from, double start, double limit) {
    while (from < tokens.size() && tokens[from][0] - start < limit) ++from;
    return from;
  }

  void MergeByChunk(const std::vector<Token>& video, const std::vector<Token>& audio, double start, double size) {
    size_t v = 0, a = 0;
    for (double limit = size; v < video.size() || a < audio.size(); limit += size) {
      for (const auto& [tokens, at] : {std::pair(&video, &v), {&audio, &a}}) {
        // A chunk has the token that opened it, also where that lies beyond the chunk.
        const size_t end = EndOfChunk(*tokens, *at == 0 || *at == tokens->size() ? *at : *at + 1, start, limit);
        PutPiece({tokens->begin() + static_cast<std::ptrdiff_t>(*at), tokens->begin() + static_cast<std::ptrdiff_t>(end)});
        *at = end;
      }
    }
  }

  const v1::MropePositions& rule_;
  std::vector<Token> tokens_;
  double next_ = 0;
  double largest_ = -1;
  int64_t counted_ = 0;
};

}  // namespace

bool IsOmni(const v1::MropePositions& rule) {
  return rule.layout() == v1::MROPE_LAYOUT_QWEN2_5_OMNI || rule.layout() == v1::MROPE_LAYOUT_QWEN3_OMNI;
}

absl::Status CheckOmni(const v1::MropePositions& rule, const std::string& path) {
  if (rule.advance() == v1::MROPE_ADVANCE_SPATIAL) {
    return InvalidField(absl::StrCat(path, ".advance"), "MROPE_ADVANCE_SPATIAL", "unset: Omni layouts have their own rule");
  }
  if (rule.has_temporal_merge() && rule.temporal_merge() != 1) {
    return InvalidField(absl::StrCat(path, ".temporal_merge"), absl::StrCat(rule.temporal_merge()), "1 with Omni layouts");
  }
  return absl::OkStatus();
}

absl::Status CheckAudioInVideo(const v1::MropePositions& rule, const v1::MropeAudioInVideo& segment,
                               const std::string& path) {
  if (segment.audio() < 1) return InvalidField(absl::StrCat(path, ".audio"), absl::StrCat(segment.audio()), "1 or more");
  if (IsFractional(rule)) {
    if (!segment.has_seconds_per_chunk()) return absl::OkStatus();
    return InvalidField(absl::StrCat(path, ".seconds_per_chunk"), absl::StrCat(segment.seconds_per_chunk()),
                        "unset: the layout has no chunks");
  }
  const double chunk = ChunkOf(rule, segment);
  if (chunk >= 1 && chunk <= 1e9) return absl::OkStatus();
  return InvalidField(absl::StrCat(path, ".seconds_per_chunk"), absl::StrCat(segment.seconds_per_chunk()),
                      "a chunk of 1 … 1e9 positions");
}

double OmniInterval(const v1::MropePositions& rule, const v1::MropeGrid& video) {
  return (video.has_second_per_grid() ? video.second_per_grid() : 1) * RateOf(rule);
}

RuleIds IdsOfOmni(const v1::MropePositions& rule, const RuleSize& size) {
  OmniWriter writer(rule, size);
  for (const v1::MropeSegment& segment : rule.segments()) {
    if (segment.has_text()) {
      writer.Text(segment.text());
    } else if (segment.has_padding()) {
      writer.Padding(segment.padding());
    } else if (segment.has_audio_in_video()) {
      writer.AudioInVideo(segment.audio_in_video());
    } else {
      writer.Vision(segment.has_video() ? segment.video() : segment.image(), segment.has_video());
    }
  }
  return std::move(writer).Take();
}

}  // namespace phasor::server
