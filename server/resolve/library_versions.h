// Which older versions of transformers have a class, for warnings about what those read otherwise.
#ifndef PHASOR_SERVER_RESOLVE_LIBRARY_VERSIONS_H_
#define PHASOR_SERVER_RESOLVE_LIBRARY_VERSIONS_H_

#include <string_view>

namespace phasor::server {

// Whether the class rotates by the common rope types in version 4. It takes them from rope_scaling alone there, and the base
// from the top level.
bool RotatesInTransformers4(std::string_view model_type);

// Whether it takes YaRN's dict in a version before 4.51, where YaRN counts from max_position_embeddings.
bool HasYarnBeforeTransformers451(std::string_view model_type);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_RESOLVE_LIBRARY_VERSIONS_H_
