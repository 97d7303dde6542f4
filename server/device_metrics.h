// What a backend of devices counts, as metrics.
#ifndef PHASOR_SERVER_DEVICE_METRICS_H_
#define PHASOR_SERVER_DEVICE_METRICS_H_

#include <cstdint>
#include <vector>

#include "prometheus/metric_family.h"

#include "kernels/backend.h"

namespace phasor::server {

// Nothing where there are no devices. `min_device_bytes`: as in BackendOptions.
void AddDevices(const BackendStats& stats, int64_t min_device_bytes, std::vector<prometheus::MetricFamily>* families);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_DEVICE_METRICS_H_
