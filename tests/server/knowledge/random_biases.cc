#include "tests/server/knowledge/random_biases.h"

#include <algorithm>
#include <cmath>

#include "server/knowledge/alibi_slopes.h"
#include "server/text.h"

namespace phasor::server {
namespace {

std::string TextOf(const Window& window, int64_t heads) {
  std::string text = Cat(Name(window.dtype), " heads ", heads);
  if (window.matrix) {
    Append(&text, " ", window.queries, "x", window.keys, window.mask ? Cat(" mask ", *window.mask) : "");
  } else {
    Append(&text, " distances ", window.first, " … ", window.first + window.count - 1);
  }
  return text;
}

struct Made {
  EncodingSpec spec;
  std::string name;
};
Made DrawSpec(Draw& draw, int64_t heads, DType dtype) {
  switch (draw.Whole(0, 3)) {
    case 0:
      return {DrawAlibi(draw, heads), "alibi"};
    case 1:
      return {DrawKerple(draw, std::min<int64_t>(heads, 8)), "kerple"};
    case 2:
      return {DrawSandwich(draw, heads), "sandwich"};
    default:
      return {DrawT5(draw, std::min<int64_t>(heads, 8), dtype), "t5_bucket"};
  }
}

int64_t HeadsOf(const EncodingSpec& spec) { return BiasMaker::Of(TestBackend(), *Canonicalize(spec))->heads(); }

// Whether a stored value moved by more than 2 ulp.
bool Differs(const InputTable& a, const InputTable& b) {
  const InputTensor &x = a.tensors[0], &y = b.tensors[0];
  for (size_t i = 0; i < x.values.size(); ++i) {
    if (x.values[i] == y.values[i] || (std::isnan(x.values[i]) && std::isnan(y.values[i]))) continue;
    if (!(std::fabs(x.values[i] - y.values[i]) <= 2 * UlpOf(x.dtype, y.values[i]))) return true;
  }
  return false;
}

BiasFunction Lines(const std::vector<double>& slopes, AlibiForm form) {
  return [=](int64_t head, int64_t d) {
    const auto x = static_cast<double>(d > 0 && form == AlibiForm::kSymmetric ? -d : d);
    return slopes[static_cast<size_t>(head)] * x;
  };
}

// A fault that a bias of straight lines may have: its name, or none where it does not apply.
std::string AlibiFault(Draw& draw, Window& window, int64_t heads, DrawnBias& out) {
  AlibiSpec spec;
  spec.num_heads = heads;
  spec.form = draw.Chance(0.5) ? AlibiForm::kCausal : AlibiForm::kSymmetric;
  std::vector<double> slopes = RuleSlopes(heads, 8);
  const auto count = static_cast<double>(heads);
  const auto set = [&](auto exponent) {
    for (int64_t h = 0; h < heads; ++h) slopes[static_cast<size_t>(h)] = std::exp2(-exponent(static_cast<double>(h)));
  };
  const bool power = (heads & (heads - 1)) == 0;
  std::string name;
  switch (draw.Whole(0, 5)) {
    case 0:
      if (power) return "";
      set([&](double h) { return 8 * (h + 1) / count; });
      name = "alibi_plain_geometric_slopes";
      break;
    case 1:
      if (heads < 2) return "";
      set([&](double h) { return (8 + h) / count; });
      name = "alibi_slopes_step_in_exponent";
      break;
    case 2:
      if (heads < 2) return "";
      set([&](double h) { return 8 * h / count; });
      name = "alibi_first_slope_wrong";
      break;
    case 3:
      for (double& slope : slopes) slope = -slope;
      if (!window.matrix) return "";  // a vector the other way round is as good
      name = "alibi_sign_flipped";
      break;
    case 4: {
      if (heads < 2) return "";  // one head is the last of four
      spec.num_heads = heads * 4;
      out.input.expected = *Canonicalize(spec);
      name = "alibi_slopes_from_local_heads";
      break;
    }
    default: {
      for (double& slope : slopes) slope = RoundTo(DType::kBF16, slope);
      out.input.expected = *Canonicalize(spec);
      name = "alibi_slopes_rounded";
      break;
    }
  }
  out.input.table = window.Table(heads, Lines(slopes, *spec.form));
  const EncodingSpec right = spec;
  return Differs(out.input.table, window.Table(heads, FunctionOf(right, window.reach(), window.dtype))) ? name : "";
}

// A fault that any bias by distance may have, against the expected spec.
std::string AnyFault(Draw& draw, Window& window, int64_t heads, DrawnBias& out) {
  const Made made = DrawSpec(draw, heads, window.dtype);
  heads = HeadsOf(made.spec);
  const int64_t reach = 2 * window.reach() + 80;
  const BiasFunction right = FunctionOf(made.spec, reach, window.dtype);
  const InputTable table = window.Table(heads, right);
  out.input.expected = *Canonicalize(made.spec);
  const auto* alibi = std::get_if<AlibiSpec>(&made.spec);
  std::string name;
  switch (draw.Whole(0, 5)) {
    case 0: {
      if (alibi != nullptr && alibi->form.value_or(AlibiForm::kCausal) == AlibiForm::kCausal) return "";  // free
      if (!window.matrix) return "";
      const int64_t shift = draw.Chance(0.5) ? window.keys - window.queries : draw.Whole(1, 9);
      out.input.table = window.Table(heads, [&](int64_t h, int64_t d) { return right(h, d + shift); });
      name = "bias_not_bottom_right_aligned";
      break;
    }
    case 1: {
      const double factor = std::sqrt(static_cast<double>(draw.Of<int64_t>({32, 64, 80, 96, 128})));
      const bool down = draw.Chance(0.5);
      out.input.table =
          window.Table(heads, [&](int64_t h, int64_t d) { return down ? right(h, d) / factor : right(h, d) * factor; });
      name = "bias_scaled";
      break;
    }
    case 2: {
      double lowest = 0;
      for (int64_t h = 0; h < heads; ++h) {
        for (int64_t d = -window.reach() / 2; d <= 0; ++d) lowest = std::min(lowest, right(h, d));
      }
      const double clamp = RoundTo(window.dtype, lowest * draw.Real(0.2, 0.7));
      out.input.table = window.Table(heads, [&](int64_t h, int64_t d) { return std::max(right(h, d), clamp); });
      name = "bias_clamped";
      break;
    }
    case 3:
      out.input.table = window.Table(heads, [&](int64_t h, int64_t d) {
        return right(h, static_cast<int64_t>(RoundTo(DType::kBF16, static_cast<double>(d))));
      });
      name = "bias_distances_rounded";
      break;
    case 4: {
      out.input.table = table;
      if (!window.matrix) return "";
      std::vector<double>& values = out.input.table.tensors[0].values;
      const auto row = static_cast<std::ptrdiff_t>(draw.Whole(0, window.queries - 1));
      std::fill_n(values.begin() + row * window.keys, window.keys, std::nan(""));
      name = "bias_not_finite";
      break;
    }
    default:
      if (!window.matrix) return "";
      out.input.table = window.Table(heads, [](int64_t, int64_t) { return 0.0; });
      out.input.expected.reset();
      name = "bias_without_distance";
      break;
  }
  return Differs(out.input.table, table) ? name : "";
}

std::string T5Fault(Draw& draw, Window& window, int64_t heads, DrawnBias& out) {
  heads = std::min<int64_t>(heads, 8);
  const T5BucketSpec right = DrawT5(draw, heads, window.dtype);
  const int64_t reach = window.reach() + 1;
  const BiasFunction made = FunctionOf(right, reach, window.dtype);
  T5BucketSpec wrong = right;
  std::string name;
  out.input.expected = *Canonicalize(right);
  if (!window.matrix) return "";
  switch (draw.Whole(0, 2)) {
    case 0:
      out.input.table = window.Table(heads, [&](int64_t h, int64_t d) { return made(h, -d); });
      name = "t5_sign_flipped";
      break;
    case 1:
      wrong.bidirectional = !wrong.bidirectional.value_or(true);
      if (!Canonicalize(wrong).ok()) return "";
      out.input.table = window.Table(heads, FunctionOf(wrong, reach, window.dtype));
      name = "t5_directions_swapped";
      break;
    default:
      if (*right.max_distance == 128) return "";
      wrong.max_distance = 128;
      if (!Canonicalize(wrong).ok()) return "";
      out.input.table = window.Table(heads, FunctionOf(wrong, reach, window.dtype));
      name = "t5_max_distance_wrong";
  }
  return Differs(out.input.table, window.Table(heads, made)) ? name : "";
}

}  // namespace

Window DrawWindow(Draw& draw) {
  Window window;
  window.dtype = draw.Of<DType>({DType::kF32, DType::kF32, DType::kF64, DType::kF16, DType::kBF16});
  window.matrix = draw.Chance(0.5);
  if (window.matrix) {
    window.queries = draw.Whole(16, 60);
    window.keys = window.queries + (draw.Chance(0.5) ? draw.Whole(0, 40) : 0);
    if (draw.Chance(0.5)) window.mask = draw.Chance(0.5) || window.dtype == DType::kF16 ? -HUGE_VAL : -1e9;
  } else {
    window.first = -draw.Whole(15, 500);
    window.count = (draw.Chance(0.5) ? -2 * window.first : -window.first) + 1;
  }
  return window;
}

AlibiSpec DrawAlibi(Draw& draw, int64_t heads) {
  AlibiSpec spec;
  spec.num_heads = heads;
  spec.form = draw.Of<AlibiForm>({AlibiForm::kCausal, AlibiForm::kSymmetric, AlibiForm::kTwoSided});
  if (spec.form == AlibiForm::kTwoSided) spec.future_factor = draw.Of<double>({0.5, 0.25, 2});
  if (draw.Chance(0.1)) {
    for (int64_t h = 0; h < heads; ++h) spec.slopes.push_back(draw.Real(0.001, 1));
    return spec;
  }
  if (draw.Chance(0.2)) spec.max_bias = draw.Of<double>({4, 16, 10});
  if (draw.Chance(0.2)) spec.biased_heads = draw.Whole(1, heads);
  if (draw.Chance(0.15)) spec.slope_dtype = DType::kBF16;
  if (draw.Chance(0.15)) spec.scale = 1 / std::sqrt(static_cast<double>(draw.Of<int64_t>({64, 80, 128})));
  return spec;
}

KerpleSpec DrawKerple(Draw& draw, int64_t heads) {
  KerpleSpec spec;
  spec.form = draw.Of<KerpleForm>({KerpleForm::kLog, KerpleForm::kPower, KerpleForm::kNemo});
  for (int64_t h = 0; h < heads; ++h) {
    spec.r1.push_back(std::exp(draw.Real(-3, 1.5)));
    spec.r2.push_back(spec.form == KerpleForm::kPower ? draw.Real(0.1, 2) : std::exp(draw.Real(-4, 2)));
    if (spec.form == KerpleForm::kNemo) spec.p.push_back(draw.Real(0.3, 1.9));
  }
  return spec;
}

SandwichSpec DrawSandwich(Draw& draw, int64_t heads) {
  SandwichSpec spec;
  spec.num_heads = heads;
  spec.dim = draw.Chance(0.7) ? 2 * draw.Whole(4, 256) : draw.Of<int64_t>({64, 128, 256, 768});
  spec.base = draw.Of<double>({10000, 10000, 1000, 500000});
  return spec;
}

T5BucketSpec DrawT5(Draw& draw, int64_t heads, DType dtype) {
  T5BucketSpec spec;
  spec.num_buckets = draw.Of<int64_t>({8, 16, 32, 32, 64});
  spec.max_distance = draw.Of<int64_t>({40, 64, 128, 128, 256, 300, 512});
  spec.bidirectional = draw.Chance(0.5);
  std::vector<double> table(static_cast<size_t>(*spec.num_buckets * heads));
  for (double& value : table) value = RoundTo(dtype, 4 * draw.Normal());
  spec.table = MakeWeight({*spec.num_buckets, heads}, table);
  return spec;
}

DrawnBias DrawRight(Draw& draw) {
  Window window = DrawWindow(draw);
  const Made made = DrawSpec(draw, draw.Whole(1, 24), window.dtype);
  const int64_t heads = HeadsOf(made.spec);
  DrawnBias out;
  out.what = made.name;
  out.text = Cat(made.name, " ", TextOf(window, heads));
  out.input.table = window.Table(heads, FunctionOf(made.spec, window.reach(), window.dtype));
  if (draw.Chance(0.3)) out.input.expected = *Canonicalize(made.spec);
  if (draw.Chance(0.3)) out.input.table.content = InputContent::kUnknown;
  return out;
}

DrawnBias DrawWrong(Draw& draw) {
  for (;;) {
    DrawnBias out;
    Window window = DrawWindow(draw);
    const int64_t heads = draw.Whole(1, 24);
    const int64_t kind = draw.Whole(0, 3);
    out.what = kind <= 1   ? AlibiFault(draw, window, heads, out)
               : kind == 2 ? AnyFault(draw, window, heads, out)
                           : T5Fault(draw, window, heads, out);
    out.text = Cat(out.what, " ", TextOf(window, heads));
    if (!out.what.empty()) return out;
  }
}

}  // namespace phasor::server
