// Memory for what backends fill.
#ifndef PHASOR_SERVER_KNOWLEDGE_ALIGNED_H_
#define PHASOR_SERVER_KNOWLEDGE_ALIGNED_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace phasor::server {

inline constexpr std::align_val_t kAlignment{64};

struct FreeAligned {
  void operator()(std::byte* memory) const { ::operator delete(memory, kAlignment); }
};
using AlignedMemory = std::unique_ptr<std::byte, FreeAligned>;

inline AlignedMemory AllocateAligned(int64_t bytes) {
  return AlignedMemory(static_cast<std::byte*>(::operator new(static_cast<size_t>(bytes > 0 ? bytes : 1), kAlignment)));
}

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_ALIGNED_H_
