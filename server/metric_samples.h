// Families of samples that are read when they are scraped.
#ifndef PHASOR_SERVER_METRIC_SAMPLES_H_
#define PHASOR_SERVER_METRIC_SAMPLES_H_

#include <string>
#include <utility>
#include <vector>

#include "prometheus/metric_family.h"

namespace phasor::server {

// Adds a gauge's or a counter's sample: to the last family when it has that name, else to a new one.
inline void AddSample(std::vector<prometheus::MetricFamily>* families, std::string name, std::string help,
                      prometheus::MetricType type, double value, std::vector<prometheus::ClientMetric::Label> labels = {}) {
  prometheus::ClientMetric metric;
  metric.label = std::move(labels);
  if (type == prometheus::MetricType::Counter) {
    metric.counter.value = value;
  } else {
    metric.gauge.value = value;
  }
  if (!families->empty() && families->back().name == name) {
    families->back().metric.push_back(std::move(metric));
    return;
  }
  families->push_back({std::move(name), std::move(help), type, {std::move(metric)}});
}

}  // namespace phasor::server

#endif  // PHASOR_SERVER_METRIC_SAMPLES_H_
