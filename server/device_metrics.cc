#include "server/device_metrics.h"

#include <string>

#include "server/metric_samples.h"
#include "server/text.h"

namespace phasor::server {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;
using Value = double (*)(const DeviceStats& device);

struct Series {
  const char* name;
  const char* help;
  MetricType type;
  const char* label;  // beside the device; null: none
  const char* label_value;
  Value value;
};

constexpr MetricType kGauge = MetricType::Gauge;
constexpr MetricType kCounter = MetricType::Counter;

// Series of one name stand together.
const Series kSeries[] = {
    {"phasor_device_memory_bytes", "Bytes of the device's memory.", kGauge, "state", "total",
     [](const DeviceStats& d) { return static_cast<double>(d.total_bytes); }},
    {"phasor_device_memory_bytes", "", kGauge, "state", "free",
     [](const DeviceStats& d) { return static_cast<double>(d.free_bytes); }},
    {"phasor_device_pool_bytes", "Bytes of device memory that this process took.", kGauge, "state", "used",
     [](const DeviceStats& d) { return static_cast<double>(d.used_bytes); }},
    {"phasor_device_pool_bytes", "", kGauge, "state", "kept",
     [](const DeviceStats& d) { return static_cast<double>(d.kept_bytes); }},
    {"phasor_device_pool_capacity_bytes", "Bytes of device memory that it may take.", kGauge, nullptr, nullptr,
     [](const DeviceStats& d) { return static_cast<double>(d.budget_bytes); }},
    {"phasor_device_table_bytes", "Bytes of tables that are on the device.", kGauge, nullptr, nullptr,
     [](const DeviceStats& d) { return static_cast<double>(d.table_bytes); }},
    {"phasor_device_table_hits_total", "Tables found on the device.", kCounter, nullptr, nullptr,
     [](const DeviceStats& d) { return static_cast<double>(d.table_hits); }},
    {"phasor_device_table_uploads_total", "Tables copied to the device.", kCounter, nullptr, nullptr,
     [](const DeviceStats& d) { return static_cast<double>(d.table_uploads); }},
    {"phasor_device_table_evictions_total", "Tables dropped from the device.", kCounter, nullptr, nullptr,
     [](const DeviceStats& d) { return static_cast<double>(d.table_evictions); }},
    {"phasor_device_seconds_total", "Time of work on the device, measured by it.", kCounter, "work", "copy_in",
     [](const DeviceStats& d) { return d.copy_in_seconds; }},
    {"phasor_device_seconds_total", "", kCounter, "work", "kernel", [](const DeviceStats& d) { return d.kernel_seconds; }},
    {"phasor_device_seconds_total", "", kCounter, "work", "copy_out",
     [](const DeviceStats& d) { return d.copy_out_seconds; }},
    {"phasor_device_copied_bytes_total", "Bytes copied between the host and the device.", kCounter, "direction", "in",
     [](const DeviceStats& d) { return static_cast<double>(d.bytes_in); }},
    {"phasor_device_copied_bytes_total", "", kCounter, "direction", "out",
     [](const DeviceStats& d) { return static_cast<double>(d.bytes_out); }},
    {"phasor_device_launches_total", "Kernels started.", kCounter, nullptr, nullptr,
     [](const DeviceStats& d) { return static_cast<double>(d.launches); }},
    {"phasor_device_grouped_launches_total", "Those that served several pieces of work at once.", kCounter, nullptr, nullptr,
     [](const DeviceStats& d) { return static_cast<double>(d.grouped_launches); }},
    {"phasor_device_grouped_tasks_total", "Those pieces of work.", kCounter, nullptr, nullptr,
     [](const DeviceStats& d) { return static_cast<double>(d.grouped_tasks); }},
};

}  // namespace

void AddDevices(const BackendStats& stats, int64_t min_device_bytes, std::vector<MetricFamily>* families) {
  if (stats.devices.empty()) return;
  for (const DeviceStats& device : stats.devices) {
    AddSample(families, "phasor_device_info", "Always 1.", kGauge, 1,
              {{"device", Cat(device.id)},
               {"name", device.name},
               {"compute_capability", device.compute_capability},
               {"uuid", device.uuid}});
  }
  for (const Series& series : kSeries) {
    for (const DeviceStats& device : stats.devices) {
      std::vector<prometheus::ClientMetric::Label> labels = {{"device", Cat(device.id)}};
      if (series.label != nullptr) labels.push_back({series.label, series.label_value});
      AddSample(families, series.name, series.help, series.type, series.value(device), std::move(labels));
    }
  }
  AddSample(families, "phasor_device_min_work_bytes", "Work that moves fewer bytes than this is left to the CPU.", kGauge,
            static_cast<double>(min_device_bytes));
  for (int i = 0; i < kCpuReasons; ++i) {
    AddSample(families, "phasor_device_left_to_cpu_total", "Pieces of work that the devices left to the CPU, by reason.",
              kCounter, static_cast<double>(stats.left_to_cpu[static_cast<size_t>(i)]),
              {{"reason", std::string(Name(static_cast<CpuReason>(i)))}});
  }
  const auto error = [&](const char* kind, int64_t value) {
    AddSample(families, "phasor_device_errors_total", "Errors of devices, by kind.", kCounter, static_cast<double>(value),
              {{"kind", kind}});
  };
  error("out_of_memory", stats.out_of_memory);
  error("lost", stats.device_lost);
  error("not_pinned", stats.unpinned);
  error("other", stats.other_errors);
}

}  // namespace phasor::server
