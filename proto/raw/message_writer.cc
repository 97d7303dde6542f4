#include "proto/raw/message_writer.h"

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"
#include "grpcpp/support/slice.h"

namespace phasor::raw {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;

// One field of a serialised message.
struct WireField {
  const Field* field = nullptr;  // its place in the schema, or null
  uint32_t tag = 0;
  std::string_view whole;    // with tag and length
  std::string_view content;  // of a field of the schema
};

// Calls f(field) for every field; false when the bytes are malformed or f returns false.
template <typename F>
bool ForEachField(std::string_view bytes, const Node& node, F f) {
  CodedInputStream in(reinterpret_cast<const uint8_t*>(bytes.data()), static_cast<int>(bytes.size()));
  while (true) {
    const int begin = in.CurrentPosition();
    WireField wire;
    wire.tag = in.ReadTag();
    if (wire.tag == 0) return begin == static_cast<int>(bytes.size());
    const bool delimited = WireFormatLite::GetTagWireType(wire.tag) == WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
    for (const Field& field : node.fields) {
      if (delimited && field.number == wire.tag >> 3) wire.field = &field;
    }
    if (wire.field != nullptr) {
      int length = 0;
      if (!in.ReadVarintSizeAsInt(&length)) return false;
      const int content = in.CurrentPosition();
      if (!in.Skip(length)) return false;
      wire.content = bytes.substr(content, length);
    } else if (!WireFormatLite::SkipField(&in, wire.tag)) {
      return false;
    }
    wire.whole = bytes.substr(begin, in.CurrentPosition() - begin);
    if (!f(wire)) return false;
  }
}

// A message must be measured bottom-up before its first byte can be written, since lengths come first.
class Joiner {
 public:
  explicit Joiner(const Payloads& payloads) : payloads_(payloads) {}

  // Size of `bytes` with payloads in place; notes the sizes of sub-messages and payloads in the order of their beginnings.
  bool Measure(std::string_view bytes, const Node& node, int64_t* size) {
    *size = 0;
    return ForEachField(bytes, node, [&](const WireField& wire) {
      if (wire.field == nullptr) {
        *size += static_cast<int64_t>(wire.whole.size());
        return true;
      }
      const size_t index = sizes_.size();
      sizes_.push_back(0);
      int64_t inner = 0;
      if (wire.field->node != nullptr) {
        if (!Measure(wire.content, *wire.field->node, &inner)) return false;
      } else {
        const std::optional<int64_t> payload = payloads_.SizeOf(wire.content);
        if (!payload) return false;
        inner = *payload;
      }
      sizes_[index] = inner;
      *size += static_cast<int64_t>(CodedOutputStream::VarintSize32(wire.tag)) +
               static_cast<int64_t>(CodedOutputStream::VarintSize64(static_cast<uint64_t>(inner))) + inner;
      return true;
    });
  }

  // Writes what was measured.
  bool Write(std::string_view bytes, const Node& node) {
    return ForEachField(bytes, node, [&](const WireField& wire) {
      if (wire.field == nullptr) {
        header_.append(wire.whole);
        return true;
      }
      PutVarint(wire.tag);
      PutVarint(static_cast<uint64_t>(sizes_[next_++]));
      if (wire.field->node != nullptr) return Write(wire.content, *wire.field->node);
      const auto pieces = payloads_.Find(wire.content);
      if (!pieces) return false;
      for (const Piece& piece : *pieces) PutPiece(piece);
      return true;
    });
  }

  grpc::ByteBuffer Finish() {
    FlushHeader();
    return grpc::ByteBuffer(slices_.data(), slices_.size());
  }

 private:
  void PutVarint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) header_.push_back(static_cast<char>(value | 0x80));
    header_.push_back(static_cast<char>(value));
  }

  void PutPiece(const Piece& piece) {
    if (piece.size < kCopyBelow) {
      header_.append(reinterpret_cast<const char*>(piece.data), piece.size);
      return;
    }
    FlushHeader();
    using Owner = std::shared_ptr<const void>;
    // gRPC's slices are not const, but it never writes to one that it sends.
    slices_.emplace_back(
        const_cast<std::byte*>(piece.data), piece.size, [](void* owner) { delete static_cast<Owner*>(owner); },
        new Owner(piece.owner));
  }

  void FlushHeader() {
    if (header_.empty()) return;
    slices_.emplace_back(header_);
    header_.clear();
  }

  const Payloads& payloads_;
  std::vector<int64_t> sizes_;
  size_t next_ = 0;
  std::string header_;
  std::vector<grpc::Slice> slices_;
};

}  // namespace

absl::StatusOr<grpc::ByteBuffer> Join(const google::protobuf::MessageLite& message, const Node& schema,
                                      const Payloads& payloads) {
  std::string skeleton;
  if (!message.SerializeToString(&skeleton)) return absl::ResourceExhaustedError("the message exceeds 2 GiB");
  Joiner joiner(payloads);
  int64_t size = 0;
  if (!joiner.Measure(skeleton, schema, &size)) return absl::InternalError("a payload field without its payload");
  if (size > kMaxMessageBytes) return absl::ResourceExhaustedError("the message exceeds 2 GiB");
  if (!joiner.Write(skeleton, schema)) return absl::InternalError("a message that cannot be read back");
  return joiner.Finish();
}

}  // namespace phasor::raw
