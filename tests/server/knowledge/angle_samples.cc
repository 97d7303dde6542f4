#include "tests/server/knowledge/angle_samples.h"

#include <algorithm>
#include <cmath>

#include "server/knowledge/numbers.h"

namespace phasor::server {
namespace {

double DrawBase(Random& random) {
  if (Below(random, 3) != 0) return Pick<double>(random, {10000, 500000, 1000000, 10000, 150000, 5000000, 100});
  return std::round(std::pow(10.0, 1 + 2.0 * static_cast<double>(Below(random, 1000)) / 1000)) *
         std::pow(10.0, static_cast<double>(1 + Below(random, 4)));
}

double DrawFactor(Random& random) { return Pick<double>(random, {2, 4, 8, 16, 32, 1.5, 40, 3}); }

std::vector<double> DrawFactors(Random& random, int64_t pairs, double last) {
  std::vector<double> factors;
  for (int64_t i = 0; i < pairs; ++i) {
    const double share = static_cast<double>(i) / static_cast<double>(pairs),
                 jitter = static_cast<double>(Below(random, 1000)) / 1e4;
    factors.push_back(std::round((std::pow(last, share * share) + jitter) * 1e4) / 1e4);
  }
  return factors;
}

RopeSchedule DrawSchedule(Random& random, int kind, int64_t pairs, Sample& sample) {
  const int64_t length = Pick<int64_t>(random, {2048, 4096, 8192, 32768});
  const double factor = DrawFactor(random);
  switch (kind) {
    case 1:
      return LinearSchedule{factor};
    case 2:
      return NtkAwareSchedule{factor};
    case 3:
      sample.sequence_length = length + Below(random, 4 * length);
      return DynamicNtkSchedule{factor, length};
    case 4:
    case 5: {
      YarnSchedule yarn;
      yarn.factor = factor;
      yarn.original_max_position = length;
      if (Below(random, 4) == 0) yarn.truncate = false;
      if (Below(random, 8) == 0) yarn.beta_fast = Pick<double>(random, {16, 64, 24});
      if (Below(random, 8) == 0) yarn.mscale = yarn.mscale_all_dim = 0.707;
      return yarn;
    }
    case 6:
      return Llama3Schedule{Pick<double>(random, {8, 32, 16}), 1, 4, 8192};
    case 7: {
      LongRopeSchedule list{DrawFactors(random, pairs, 1.5), DrawFactors(random, pairs, 32), 4096, 32.0, {}, {}, {}};
      sample.sequence_length = Pick<int64_t>(random, {4096, 4097});
      return list;
    }
    case 8:
      return ProportionalSchedule{0.5, Pick<double>(random, {1, 8})};
    case 9:
      sample.sequence_length = 1 + Below(random, 8 * length);
      return Qwen1NtkSchedule{length};
    case 10: {
      NtkMixedSchedule mixed{.factor = factor, .mixed_b = std::nullopt};
      if (Below(random, 2) == 0) mixed.mixed_b = Pick<double>(random, {0.625, 0.75, 1.0, 0.5});
      return mixed;
    }
    case 11:
      return FreqFactorsSchedule{DrawFactors(random, pairs, 8), std::nullopt};
    case 12: {
      std::vector<double> given;
      for (int64_t i = 0; i < pairs; ++i) given.push_back(std::pow(2.0, -static_cast<double>(Below(random, 160)) / 10));
      std::sort(given.rbegin(), given.rend());
      for (double& f : given) f = static_cast<double>(static_cast<float>(f));
      return InvFreqSchedule{given};
    }
    default:
      return DefaultSchedule{};
  }
}

bool Holds(const InputTensor& tensor, int64_t row, int64_t column, double made) {
  const double have = tensor.values[static_cast<size_t>(row * tensor.shape.back() + column)];
  if (have == made) return true;
  return std::fabs(have - made) <= UlpOf(tensor.dtype, std::max(std::fabs(have), std::fabs(made)));
}

// The column of a pair's cosine or sine by the words of a layout.
std::vector<int64_t> ColumnsOf(const std::string& layout, int64_t pair, int64_t pairs, bool is_sin) {
  if (layout.starts_with("half width")) return {pair};
  if (layout.starts_with("duplicated")) return {pair, pair + pairs};
  if (layout.starts_with("interleaved duplicated")) return {2 * pair, 2 * pair + 1};
  if (layout.starts_with("cosines, then sines")) return {is_sin ? pairs + pair : pair};
  if (layout.starts_with("sines, then cosines")) return {is_sin ? pair : pairs + pair};
  if (layout.starts_with("sin cos interleaved")) return {2 * pair + (is_sin ? 0 : 1)};
  return {2 * pair + (is_sin ? 1 : 0)};
}

}  // namespace

Sample DrawRope(Random& random, int kind) {
  Sample sample;
  const int64_t pairs = Pick<int64_t>(random, {4, 8, 16, 32, 32, 64, 64, 48, 40, 128});
  RopeSpec rope;
  rope.head_dim = 2 * pairs;
  rope.base = DrawBase(random);
  rope.schedule = DrawSchedule(random, kind, pairs, sample);
  if (Below(random, 20) == 0) rope.attention_factor = 1.25;
  sample.spec = rope;
  sample.scheme = std::string(SchemeOf(sample.spec).name);
  return sample;
}

Sample DrawAbsolute(Random& random) {
  Sample sample;
  sample.content = InputContent::kSinusoidal;
  const int64_t dim = Pick<int64_t>(random, {8, 16, 64, 128, 256, 512, 768, 33, 65, 21});
  if (Below(random, 2) == 0) {
    SinusoidalSpec s;
    s.dim = dim;
    if (Below(random, 4) == 0) s.base = DrawBase(random);
    s.layout = Pick<SinusoidalLayout>(random, {SinusoidalLayout::kInterleaved, SinusoidalLayout::kConcatenated});
    s.spacing = Pick<SinusoidalSpacing>(random, {SinusoidalSpacing::kPaper, SinusoidalSpacing::kEndpointInclusive});
    if (dim % 2 != 0) s.spacing = s.layout == SinusoidalLayout::kInterleaved ? SinusoidalSpacing::kPaper : s.spacing;
    if (Below(random, 6) == 0) s.scale = Pick<double>(random, {0.5, 1 / std::sqrt(static_cast<double>(dim)), 0.02});
    sample.spec = s;
  } else {
    TimestepSpec s;
    s.dim = dim;
    s.downscale_freq_shift = Pick<double>(random, {0, 1, 0, 0.5});
    s.flip_sin_to_cos = Below(random, 2) == 0;
    if (Below(random, 4) == 0) s.scale = 1000;
    sample.spec = s;
  }
  sample.scheme = std::string(SchemeOf(sample.spec).name);
  return sample;
}

void DrawSlice(Random& random, Sample& sample) {
  sample.dtype =
      Pick<DType>(random, {DType::kF32, DType::kF32, DType::kF32, DType::kBF16, DType::kBF16, DType::kF16, DType::kF64});
  sample.precision = Below(random, 3) == 0 ? Precision::kCompatF32 : Precision::kExact;
  sample.rows = Pick<int64_t>(random, {16, 17, 32, 64, 100, 128, 256, 512});
  sample.start =
      Below(random, 5) < 2 ? 0 : static_cast<int64_t>(std::pow(2.0, static_cast<double>(Below(random, 1700)) / 100));
  if (sample.content == InputContent::kSinusoidal) return;
  sample.form = Pick<Form>(random, {Form::kHalfWidth, Form::kDuplicated, Form::kInterleaved, Form::kCosThenSin});
  if (sample.form == Form::kCosThenSin) {
    sample.content = InputContent::kCosSin;
  } else {
    sample.content = Pick<InputContent>(
        random, {InputContent::kCos, InputContent::kSin, InputContent::kCosAndSin, InputContent::kCosAndSin});
  }
}

InputTable Arrange(const std::vector<double>& cos, const std::vector<double>& sin, int64_t rows, int64_t pairs, DType dtype,
                   Form form, InputContent content) {
  InputTable table;
  table.content = content;
  const int64_t columns = form == Form::kHalfWidth ? pairs : 2 * pairs;
  const auto make = [&](bool is_sin) {
    InputTensor tensor{dtype, {rows, columns}, {}};
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = 0; column < columns; ++column) {
        int64_t pair = column;
        bool second = is_sin;
        if (form == Form::kDuplicated) pair = column % pairs;
        if (form == Form::kInterleaved || form == Form::kAlternating) pair = column / 2;
        if (form == Form::kAlternating) second = column % 2 == 0;
        if (form == Form::kCosThenSin || form == Form::kSinThenCos) {
          pair = column % pairs;
          second = (column < pairs) == (form == Form::kSinThenCos);
        }
        tensor.values.push_back((second ? sin : cos)[static_cast<size_t>(row * pairs + pair)]);
      }
    }
    return tensor;
  };
  if (content != InputContent::kSin) table.tensors.push_back(make(false));
  if (content == InputContent::kSin || content == InputContent::kCosAndSin) table.tensors.push_back(make(true));
  return table;
}

