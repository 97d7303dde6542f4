// Specs whose learned numbers the caller has: canonical without them, and the list of what to upload.
#ifndef PHASOR_SERVER_RESOLVE_NEEDED_WEIGHTS_H_
#define PHASOR_SERVER_RESOLVE_NEEDED_WEIGHTS_H_

#include <initializer_list>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"

#include "server/resolve/family.h"

namespace phasor::server {

// Canonicalize for a spec without weights, also of the schemes that require some: everything else is checked and filled in.
absl::StatusOr<CanonicalSpec> CanonicalizeWithoutWeights(const EncodingSpec& spec);

// A field of a spec, as errors name it ("max_distance"), and the key of the configuration that it came from.
using FieldKeys = std::initializer_list<std::pair<std::string_view, std::string_view>>;

// Canonicalises `spec` into `layer` with its kind (by the scheme's family) and appends it to out.layers. On an error the
// problem names the key of the field, else `fields`' first key, and nothing is appended.
void AddSpec(const Model& model, LayerEncoding layer, const EncodingSpec& spec, FieldKeys fields, ModelEncoding& out);

// ---- What readers of score terms need of a model (families_terms.cc). Both fail where the file does not say.
// Channels of a head; fills the layer's heads and lengths. `heads_key`: of a part with heads of its own, where the file has
// it.
int64_t NeededHeadDim(const Model& model, LayerEncoding& layer, std::string_view heads_key = {});
// Columns of relative sinusoids: the model's width, which must be even.
int64_t SinusoidDim(const Model& model, LayerEncoding& layer);

// Lists the tables that learned rows, buckets and windows read, in layers whose reader listed no weights.
void ListTables(ModelEncoding& out);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_RESOLVE_NEEDED_WEIGHTS_H_
