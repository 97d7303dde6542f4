#include "server/health_service.h"

#include <chrono>
#include <optional>
#include <utility>

#include "grpc/health/v1/health.grpc.pb.h"

#include "server/grpc_status.h"
#include "server/text.h"

namespace phasor::server {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using Base = grpc::health::v1::Health;
using RawService = Base::WithRawMethod_Check<Base::WithRawMethod_Watch<Base::Service>>;

constexpr int kPosted = 4;
// A name, and room for what later versions of the protocol may ask.
constexpr size_t kMaxRequestBytes = 1024;
constexpr std::chrono::milliseconds kRetryElsewhere{100};

absl::StatusOr<std::string> ReadService(grpc::ByteBuffer bytes) {
  const std::string allowed = Cat("a name of up to ", kMaxHealthNameBytes, " bytes");
  if (bytes.Length() > kMaxRequestBytes)
    return InvalidField("service", Cat("a message of ", bytes.Length(), " bytes"), allowed);
  HealthCheckRequest request;
  if (absl::Status status = ParseMessage(&bytes, &request); !status.ok()) return status;
  if (request.service().size() > kMaxHealthNameBytes) {
    return InvalidField("service", Cat(request.service().size(), " bytes"), allowed);
  }
  return std::move(*request.mutable_service());
}

Outcome StatusMessage(Health::ServingStatus status) {
  HealthCheckResponse response;
  response.set_status(status);
  return AnswerWith(response);
}

}  // namespace

// One stream. It holds no messages: whenever it may write, it looks what the newest status is.
class Health::Watch final : public MessageSource, public std::enable_shared_from_this<Watch> {
 public:
  Watch(Health* health, std::string service, Outlet outlet)
      : health_(health), service_(std::move(service)), outlet_(std::move(outlet)) {}

  void Start() override {
    if (absl::Status status = health_->Add(shared_from_this()); !status.ok()) {
      const std::lock_guard lock(mutex_);
      return End(Refuse(std::move(status)));
    }
    Update();
  }

  void OnWritten(bool ok) override {
    {
      const std::lock_guard lock(mutex_);
      writing_ = false;
      over_ = over_ || !ok;
    }
    Update();
  }

  void OnOver() override {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    Update();
  }

  // Sends what there is to send, or the end.
  void Update() {
    {
      const std::lock_guard lock(mutex_);
      if (!outlet_ || writing_) return;
      const State state = health_->StateOf(service_);
      if (over_) {
        End(Outcome());  // which reaches nobody
      } else if (state.status != told_) {
        told_ = state.status;
        writing_ = true;
        return outlet_->Write(StatusMessage(state.status).response);
      } else if (state.ended) {
        End(Refuse(Unavailable("DRAINING", "the server is shutting down", kRetryElsewhere)));
      } else {
        return;
      }
    }
    health_->Remove(shared_from_this());
  }

 private:
  // With the lock held.
  void End(Outcome outcome) {
    std::move(*outlet_).End(std::move(outcome));
    outlet_.reset();
  }

  Health* const health_;
  const std::string service_;
  std::mutex mutex_;  // taken before the one of health_
  std::optional<Outlet> outlet_;
  std::optional<ServingStatus> told_;
  bool writing_ = false;
  bool over_ = false;
};

void Health::Set(const std::vector<std::string>& services, bool serving) {
  {
    const std::lock_guard lock(mutex_);
    for (const std::string& service : services) serving_[service] = serving;
  }
  UpdateWatches();
}

void Health::EndWatches() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  UpdateWatches();
}

Health::State Health::StateOf(std::string_view service) const {
  const std::lock_guard lock(mutex_);
  const auto found = serving_.find(service);
  if (found == serving_.end()) return {HealthCheckResponse::SERVICE_UNKNOWN, ended_};
  return {found->second ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING, ended_};
}

std::string Health::Known() const {
  const std::lock_guard lock(mutex_);
  std::string names;
  for (const auto& [name, serving] : serving_) names += Cat(names.empty() ? "" : ", ", name.empty() ? "\"\"" : name);
  return names;
}

absl::Status Health::Add(std::shared_ptr<Watch> watch) {
  const std::lock_guard lock(mutex_);
  // Without a message, at which clients would try again at once.
  if (ended_) return Unavailable("DRAINING", "the server is shutting down", kRetryElsewhere);
  if (watches_.size() >= kMaxHealthWatches) {
    return QuotaExceeded("health watches", Cat("the server is serving ", kMaxHealthWatches, " streams of Watch already"));
  }
  watches_.insert(std::move(watch));
  return absl::OkStatus();
}

void Health::Remove(const std::shared_ptr<Watch>& watch) {
  const std::lock_guard lock(mutex_);
  watches_.erase(watch);
}

void Health::UpdateWatches() {
  std::vector<std::shared_ptr<Watch>> watches;
  {
    const std::lock_guard lock(mutex_);
    watches.assign(watches_.begin(), watches_.end());
  }
  for (const auto& watch : watches) watch->Update();
}

ServiceMethods Health::MakeService() {
  ServiceMethods made;
  made.name = Base::service_full_name();
  auto service = std::make_unique<RawService>();

  Method check;
  check.name = made.name + "/Check";
  check.posted = kPosted;
  check.exempt = true;
  check.request_next = [raw = service.get()](auto* call, auto* request, auto* writer, auto* queue, void* tag) {
    raw->RequestCheck(call, request, writer, queue, queue, tag);
  };
  check.handle = [this](grpc::ByteBuffer request, Reply reply) {
    const auto name = ReadService(std::move(request));
    if (!name.ok()) return std::move(reply).Send(Refuse(name.status()));
    const ServingStatus status = StateOf(*name).status;
    if (status == HealthCheckResponse::SERVICE_UNKNOWN) {
      return std::move(reply).Send(Refuse(ResourceNotFound("service", "service", *name, Known())));
    }
    std::move(reply).Send(StatusMessage(status));
  };
  made.methods.push_back(std::move(check));

  Method watch;
  watch.name = made.name + "/Watch";
  watch.posted = kPosted;
  watch.exempt = true;
  watch.request_next_writer = [raw = service.get()](auto* call, auto* request, auto* writer, auto* queue, void* tag) {
    raw->RequestWatch(call, request, writer, queue, queue, tag);
  };
  watch.produce = [this](grpc::ByteBuffer request, Outlet outlet) -> std::shared_ptr<MessageSource> {
    auto name = ReadService(std::move(request));
    if (!name.ok()) {
      std::move(outlet).End(Refuse(name.status()));
      return nullptr;
    }
    return std::make_shared<Watch>(this, *std::move(name), std::move(outlet));
  };
  made.methods.push_back(std::move(watch));

  made.service = std::move(service);
  return made;
}

}  // namespace phasor::server