InputTable MakeTable(const Backend& backend, const Sample& sample) {
  const auto canonical = Canonicalize(sample.spec);
  if (!canonical.ok()) return {};
  auto resolved = Resolve(*canonical, sample.sequence_length, sample.precision);
  if (!resolved.ok()) return {};
  if (sample.content == InputContent::kSinusoidal) {
    const auto rows = MakeRows(backend, canonical->spec, resolved->plan, sample.start, sample.rows, sample.dtype);
    if (!rows.ok()) return {};
    return {InputContent::kSinusoidal, {{sample.dtype, {rows->rows, rows->columns}, rows->values}}, {}};
  }
  const AnglePlan& plan = std::get<AnglePlan>(resolved->plan);
  const auto angles = MakeAngles(backend, plan, sample.start, sample.rows, sample.dtype);
  if (!angles.ok()) return {};
  return Arrange(angles->cos.values, angles->sin.values, sample.rows, plan.pairs(), sample.dtype, sample.form,
                 sample.content);
}

std::string WhyNotRemade(const Backend& backend, const InputTable& table, const Hypothesis& h) {
  const InputTensor& first = table.tensors[0];
  const int64_t columns = first.shape.back(), rows = first.shape[0];
  const Precision precision = h.computed == "compat_f32" ? Precision::kCompatF32 : Precision::kExact;
  const auto resolved = Resolve(h.spec, h.sequence_length, precision);
  if (!resolved.ok()) return std::string(resolved.status().message());
  if (!std::holds_alternative<RopeSpec>(h.spec.spec)) {
    const auto made = MakeRows(backend, h.spec.spec, resolved->plan, h.first_position, rows, first.dtype);
    if (!made.ok()) return std::string(made.status().message());
    if (made->columns != columns) return "width";
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t i = 0; i < columns; ++i) {
        if (!Holds(first, row, i, made->at(row, i))) return "row " + std::to_string(row) + " column " + std::to_string(i);
      }
    }
    return "";
  }
  const AnglePlan& plan = std::get<AnglePlan>(resolved->plan);
  const auto made = MakeAngles(backend, plan, h.first_position, rows, first.dtype);
  if (!made.ok()) return std::string(made.status().message());
  int64_t covered = 0;
  for (int64_t pair = 0; pair < plan.pairs(); ++pair) {
    for (bool is_sin : {false, true}) {
      if (is_sin ? h.content == InputContent::kCos : h.content == InputContent::kSin) continue;
      const InputTensor& tensor = is_sin && table.tensors.size() == 2 ? table.tensors[1] : first;
      for (int64_t column : ColumnsOf(h.layout, pair, plan.pairs(), is_sin)) {
        ++covered;
        if (column >= columns) return "layout";
        for (int64_t row = 0; row < rows; ++row) {
          const double value = is_sin ? made->sin.at(row, pair) : made->cos.at(row, pair);
          if (!Holds(tensor, row, column, value)) return "row " + std::to_string(row) + " column " + std::to_string(column);
        }
      }
    }
  }
  return covered == columns * static_cast<int64_t>(table.tensors.size()) ? "" : "columns without a value";
}

}  // namespace phasor::server
