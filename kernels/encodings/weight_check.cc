#include "kernels/encodings/weight_check.h"

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"

namespace phasor {
namespace {

absl::string_view Absl(std::string_view text) { return {text.data(), text.size()}; }

std::string TextOf(std::initializer_list<Extent> shape) {
  std::string text = "[";
  for (const Extent& extent : shape) {
    absl::StrAppend(&text, text.size() > 1 ? ", " : "");
    if (extent.size > 0) {
      absl::StrAppend(&text, extent.size);
    } else {
      absl::StrAppend(&text, Absl(extent.name));
    }
  }
  return text + "]";
}

std::string TextOf(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (int64_t extent : shape) absl::StrAppend(&text, text.size() > 1 ? ", " : "", extent);
  return text + "]";
}

bool Fits(const std::vector<int64_t>& given, std::initializer_list<Extent> shape) {
  if (given.size() != shape.size()) return false;
  size_t axis = 0;
  for (const Extent& extent : shape) {
    if (extent.size > 0 && given[axis] != extent.size) return false;
    ++axis;
  }
  return true;
}

// The first element that is no finite number, or −1.
int64_t FirstNotFinite(const Weight& weight) {
  return VisitFloat(weight.dtype, [&](auto tag) -> int64_t {
    using T = typename decltype(tag)::type;
    const std::byte* data = weight.data.get();
    const int64_t count = weight.elements();
    for (int64_t i = 0; i < count; ++i) {
      T value;
      std::memcpy(&value, data + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
      if ((BitsOf(value) & (kSignBit<T> - 1u)) >= kInfinityBits<T>) return i;
    }
    return -1;
  });
}

}  // namespace

bool CheckWeight(SpecChecker& check, std::string_view name, const WeightRef& weight, Need need,
                 std::initializer_list<Extent> shape) {
  if (!weight) {
    if (need == Need::kRequired) {
      check.Fail("weights", absl::StrCat("no ", Absl(name)), absl::StrCat(Absl(name), " ", TextOf(shape)));
    }
    return false;
  }
  const std::string path = absl::StrCat("weights.", Absl(name), ".tensor");
  if (!Fits(weight->shape, shape)) {
    check.Fail(path + ".shape", TextOf(weight->shape), TextOf(shape));
    return false;
  }
  if (const int64_t at = FirstNotFinite(*weight); at >= 0) {
    const double value = weight->at(at);
    check.Fail(path,
               absl::StrCat(std::isnan(value) ? "NaN"
                            : value > 0       ? "inf"
                                              : "-inf",
                            " at element ", at),
               "finite numbers");
    return false;
  }
  return check.ok();
}

void RefuseWeight(SpecChecker& check, std::string_view name, const WeightRef& weight, std::string_view why) {
  if (!weight) return;
  check.Fail(absl::StrCat("weights.", Absl(name)), name, absl::StrCat("no ", Absl(name), ": ", Absl(why)));
}

std::string LayerWeight(char kind, size_t layer) { return absl::StrCat(std::string(1, kind), layer + 1); }

size_t CountLayers(SpecChecker& check, std::span<const WeightRef> w, std::span<const WeightRef> b, size_t least) {
  size_t layers = 0;
  for (size_t i = 0; i < w.size(); ++i) {
    if (w[i]) layers = i + 1;
  }
  for (size_t i = 0; i < layers; ++i) {
    if (!w[i]) check.Fail("weights", absl::StrCat("no ", LayerWeight('w', i)), "every layer up to the last one");
  }
  if (layers < least) {
    std::string allowed;
    for (size_t i = 0; i < least; ++i) absl::StrAppend(&allowed, LayerWeight('w', i), ", ", LayerWeight('b', i), ", ");
    check.Fail("weights", absl::StrCat("no ", LayerWeight('w', layers)),
               absl::StrCat(allowed, "and up to ", w.size() - least, " layers more"));
  }
  for (size_t i = layers; i < b.size(); ++i) RefuseWeight(check, LayerWeight('b', i), b[i], "there is no such layer");
  return layers;
}

}  // namespace phasor
