// What a backend of devices counts, as metrics.
#ifndef PHASOR_SERVER_DEVICE_METRICS_H_
#define PHASOR_SERVER_DEVICE_METRICS_H_

#include <vector>

#include "prometheus/metric_family.h"

#include "kernels/backend.h"

namespace phasor::server {

// Nothing where there are no devices.
void AddDevices(const BackendStats& stats, std::vector<prometheus::MetricFamily>* families);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_DEVICE_METRICS_H_
