#include "server/grpc_status.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/rpc/error_details.pb.h"

#include "kernels/encodings/encoding.h"
#include "server/refusal.h"
#include "server/table_source.h"

namespace phasor::server {
namespace {

constexpr char kTypePrefix[] = "type.googleapis.com/google.rpc.";
// In this order they leave; anything else that rides on a status stays inside.
constexpr const char* kDetailTypes[] = {"ErrorInfo", "BadRequest", "RetryInfo", "ResourceInfo", "QuotaFailure"};
constexpr std::chrono::milliseconds kDefaultRetry{100};
constexpr size_t kMaxGiven = 200;    // what a caller sent, as told back
constexpr size_t kMaxAllowed = 500;  // lists of names may be long

absl::string_view Absl(std::string_view text) { return {text.data(), text.size()}; }
std::string_view Std(absl::string_view text) { return {text.data(), text.size()}; }

// Length of the UTF-8 sequence at the front of `text`; 0 when there is none.
size_t SequenceLength(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const auto continues = [&](size_t i) { return (byte(i) & 0xc0) == 0x80; };
  if (byte(0) < 0x80) return 1;
  if (byte(0) >= 0xc2 && byte(0) < 0xe0 && continues(1)) return 2;
  if (byte(0) >= 0xe0 && byte(0) < 0xf0 && continues(1) && continues(2)) {
    const unsigned high = (byte(0) & 0xf) << 6 | (byte(1) & 0x3f);   // the code point's upper bits
    return high >= 0x20 && (high < 0x360 || high >= 0x380) ? 3 : 0;  // not overlong, no surrogate
  }
  if (byte(0) >= 0xf0 && byte(0) < 0xf5 && continues(1) && continues(2) && continues(3)) {
    const unsigned high = (byte(0) & 7) << 6 | (byte(1) & 0x3f);
    return high >= 0x10 && high < 0x110 ? 4 : 0;
  }
  return 0;
}

// At most `longest` bytes of `text`, as valid UTF-8: proto strings must be, and a caller's bytes may turn up in messages.
std::string Clip(std::string_view text, size_t longest) {
  constexpr std::string_view kEllipsis = "…";
  std::string out;
  while (!text.empty()) {
    const size_t length = SequenceLength(text);
    if (out.size() + std::max<size_t>(length, 1) > longest) {
      while (out.size() + kEllipsis.size() > longest) {
        do {
          const bool lead = (static_cast<unsigned char>(out.back()) & 0xc0) != 0x80;
          out.pop_back();
          if (lead) break;
        } while (true);
      }
      return out.append(kEllipsis);
    }
    out.append(length == 0 ? "?" : text.substr(0, length));
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return out;
}

template <typename M>
void Attach(absl::Status* status, const M& detail) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream out(&stream);
    out.SetSerializationDeterministic(true);  // metadata is a map
    detail.SerializeToCodedStream(&out);
  }
  status->SetPayload(absl::StrCat(kTypePrefix, detail.GetDescriptor()->name()), absl::Cord(bytes));
}

template <typename M>
std::optional<M> DetailOf(const absl::Status& status) {
  const auto payload = status.GetPayload(absl::StrCat(kTypePrefix, M::descriptor()->name()));
  M detail;
  if (!payload || !detail.ParseFromString(std::string(*payload))) return std::nullopt;
  return detail;
}

void AttachViolation(absl::Status* status, std::string_view field, std::string_view description) {
  google::rpc::BadRequest request;
  auto* violation = request.add_field_violations();
  violation->set_field(std::string(field));
  violation->set_description(std::string(description));
  Attach(status, request);
}

void AttachRetry(absl::Status* status, std::chrono::milliseconds delay) {
  google::rpc::RetryInfo info;
  info.mutable_retry_delay()->set_seconds(delay.count() / 1000);
  info.mutable_retry_delay()->set_nanos(static_cast<int32_t>(delay.count() % 1000 * 1'000'000));
  Attach(status, info);
}

std::string MessageAt(std::string_view field, std::string_view text) {
  return field.empty() ? std::string(text) : absl::StrCat(Absl(field), ": ", Absl(text));
}

// "items[3]." and "" → "items[3]"; "items[3]." and "spec" → "items[3].spec".
std::string Join(std::string_view prefix, std::string_view field) {
  if (field.empty() && prefix.ends_with('.')) prefix.remove_suffix(1);
  return absl::StrCat(Absl(prefix), Absl(field));
}

bool IsInternal(absl::StatusCode code) {
  return code == absl::StatusCode::kInternal || code == absl::StatusCode::kUnknown || code == absl::StatusCode::kDataLoss;
}

// The error with all its details, none of them internal.
absl::Status Complete(const absl::Status& status) {
  if (IsInternal(status.code())) {
    return MakeError(absl::StatusCode::kInternal, "INTERNAL", "internal error; the server's log has the cause");
  }
  if (const auto spec = SpecErrorOf(status)) return InvalidField(spec->field, spec->given, spec->allowed);
  if (const auto subject = QuotaSubjectOf(status)) return QuotaExceeded(*subject, Std(status.message()));
  absl::Status complete = status;
  if (!DetailOf<google::rpc::ErrorInfo>(status)) {
    google::rpc::ErrorInfo info;
    info.set_domain(std::string(kErrorDomain));
    info.set_reason(absl::StatusCodeToString(status.code()));
    Attach(&complete, info);
  }
  // A negative pushback says: not again. It has no RetryInfo, and gets none.
  if (status.code() == absl::StatusCode::kUnavailable && RetryPushbackMs(status) != -1 &&
      !DetailOf<google::rpc::RetryInfo>(status)) {
    AttachRetry(&complete, kDefaultRetry);
  }
  return complete;
}

}  // namespace

