// Where the parts of one message live for the length of a call: what a request or an answer has beside its payloads.
#ifndef PHASOR_SERVER_HEADER_ARENA_H_
#define PHASOR_SERVER_HEADER_ARENA_H_

#include <cstddef>

#include "google/protobuf/arena.h"

namespace phasor::server {

// The first kilobytes are of the stack, so a small message costs neither malloc nor free, however many parts it has; the
// rest of a large one is of the heap, in a few blocks. Messages live as long as the arena, and must not be handed out.
class HeaderArena {
 public:
  HeaderArena() = default;
  HeaderArena(const HeaderArena&) = delete;
  HeaderArena& operator=(const HeaderArena&) = delete;

  template <typename M>
  M* New() {
#if GOOGLE_PROTOBUF_VERSION >= 5026000
    return google::protobuf::Arena::Create<M>(&arena_);
#else
    return google::protobuf::Arena::CreateMessage<M>(&arena_);
#endif
  }

 private:
  static constexpr size_t kStackBytes = 4096;

  google::protobuf::ArenaOptions Options() {
    google::protobuf::ArenaOptions options;
    options.initial_block = block_;
    options.initial_block_size = kStackBytes;
    return options;
  }

  alignas(16) char block_[kStackBytes];
  google::protobuf::Arena arena_{Options()};
};

}  // namespace phasor::server

#endif  // PHASOR_SERVER_HEADER_ARENA_H_
