#include "server/reflection_service.h"

#include <optional>
#include <set>
#include <utility>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/descriptor.pb.h"
#include "grpc/reflection/v1/reflection.grpc.pb.h"
#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"

#include "server/grpc_status.h"
#include "server/text.h"

namespace phasor::server {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
// Both versions have the same messages but for their names.
using grpc::reflection::v1::ServerReflectionRequest;
using grpc::reflection::v1::ServerReflectionResponse;

constexpr int kPosted = 2;
// Tools that stay connected keep their stream, and ask now and then.
constexpr std::chrono::minutes kLongestPause{10};

void AddFiles(const FileDescriptor& file, std::set<const FileDescriptor*>* seen, ServerReflectionResponse* response) {
  if (!seen->insert(&file).second) return;
  google::protobuf::FileDescriptorProto proto;
  file.CopyTo(&proto);
  proto.SerializeToString(response->mutable_file_descriptor_response()->add_file_descriptor_proto());
  for (int i = 0; i < file.dependency_count(); ++i) AddFiles(*file.dependency(i), seen, response);
}

void NotThere(std::string what, ServerReflectionResponse* response) {
  response->mutable_error_response()->set_error_code(grpc::StatusCode::NOT_FOUND);
  response->mutable_error_response()->set_error_message(std::move(what));
}

void AnswerFile(const FileDescriptor* file, std::string_view what, const std::string& name,
                ServerReflectionResponse* response) {
  if (file == nullptr) return NotThere(Cat(what, " ", name, ": not served here"), response);
  std::set<const FileDescriptor*> seen;
  AddFiles(*file, &seen, response);
}

void AnswerExtensions(const std::string& type, ServerReflectionResponse* response) {
  const DescriptorPool& pool = *DescriptorPool::generated_pool();
  const Descriptor* message = pool.FindMessageTypeByName(type);
  if (message == nullptr) return NotThere(Cat("type ", type, ": not served here"), response);
  response->mutable_all_extension_numbers_response()->set_base_type_name(type);
  std::vector<const FieldDescriptor*> extensions;
  pool.FindAllExtensions(message, &extensions);
  for (const FieldDescriptor* extension : extensions) {
    response->mutable_all_extension_numbers_response()->add_extension_number(extension->number());
  }
}

const FileDescriptor* FileOfExtension(const std::string& type, int number) {
  const DescriptorPool& pool = *DescriptorPool::generated_pool();
  const Descriptor* message = pool.FindMessageTypeByName(type);
  const FieldDescriptor* extension = message == nullptr ? nullptr : pool.FindExtensionByNumber(message, number);
  return extension == nullptr ? nullptr : extension->file();
}

ServerReflectionResponse AnswerTo(const ServerReflectionRequest& request, const std::vector<std::string>& services) {
  const DescriptorPool& pool = *DescriptorPool::generated_pool();
  ServerReflectionResponse response;
  response.set_valid_host(request.host());
  *response.mutable_original_request() = request;
  switch (request.message_request_case()) {
    case ServerReflectionRequest::kFileByFilename: {
      const std::string& name = request.file_by_filename();
      AnswerFile(pool.FindFileByName(name), "file", name, &response);
      break;
    }
    case ServerReflectionRequest::kFileContainingSymbol: {
      const std::string& name = request.file_containing_symbol();
      AnswerFile(pool.FindFileContainingSymbol(name), "symbol", name, &response);
      break;
    }
    case ServerReflectionRequest::kFileContainingExtension: {
      const auto& asked = request.file_containing_extension();
      AnswerFile(FileOfExtension(asked.containing_type(), asked.extension_number()), "extension",
                 Cat(asked.extension_number(), " of ", asked.containing_type()), &response);
      break;
    }
    case ServerReflectionRequest::kAllExtensionNumbersOfType:
      AnswerExtensions(request.all_extension_numbers_of_type(), &response);
      break;
    case ServerReflectionRequest::kListServices:
      for (const std::string& name : services) response.mutable_list_services_response()->add_service()->set_name(name);
      break;
    case ServerReflectionRequest::MESSAGE_REQUEST_NOT_SET:
      response.mutable_error_response()->set_error_code(grpc::StatusCode::INVALID_ARGUMENT);
      response.mutable_error_response()->set_error_message("message_request: not set");
      break;
  }
  return response;
}

template <typename Base>
ServiceMethods OneVersion(std::function<std::shared_ptr<MessageExchange>(Line line)> exchange) {
  using RawService = typename Base::template WithRawMethod_ServerReflectionInfo<typename Base::Service>;
  ServiceMethods made;
  made.name = Base::service_full_name();
  auto service = std::make_unique<RawService>();
  Method info;
  info.name = made.name + "/ServerReflectionInfo";
  info.posted = kPosted;
  info.exempt = true;
  info.longest_pause = kLongestPause;
  info.request_next_duplex = [raw = service.get()](auto* call, auto* stream, auto* queue, void* tag) {
    raw->RequestServerReflectionInfo(call, stream, queue, queue, tag);
  };
  info.exchange = std::move(exchange);
  made.methods.push_back(std::move(info));
  made.service = std::move(service);
  return made;
}

}  // namespace

