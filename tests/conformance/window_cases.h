// Random tables gathered by the rule of a window, for every backend.
#ifndef PHASOR_TESTS_CONFORMANCE_WINDOW_CASES_H_
#define PHASOR_TESTS_CONFORMANCE_WINDOW_CASES_H_

#include <random>
#include <vector>

#include "tests/conformance/case_run.h"

namespace phasor {

inline constexpr TokenWindow kTestedWindows[] = {{1, 1, false},  {1, 1, true},  {7, 7, false},  {2, 3, true},
                                                 {3, 2, false},  {1, 9, true},  {9, 1, false},  {14, 14, true},
                                                 {3, 30, false}, {2, 50, true}, {12, 5, false}, {1, 99, false}};

struct WindowCase {
  WindowCase(const TokenWindow& tokens, int64_t element_size, std::mt19937_64& random)
      : window(tokens), size(element_size), heads(1 + static_cast<int64_t>(random() % 3)) {
    stride = window.table_rows() + static_cast<int64_t>(random() % 3);
    // The last head's table ends where its numbers do.
    table.resize(static_cast<size_t>(((heads - 1) * stride + window.table_rows()) * size));
    for (unsigned char& byte : table) byte = static_cast<unsigned char>(random());
  }

  int64_t rows() const { return heads * window.tokens(); }
  int64_t elements() const { return rows() * window.tokens(); }
  WindowTask TaskTo(void* out, StoreHint hint = StoreHint::kAuto) const {
    return {.element_size = size,
            .window = window,
            .heads = heads,
            .table = table.data(),
            .table_stride = stride,
            .out = out,
            .hint = hint};
  }

  const TokenWindow window;
  const int64_t size, heads;
  int64_t stride;
  std::vector<unsigned char> table;
};

}  // namespace phasor

#endif  // PHASOR_TESTS_CONFORMANCE_WINDOW_CASES_H_
