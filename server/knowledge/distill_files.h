// A fitted function as files that other programs read.
#ifndef PHASOR_SERVER_KNOWLEDGE_DISTILL_FILES_H_
#define PHASOR_SERVER_KNOWLEDGE_DISTILL_FILES_H_

#include <string>
#include <utility>
#include <vector>

#include "server/knowledge/distill.h"

namespace phasor::server {

// What a reader must know of the function, as names and values: the rule of its input, what it was fitted to, how far it is
// off. ASCII without quotes and backslashes.
std::vector<std::pair<std::string, std::string>> DescriptionOf(const Side& side, const Distilled& distilled);

// A .safetensors file: w1, b1 … as F64, the description as metadata.
std::string SafetensorsOf(const Side& side, const Distilled& distilled);

// An ONNX model (IR version 8, opset 13): "positions" float64 [n] to "rows" float64 [n, columns], the description as
// metadata. A runtime's own exponentials, cosines and sums decide its last bits.
std::string OnnxOf(const Side& side, const Distilled& distilled);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_DISTILL_FILES_H_
