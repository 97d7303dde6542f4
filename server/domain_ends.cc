#include "server/domain_ends.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"

#include "server/grpc_status.h"
#include "server/spec_parser.h"

namespace phasor::server {
namespace {

// Where sequences end among the tokens: of every batch row, or of the parts of a pack.
std::vector<int64_t> EndsOf(const v1::Positions& message, int64_t batch, int64_t sequence) {
  std::vector<int64_t> ends;
  if (message.rule_case() == v1::Positions::kPacked) {
    const auto& lengths = message.packed().cu_seqlens();
    ends.assign(lengths.begin() + 1, lengths.end());
  } else {
    for (int64_t row = 1; row <= batch; ++row) ends.push_back(row * sequence);
  }
  return ends;
}

}  // namespace

absl::StatusOr<DomainEnds> FindDomainEnds(const v1::Positions& message, const PositionSet& set, int64_t batch,
                                          int64_t sequence, const DomainEnds::Rows& rows, ParseContext& context) {
  if (rows.length && (*rows.length < 1 || *rows.length > kMaxSequenceLength)) {
    return InvalidField("sequence_length", absl::StrCat(*rows.length), absl::StrCat("1 … ", kMaxSequenceLength));
  }
  const int64_t lists = (rows.first > 0 ? 1 : 0) + (rows.last > 0 ? 1 : 0);
  const int64_t bytes = set.count * lists * static_cast<int64_t>(sizeof(int32_t));
  if (bytes > context.ids_left) {
    return OverLimit("add.offsets", context.limits.max_request_bytes - context.ids_left + bytes, "max_request_bytes",
                     context.limits.max_request_bytes, "bytes of places in this call");
  }
  context.ids_left -= bytes;

  DomainEnds ends;
  if (rows.first > 0) ends.first.assign(static_cast<size_t>(set.count), -1);
  if (rows.last > 0) ends.last.assign(static_cast<size_t>(set.count), -1);
  const auto hidden = [&](int64_t token) { return !set.hidden.empty() && set.hidden[static_cast<size_t>(token)] != 0; };
  int64_t begin = 0;
  for (const int64_t end : EndsOf(message, batch, sequence)) {
    int64_t length = rows.length.value_or(0);
    for (int64_t t = begin; t < end; ++t) {
      if (hidden(t)) continue;
      if (!rows.length) {
        length = std::max(length, set.at(t) + 1);
      } else if (set.at(t) >= length) {
        return InvalidField("sequence_length", absl::StrCat(length),
                            absl::StrCat("more than every position, the largest of which is ", set.largest));
      }
    }
    for (int64_t t = begin; t < end; ++t) {
      const int64_t place = set.at(t);
      if (hidden(t) || place < 0) continue;
      if (place < rows.first) ends.first[static_cast<size_t>(t)] = static_cast<int32_t>(place);
      if (rows.last > 0 && place >= length - rows.last) {
        ends.last[static_cast<size_t>(t)] = static_cast<int32_t>(place - (length - rows.last));
      }
    }
    begin = end;
  }
  return ends;
}

}  // namespace phasor::server
