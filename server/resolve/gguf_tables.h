// What GGUF models have beside rotation and ALiBi: learned tables, T5's buckets, the towers of `clip` files.
#ifndef PHASOR_SERVER_RESOLVE_GGUF_TABLES_H_
#define PHASOR_SERVER_RESOLVE_GGUF_TABLES_H_

#include <string_view>

#include "server/resolve/gguf_rope.h"

namespace phasor::server {

// Whether the infos of this tensor say how large a table is: a head without it answers less.
bool GgufIsTable(std::string_view tensor);

// Complete `layer`, whose facts about heads and lengths are there. On an error the layer is unspecified.
void ReadGgufTable(const GgufContext& model, LayerEncoding& layer);
void ReadGgufBuckets(const GgufContext& model, const GgufGroup& group, LayerEncoding& layer);

// The image and sound towers of a `clip` file.
void ReadGgufTowers(const GgufContext& model, ModelEncoding& out);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_RESOLVE_GGUF_TABLES_H_