absl::Status MakeError(absl::StatusCode code, std::string_view reason, std::string_view message,
                       std::initializer_list<std::pair<std::string_view, std::string_view>> metadata) {
  absl::Status status(code, Clip(message, kMaxErrorMessage));
  google::rpc::ErrorInfo info;
  info.set_domain(std::string(kErrorDomain));
  info.set_reason(std::string(reason));
  for (const auto& [key, value] : metadata) (*info.mutable_metadata())[std::string(key)] = Clip(value, kMaxAllowed);
  Attach(&status, info);
  return status;
}

absl::Status InvalidField(std::string_view field, std::string_view given, std::string_view allowed) {
  const std::string shown = Clip(given, kMaxGiven);
  const std::string range = Clip(allowed, kMaxAllowed);
  const std::string description = absl::StrCat("given ", shown, "; allowed: ", range);
  absl::Status status = MakeError(absl::StatusCode::kInvalidArgument, "INVALID_FIELD", MessageAt(field, description),
                                  {{"field", field}, {"given", shown}, {"allowed", range}});
  AttachViolation(&status, field, description);
  return status;
}

absl::Status OverLimit(std::string_view field, int64_t given, std::string_view limit_name, int64_t limit,
                       std::string_view unit) {
  const std::string description =
      absl::StrCat("given ", given, " ", Absl(unit), "; allowed: up to ", limit, " (the server's ", Absl(limit_name), ")");
  absl::Status status = MakeError(absl::StatusCode::kInvalidArgument, "LIMIT_EXCEEDED", MessageAt(field, description),
                                  {{"field", field},
                                   {"given", Std(absl::StrCat(given))},
                                   {"limitName", limit_name},
                                   {"limit", Std(absl::StrCat(limit))},
                                   {"unit", unit}});
  AttachViolation(&status, field, description);
  return status;
}

absl::Status MalformedMessage(std::string_view type) {
  const std::string description = absl::StrCat("the bytes are no valid ", Absl(type));
  absl::Status status = MakeError(absl::StatusCode::kInvalidArgument, "MALFORMED_MESSAGE", description, {{"type", type}});
  AttachViolation(&status, "", description);
  return status;
}

absl::Status NotServed(std::string_view field, std::string_view what) {
  return MakeError(absl::StatusCode::kUnimplemented, "NOT_SERVED",
                   MessageAt(field, absl::StrCat(Absl(what), " is not served by this version")),
                   {{"field", field}, {"given", what}});
}

absl::Status UploadNotFound(std::string_view field, std::string_view sha256) {
  const std::string hash = absl::BytesToHexString(Absl(sha256));
  return MakeError(absl::StatusCode::kFailedPrecondition, "UPLOAD_NOT_FOUND",
                   MessageAt(field, absl::StrCat("given ", hash,
                                                 "; allowed: the SHA-256 of content that UploadTensor stored and that has "
                                                 "not expired; send it (again)")),
                   {{"field", field}, {"sha256", hash}});
}

absl::Status SharedMemoryOff(std::string_view field) {
  return MakeError(absl::StatusCode::kUnimplemented, "NOT_SERVED",
                   MessageAt(field, "shared memory is not served by this server (--shared-memory-bytes is 0)"),
                   {{"field", field}, {"given", "shared memory"}});
}

absl::Status DeviceMemoryOff(std::string_view field, std::string_view why) {
  return MakeError(absl::StatusCode::kUnimplemented, "NOT_SERVED",
                   MessageAt(field, absl::StrCat("device memory is not served by this server (", Absl(why), ")")),
                   {{"field", field}, {"given", "device memory"}});
}

absl::Status NotLocal(std::string_view field, std::string_view what) {
  return MakeError(absl::StatusCode::kPermissionDenied, "NOT_LOCAL",
                   MessageAt(field, absl::StrCat(Absl(what),
                                                 " is for callers on the server's host: connect through its Unix socket, or "
                                                 "through loopback")),
                   {{"field", field}});
}

absl::Status RegionNotFound(std::string_view field) {
  return MakeError(absl::StatusCode::kFailedPrecondition, "REGION_NOT_FOUND",
                   MessageAt(field,
                             "allowed: a region that CreateRegion made for this peer, and that was neither released "
                             "nor left unused for its lease"),
                   {{"field", field}});
}