// One stream: a question, its answer, the next question.
class Reflection::Stream final : public MessageExchange {
 public:
  Stream(Reflection* owner, Line line) : owner_(owner), line_(std::move(line)) {}
  ~Stream() override { owner_->streams_.fetch_sub(1, std::memory_order_relaxed); }

  void Start() override {
    if (owner_->streams_.fetch_add(1, std::memory_order_relaxed) < kMaxReflectionStreams) return line_->Read();
    End(Refuse(QuotaExceeded("reflection streams",
                             Cat("the server is serving ", kMaxReflectionStreams, " streams of reflection already"))));
  }

  void OnMessage(grpc::ByteBuffer message) override {
    if (message.Length() > kMaxReflectionRequestBytes) {
      return End(Refuse(InvalidField("message_request", Cat("a message of ", message.Length(), " bytes"),
                                     Cat("up to ", kMaxReflectionRequestBytes, " bytes"))));
    }
    ServerReflectionRequest request;
    if (absl::Status status = ParseMessage(&message, &request); !status.ok()) return End(Refuse(std::move(status)));
    Outcome answer = AnswerWith(AnswerTo(request, owner_->services_));
    if (!answer.status.ok()) return End(std::move(answer));
    line_->Write(std::move(answer.response));
  }

  void OnReadEnd() override { End(Outcome()); }

  void OnWritten(bool ok) override {
    if (!ok) return End(Outcome());  // which reaches nobody
    line_->Read();
  }

  void OnPause() override {
    End(Refuse(MakeError(absl::StatusCode::kDeadlineExceeded, "STREAM_PAUSED",
                         Cat("no message came for ", kLongestPause.count(), " minutes"))));
  }

 private:
  void End(Outcome outcome) {
    if (!line_) return;
    Line line = *std::move(line_);
    line_.reset();
    std::move(line).End(std::move(outcome));
  }

  Reflection* const owner_;
  std::optional<Line> line_;
};

void Reflection::SetServices(std::vector<std::string> names) {
  services_ = std::move(names);
  services_.emplace_back(grpc::reflection::v1::ServerReflection::service_full_name());
  services_.emplace_back(grpc::reflection::v1alpha::ServerReflection::service_full_name());
}

std::vector<ServiceMethods> Reflection::MakeServices() {
  const auto exchange = [this](Line line) { return std::make_shared<Stream>(this, std::move(line)); };
  std::vector<ServiceMethods> made;
  made.push_back(OneVersion<grpc::reflection::v1::ServerReflection>(exchange));
  made.push_back(OneVersion<grpc::reflection::v1alpha::ServerReflection>(exchange));
  return made;
}

}  // namespace phasor::server
