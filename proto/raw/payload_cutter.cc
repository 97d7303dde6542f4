#include "proto/raw/payload_cutter.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "proto/raw/slice_cursor.h"

namespace phasor::raw {
namespace {

enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kLength = 2, kGroup = 3, kEndGroup = 4, kFixed32 = 5 };

// The generated parser's limit on nesting. It is enforced there to the last level; here it only bounds the stack.
constexpr size_t kMaxDepth = 100;
// Lengths of sub-messages are patched in after their content is known, in a varint of fixed width.
constexpr size_t kLengthBytes = 5;

// Copies a message to its skeleton: everything but payloads, with sub-messages of the schema re-measured.
class Cutter {
 public:
  Cutter(std::shared_ptr<const Slices> slices, const CutLimits& limits, Payloads* payloads)
      : cursor_(std::move(slices)), limits_(limits), payloads_(payloads) {}

  absl::Status Run(const Node& node) {
    if (CopyMessage(node, cursor_.size())) return absl::OkStatus();
    if (over_limit_) return absl::ResourceExhaustedError("the message has too many parts beside its payloads");
    return absl::InvalidArgumentError(absl::StrCat("malformed message at or before byte ", cursor_.position()));
  }
  const std::string& skeleton() const { return skeleton_; }

 private:
  bool CopyMessage(const Node& node, size_t end) {
    while (cursor_.position() < end) {
      uint32_t tag;
      if (!cursor_.ReadTag(end, &tag)) return false;
      if ((tag & 7) == kGroup ? !CopyGroup(tag, end) : !CopyField(node, tag, end)) return false;
    }
    return true;
  }

  bool CopyField(const Node& node, uint32_t tag, size_t end) {
    if (tag >> 3 == 0) return false;
    if ((tag & 7) != kLength) return CopyScalar(tag, end);
    const Field* field = Find(node, tag >> 3);
    if (field == nullptr) return CopyOpaque(tag, end);
    if (parts_++ >= limits_.max_parts) return OverLimit();
    size_t length;
    if (!cursor_.ReadLength(end, &length) || !PutVarint(tag)) return false;
    return field->node == nullptr ? CutPayload(length, end) : CopySubMessage(*field->node, length);
  }

  bool CutPayload(size_t length, size_t end) {
    if (!cursor_.TakePieces(length, end, payloads_)) return false;
    const std::string token = payloads_->Close();
    return PutVarint(token.size()) && Reserve(token.size()) && (skeleton_.append(token), true);
  }

  bool CopySubMessage(const Node& node, size_t length) {
    if (!Reserve(kLengthBytes)) return false;
    const size_t begin = skeleton_.size();
    skeleton_.append(kLengthBytes, '\0');
    if (!CopyMessage(node, cursor_.position() + length)) return false;
    const size_t copied = skeleton_.size() - begin - kLengthBytes;
    for (size_t i = 0; i < kLengthBytes; ++i) {
      const bool last = i + 1 == kLengthBytes;
      skeleton_[begin + i] = static_cast<char>((copied >> (7 * i) & 0x7f) | (last ? 0 : 0x80));
    }
    return true;
  }

  // A field without a place in the schema, as it is.
  bool CopyOpaque(uint32_t tag, size_t end) {
    size_t length;
    return cursor_.ReadLength(end, &length) && PutVarint(tag) && PutVarint(length) && Reserve(length) &&
           cursor_.CopyBytes(length, end, &skeleton_);
  }

  bool CopyScalar(uint32_t tag, size_t end) {
    if (!PutVarint(tag) || !Reserve(10)) return false;
    switch (tag & 7) {
      case kVarint:
        return cursor_.CopyVarint(end, &skeleton_);
      case kFixed64:
        return cursor_.CopyBytes(8, end, &skeleton_);
      case kFixed32:
        return cursor_.CopyBytes(4, end, &skeleton_);
      default:
        return false;  // an end of a group that did not begin, or no wire type at all
    }
  }

  // Groups are unknown fields: nothing in them is a payload.
  bool CopyGroup(uint32_t tag, size_t end) {
    static constexpr Node kOpaque{};
    std::vector<uint32_t> open;
    do {
      if (tag >> 3 == 0 || !PutVarint(tag)) return false;
      if ((tag & 7) == kGroup) {
        if (open.size() == kMaxDepth) return false;
        open.push_back(tag >> 3);
      } else {
        if (open.back() != tag >> 3) return false;
        open.pop_back();
      }
      while (!open.empty()) {
        if (!cursor_.ReadTag(end, &tag)) return false;
        if ((tag & 7) == kGroup || (tag & 7) == kEndGroup) break;
        if (!CopyField(kOpaque, tag, end)) return false;
      }
    } while (!open.empty());
    return true;
  }

  static const Field* Find(const Node& node, uint32_t number) {
    for (const Field& field : node.fields) {
      if (field.number == number) return &field;
    }
    return nullptr;
  }

  bool PutVarint(uint64_t value) {
    if (!Reserve(10)) return false;
    for (; value >= 0x80; value >>= 7) skeleton_.push_back(static_cast<char>(value | 0x80));
    skeleton_.push_back(static_cast<char>(value));
    return true;
  }

  bool Reserve(size_t n) { return n <= limits_.max_skeleton_bytes - skeleton_.size() || OverLimit(); }
  bool OverLimit() {
    over_limit_ = true;
    return false;
  }

  SliceCursor cursor_;
  const CutLimits& limits_;
  Payloads* payloads_;
  std::string skeleton_;
  size_t parts_ = 0;
  bool over_limit_ = false;
};

}  // namespace

absl::Status Cut(const grpc::ByteBuffer& buffer, const Node& schema, const CutLimits& limits,
                 google::protobuf::MessageLite* message, Payloads* payloads) {
  auto slices = std::make_shared<Slices>();
  if (!buffer.Dump(slices.get()).ok()) return absl::InvalidArgumentError("no message");
  if (buffer.Length() > static_cast<size_t>(std::numeric_limits<int>::max())) {
    return absl::InvalidArgumentError("a message of 2 GiB or more");
  }
  Cutter cutter(std::move(slices), limits, payloads);
  if (absl::Status status = cutter.Run(schema); !status.ok()) return status;
  if (!message->ParseFromString(cutter.skeleton())) return absl::InvalidArgumentError("malformed message");
  return absl::OkStatus();
}

}  // namespace phasor::raw
