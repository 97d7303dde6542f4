#include "tests/server/knowledge/broken_tables.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "server/knowledge/numbers.h"

namespace phasor::server {
namespace {

constexpr long double kTwoPi = 6.283185307179586476925L;

// What a table is computed from.
struct Recipe {
  std::vector<double> positions;  // one per row
  std::vector<double> frequencies;
  double factor = 1;
  bool float32_angle = false;
};

struct Values {
  std::vector<double> cos, sin;
};

Values Compute(const Recipe& recipe, DType dtype) {
  Values values;
  for (double position : recipe.positions) {
    for (double frequency : recipe.frequencies) {
      long double angle = static_cast<long double>(position) * frequency;
      if (recipe.float32_angle) angle = static_cast<float>(position) * static_cast<float>(frequency);
      values.cos.push_back(RoundTo(dtype, static_cast<double>(cosl(angle) * recipe.factor)));
      values.sin.push_back(RoundTo(dtype, static_cast<double>(sinl(angle) * recipe.factor)));
    }
  }
  return values;
}

std::vector<double> Powers(double base, int64_t pairs, double width) {
  std::vector<double> frequencies;
  for (int64_t i = 0; i < pairs; ++i) frequencies.push_back(std::pow(base, -2 * static_cast<double>(i) / width));
  return frequencies;
}

std::vector<double> YarnFrequencies(double base, int64_t pairs, double factor, double length, double fast, double slow) {
  const double d = 2 * static_cast<double>(pairs);
  const auto end = [&](double beta) {
    return d * std::log(length / (beta * static_cast<double>(kTwoPi))) / (2 * std::log(base));
  };
  const double low = std::max(0.0, std::floor(end(fast)));
  double high = std::min(d - 1, std::ceil(end(slow)));
  if (low == high) high += 0.001;
  std::vector<double> frequencies = Powers(base, pairs, d);
  for (int64_t i = 0; i < pairs; ++i) {
    const double r = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    frequencies[static_cast<size_t>(i)] *= 1 - r + r / factor;
  }
  return frequencies;
}

double Moved(const Values& a, const Values& b, DType dtype) {
  if (a.cos.size() != b.cos.size()) return HUGE_VAL;
  double most = 0;
  for (size_t i = 0; i < a.cos.size(); ++i) {
    for (const auto& [x, y] : {std::pair{a.cos[i], b.cos[i]}, std::pair{a.sin[i], b.sin[i]}}) {
      most = std::max(most, std::fabs(x - y) / UlpOf(dtype, std::max(std::fabs(x), std::fabs(y))));
    }
  }
  return most;
}

struct Draft {
  Recipe right, wrong;
  RopeSpec spec;
  Form form = Form::kHalfWidth;
  DType dtype = DType::kF32;
  int64_t pairs = 0, start = 0;
  bool tells_expected = false;
};

Draft DrawDraft(Random& random) {
  Draft draft;
  draft.pairs = Pick<int64_t>(random, {16, 32, 64, 48});
  draft.dtype = Pick<DType>(random, {DType::kF32, DType::kF32, DType::kBF16, DType::kF16});
  draft.form = Pick<Form>(random, {Form::kHalfWidth, Form::kDuplicated, Form::kInterleaved, Form::kCosThenSin});
  draft.spec.head_dim = 2 * draft.pairs;
  draft.spec.base = Pick<double>(random, {10000, 500000, 1000000});
  if (draft.form == Form::kInterleaved) draft.spec.pairing = Pairing::kInterleaved;
  draft.start = Below(random, 3) == 0 ? 0 : Below(random, 4096);
  draft.right.frequencies = Powers(*draft.spec.base, draft.pairs, 2 * static_cast<double>(draft.pairs));
  draft.tells_expected = Below(random, 2) == 0;
  return draft;
}

void SetPositions(Draft& draft, int64_t rows) {
  for (int64_t row = 0; row < rows; ++row) draft.right.positions.push_back(static_cast<double>(draft.start + row));
}

void UseYarn(Random& random, Draft& draft, bool swapped, std::string& fault) {
  const double factor = Pick<double>(random, {4, 8, 16, 40}), length = Pick<double>(random, {4096, 8192, 32768});
  const auto frequencies = [&](double fast, double slow) {
    return YarnFrequencies(*draft.spec.base, draft.pairs, factor, length, fast, slow);
  };
  const double a = 0.1 * std::log(factor) + 1;
  draft.right.frequencies = frequencies(32, 1);
  draft.right.factor = draft.wrong.factor = a;
  YarnSchedule yarn;
  yarn.factor = factor;
  yarn.original_max_position = static_cast<int64_t>(length);
  draft.spec.schedule = yarn;
  draft.wrong.positions = draft.right.positions;
  draft.wrong.frequencies = swapped ? frequencies(1, 32) : draft.right.frequencies;
  if (swapped) return;
  const bool twice = Below(random, 2) == 0;
  draft.wrong.factor = twice ? a * a : 1;
  fault = twice ? "attention_factor_twice" : "attention_factor_missing";
  draft.tells_expected = draft.tells_expected || !twice;
}

void MovePositions(Random& random, int kind, Draft& draft) {
  std::vector<double>& positions = draft.wrong.positions;
  const size_t rows = positions.size(), at = rows / 4 + static_cast<size_t>(Below(random, static_cast<int64_t>(rows / 2)));
  for (size_t row = at; row < rows; ++row) {
    if (kind == 10) positions[row] = static_cast<double>(row - at);
    if (kind == 12) positions[row] += 7 + static_cast<double>(at);
  }
  if (kind == 11) {
    for (size_t row = 0; row < rows; ++row) positions[row] = row < at ? 1 : static_cast<double>(row - at);
  }
}

Broken Finish(const Draft& draft, std::string fault) {
  const Values right = Compute(draft.right, draft.dtype), wrong = Compute(draft.wrong, draft.dtype);
  Broken broken{std::move(fault), {}, Moved(right, wrong, draft.dtype)};
  const auto rows = static_cast<int64_t>(draft.wrong.positions.size());
  const InputContent content = draft.form == Form::kCosThenSin ? InputContent::kCosSin : InputContent::kCosAndSin;
  broken.input.table = Arrange(wrong.cos, wrong.sin, rows, draft.pairs, draft.dtype, draft.form, content);
  if (draft.tells_expected) broken.input.expected = *Canonicalize(draft.spec);
  return broken;
}

void RoundAll(std::vector<double>& values, DType dtype) {
  for (double& value : values) value = RoundTo(dtype, value);
}

void DropLastColumn(InputTensor& tensor) {
  std::vector<double> fewer;
  const size_t columns = static_cast<size_t>(tensor.shape[1]);
  for (size_t i = 0; i < tensor.values.size(); ++i) {
    if (i % columns != columns - 1) fewer.push_back(tensor.values[i]);
  }
  tensor.values = std::move(fewer);
  --tensor.shape[1];
}

// Kinds that change finished columns or rows.
Broken BreakColumns(Random& random, int kind, Draft& draft) {
  SetPositions(draft, 64 + Below(random, 128));
  draft.wrong = draft.right;
  const auto rows = static_cast<int64_t>(draft.right.positions.size());
  if (kind == 6 || kind == 15) draft.form = Below(random, 2) == 0 ? Form::kDuplicated : Form::kInterleaved;
  draft.spec.pairing = draft.form == Form::kInterleaved ? Pairing::kInterleaved : Pairing::kHalfSplit;
  if (kind == 6) {
    draft.tells_expected = true;
    draft.spec.pairing = draft.form == Form::kInterleaved ? Pairing::kHalfSplit : Pairing::kInterleaved;
  }
  Broken broken = Finish(draft, kind == 6 && draft.form == Form::kInterleaved ? "pairs_interleaved" : "pairs_half_split");
  broken.moved_ulps = HUGE_VAL;
  const int64_t from = rows - 1 - Below(random, rows / 3);
  for (InputTensor& tensor : broken.input.table.tensors) {
    if (kind == 15) DropLastColumn(tensor), broken.fault = "odd_width";
    if (kind == 16) {
      std::fill(tensor.values.begin() + from * tensor.shape[1], tensor.values.end(), 0.0);
      broken.fault = "rows_truncated";
    }
    if (kind == 17) {
      tensor.values[static_cast<size_t>(from * tensor.shape[1])] = std::numeric_limits<double>::quiet_NaN();
      broken.fault = "not_finite";
    }
  }
  return broken;
}

Broken BreakFrequencies(Random& random, int kind, Draft& draft) {
  SetPositions(draft, 64 + Below(random, 192));
  draft.wrong = draft.right;
  std::string fault;
  const double d = 2 * static_cast<double>(draft.pairs);
  if (kind == 2 || kind == 3) {
    RoundAll(draft.wrong.frequencies, kind == 2 ? DType::kBF16 : DType::kF16);
    draft.wrong.float32_angle = Below(random, 2) == 0;
    fault = kind == 2 ? "frequencies_in_bf16" : "frequencies_in_f16";
  } else if (kind == 5) {
    draft.tells_expected = true;
    draft.wrong.frequencies = Powers(*draft.spec.base, draft.pairs, d * Pick<double>(random, {2, 4, 0.5, 4.0 / 3}));
    fault = "exponent_over_wrong_width";
  } else if (kind == 7 || kind == 8) {
    fault = "yarn_betas_swapped";
    UseYarn(random, draft, kind == 7, fault);
  } else {
    const double factor = 2, length = Pick<double>(random, {2048, 4096}),
                 made = length * Pick<double>(random, {1.5, 2, 4, 1});
    const auto base = [&](double l) {
      return *draft.spec.base * std::pow(factor * std::max(l, length) / length - (factor - 1), d / (d - 2));
    };
    draft.right.frequencies = Powers(base(3 * length), draft.pairs, d);
    draft.wrong.frequencies = Powers(base(made), draft.pairs, d);
    draft.spec.schedule = DynamicNtkSchedule{factor, static_cast<int64_t>(length)};
    draft.tells_expected = true;
    Broken broken = Finish(draft, "dynamic_base_of_another_length");
    broken.input.sequence_length = static_cast<int64_t>(3 * length);
    return broken;
  }
  return Finish(draft, fault);
}

}  // namespace

Broken DrawBroken(Random& random, int kind) {
  Draft draft = DrawDraft(random);
  if (kind == 6 || kind >= 15) return BreakColumns(random, kind, draft);
  if (kind == 2 || kind == 3 || kind == 5 || kind == 7 || kind == 8 || kind == 13)
    return BreakFrequencies(random, kind, draft);
  std::string fault;
  if (kind == 0 || kind == 1) {
    draft.start = kind == 0 ? Below(random, 20000) : 2000 + Below(random, 40000);
    SetPositions(draft, 400 + Below(random, 400));
    draft.wrong = draft.right;
    RoundAll(draft.wrong.positions, kind == 0 ? DType::kBF16 : DType::kF16);
    fault = kind == 0 ? "positions_in_bf16" : "positions_in_f16";
  } else if (kind == 4) {
    draft.start = 20000 + Below(random, 100000);
    draft.dtype = DType::kF32;
    SetPositions(draft, 64 + Below(random, 192));
    draft.wrong = draft.right;
    draft.wrong.float32_angle = true;
    fault = "float32_angle";
  } else if (kind == 9 || kind == 14) {
    SetPositions(draft, 64 + Below(random, 192));
    draft.wrong = draft.right;
    const double by = kind == 9 ? 1 : 17;
    for (double& position : draft.wrong.positions) position += by;
    fault = kind == 9 ? "off_by_one_start" : "start_differs";
    Broken broken = Finish(draft, fault);
    broken.input.table.first_position = draft.start;
    return broken;
  } else {
    SetPositions(draft, 64 + Below(random, 192));
    draft.wrong = draft.right;
    MovePositions(random, kind, draft);
    fault = kind == 10 ? "positions_restart" : kind == 11 ? "rows_repeated" : "positions_jump";
  }
  return Finish(draft, fault);
}

}  // namespace phasor::server