absl::Status Unavailable(std::string_view reason, std::string_view message, std::chrono::milliseconds retry_after) {
  if (retry_after.count() < 0) {
    return MakeError(absl::StatusCode::kUnavailable, reason, message, {{"retryAfterMs", "-1"}});
  }
  const std::string delay = absl::StrCat(retry_after.count());
  absl::Status status = MakeError(absl::StatusCode::kUnavailable, reason, message, {{"retryAfterMs", delay}});
  AttachRetry(&status, retry_after);
  return status;
}

absl::Status ResourceNotFound(std::string_view field, std::string_view type, std::string_view name,
                              std::string_view allowed) {
  const std::string shown = Clip(name, kMaxGiven);
  std::string text = absl::StrCat("there is no ", Absl(type), " \"", shown, "\"");
  if (!allowed.empty()) absl::StrAppend(&text, "; there are: ", Clip(allowed, kMaxAllowed));
  absl::Status status = MakeError(absl::StatusCode::kNotFound, "NOT_FOUND", MessageAt(field, text),
                                  {{"field", field}, {"type", type}, {"given", shown}, {"allowed", allowed}});
  google::rpc::ResourceInfo info;
  info.set_resource_type(std::string(type));
  info.set_resource_name(shown);
  info.set_description(text);
  Attach(&status, info);
  return status;
}

absl::Status QuotaExceeded(std::string_view subject, std::string_view description) {
  absl::Status status =
      MakeError(absl::StatusCode::kResourceExhausted, "QUOTA_EXCEEDED", description, {{"subject", subject}});
  google::rpc::QuotaFailure failure;
  auto* violation = failure.add_violations();
  violation->set_subject(Clip(subject, kMaxGiven));
  violation->set_description(Clip(description, kMaxAllowed));
  Attach(&status, failure);
  return status;
}

absl::Status AtPath(std::string_view prefix, const absl::Status& status) {
  if (status.ok() || IsInternal(status.code())) return status;
  if (const auto spec = SpecErrorOf(status)) {
    // The one field of a request that the kernels library judges and that is no part of the spec.
    if (spec->field == "sequence_length") return InvalidField(Join(prefix, spec->field), spec->given, spec->allowed);
    return InvalidField(Join(absl::StrCat(Absl(prefix), SourcePathOf(status), "."), spec->field), spec->given,
                        spec->allowed);
  }
  auto info = DetailOf<google::rpc::ErrorInfo>(status);
  if (!info || !info->metadata().contains("field")) return status;
  const std::string field = info->metadata().at("field");
  const std::string path = Join(prefix, field);
  std::string_view text = Std(status.message());
  if (!field.empty() && text.starts_with(field)) text.remove_prefix(std::min(text.size(), field.size() + 2));
  absl::Status moved(status.code(), Clip(MessageAt(path, text), kMaxErrorMessage));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) { moved.SetPayload(url, payload); });
  (*info->mutable_metadata())["field"] = path;
  Attach(&moved, *info);
  if (auto request = DetailOf<google::rpc::BadRequest>(status)) {
    for (auto& violation : *request->mutable_field_violations()) violation.set_field(Join(prefix, violation.field()));
    Attach(&moved, *request);
  }
  return moved;
}

google::rpc::Status ToRpcStatus(const absl::Status& status) {
  google::rpc::Status out;
  if (status.ok()) return out;
  const absl::Status complete = Complete(status);
  out.set_code(static_cast<int>(complete.code()));
  out.set_message(Clip(Std(complete.message()), kMaxErrorMessage));
  for (const char* type : kDetailTypes) {
    const std::string url = absl::StrCat(kTypePrefix, type);
    if (const auto payload = complete.GetPayload(url)) {
      auto* detail = out.add_details();
      detail->set_type_url(url);
      detail->set_value(std::string(*payload));
    }
  }
  return out;
}

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const google::rpc::Status rpc = ToRpcStatus(status);
  return grpc::Status(static_cast<grpc::StatusCode>(rpc.code()), rpc.message(), rpc.SerializeAsString());
}

std::optional<int64_t> RetryPushbackMs(const absl::Status& status) {
  if (status.code() != absl::StatusCode::kUnavailable) return std::nullopt;
  if (const auto retry = DetailOf<google::rpc::RetryInfo>(status)) {
    return retry->retry_delay().seconds() * 1000 + retry->retry_delay().nanos() / 1'000'000;
  }
  const auto info = DetailOf<google::rpc::ErrorInfo>(status);
  if (info && info->metadata().contains("retryAfterMs")) return -1;
  return kDefaultRetry.count();
}

std::string ErrorReason(const absl::Status& status) {
  if (status.ok()) return "";
  const auto info = DetailOf<google::rpc::ErrorInfo>(Complete(status));
  return info ? info->reason() : "";
}

}  // namespace phasor::server
