#include "tests/kernels/program/score_cases.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <sstream>

#include "kernels/core/narrow.h"

namespace phasor {
namespace {

std::vector<double> Whole(std::istringstream& line) {
  std::vector<double> numbers;
  for (double n; line >> n;) numbers.push_back(n / 32);
  return numbers;
}

EncodingSpec Canonical(EncodingSpec spec) {
  const auto canonical = Canonicalize(spec);
  EXPECT_TRUE(canonical.ok()) << canonical.status();
  return canonical.ok() ? canonical->spec : spec;
}

std::optional<int64_t> Optional(const ScoreCase& c, const std::string& key) {
  const auto it = c.options.find(key);
  return it == c.options.end() ? std::nullopt : std::optional<int64_t>(it->second);
}

}  // namespace

ScoreCases ReadScoreCases(const std::string& path) {
  ScoreCases all;
  std::ifstream file(path);
  EXPECT_TRUE(file.good()) << path;
  for (std::string text; std::getline(file, text);) {
    std::istringstream line(text);
    std::string key, name;
    line >> key;
    if (key == "case") {
      all.cases.emplace_back();
      line >> all.cases.back().name;
      continue;
    }
    if (key == "deberta_rows") {
      DebertaRows rows;
      line >> rows.buckets >> rows.furthest >> rows.reach;
      for (int64_t row, count; line >> row >> count;) rows.rows.insert(rows.rows.end(), static_cast<size_t>(count), row);
      all.deberta_rows.push_back(rows);
      continue;
    }
    ScoreCase& c = all.cases.back();
    if (key == "term") {
      line >> c.term;
    } else if (key == "dims") {
      line >> c.batch >> c.heads >> c.key_heads >> c.queries >> c.keys >> c.dim;
    } else if (key == "option") {
      line >> name >> c.options[name];
    } else if (key == "positions") {
      line >> name;
      std::vector<int64_t>& positions = name == "query" ? c.query_positions : c.key_positions;
      for (int64_t position; line >> position;) positions.push_back(position);
    } else if (key == "q") {
      c.q = Whole(line);
    } else if (key == "k") {
      c.k = Whole(line);
    } else if (key == "tolerance") {
      line >> c.tolerance;
    } else if (key == "weight") {
      size_t axes = 0;
      line >> name >> axes;
      std::vector<int64_t> shape(axes);
      for (int64_t& extent : shape) line >> extent;
      c.weights[name] = MakeWeight(shape, Whole(line));
    } else if (key == "expect") {
      for (std::string number; line >> number;) {
        c.expect.push_back(number == "-" ? std::nullopt : std::optional<double>(std::stod(number)));
      }
    }
  }
  return all;
}

EncodingSpec TermOf(const ScoreCase& c) {
  if (c.term == "transformer_xl") {
    TransformerXlSpec s;
    s.w_r = c.weight("w_r");
    s.u = c.weight("u");
    s.v = c.weight("v");
    s.clamp_length = Optional(c, "clamp_length");
    return Canonical(s);
  }
  if (c.term == "xlnet") {
    XlnetSpec s;
    s.clamp_length = Optional(c, "clamp_length");
    s.unidirectional = c.option("unidirectional", 0) != 0;
    s.separate_cls = c.option("separate_cls", 0) != 0;
    s.w_r = c.weight("w_r");
    s.r_w_bias = c.weight("r_w_bias");
    s.r_r_bias = c.weight("r_r_bias");
    s.r_s_bias = c.weight("r_s_bias");
    s.seg_embed = c.weight("seg_embed");
    s.segments = c.weight("segments");
    return Canonical(s);
  }
  if (c.term == "conformer") {
    ConformerSpec s;
    s.num_heads = c.option("num_heads", 0);
    s.concatenated = c.option("concatenated", 0) != 0;
    s.base_inclusive = c.option("base_inclusive", 0) != 0;
    s.w_r = c.weight("w_r");
    s.u = c.weight("u");
    s.v = c.weight("v");
    return Canonical(s);
  }
  if (c.term == "deberta") {
    DebertaSpec s;
    s.position_buckets = std::max<int64_t>(0, c.option("position_buckets", 0));
    s.max_relative_positions = c.option("max_relative_positions", 0);
    s.c2p = c.option("c2p", 0) != 0;
    s.p2c = c.option("p2c", 0) != 0;
    s.key_positions = c.weight("key_positions");
    s.query_positions = c.weight("query_positions");
    return Canonical(s);
  }
  if (c.term == "shaw") {
    ShawSpec s;
    s.clip = c.option("clip", 0);
    s.query_term_too = c.option("query_term_too", 0) != 0;
    s.key_minus_query = c.option("key_minus_query", 0) != 0;
    s.keys = c.weight("keys");
    return Canonical(s);
  }
  if (c.term == "cope") {
    CopeSpec s;
    s.e = c.weight("e");
    return Canonical(s);
  }
  DecomposedSpec s;
  s.query_height = c.option("query_height", 0);
  s.query_width = c.option("query_width", 0);
  s.key_height = c.option("key_height", 0);
  s.key_width = c.option("key_width", 0);
  s.rel_pos_h = c.weight("rel_pos_h");
  s.rel_pos_w = c.weight("rel_pos_w");
  return Canonical(s);
}

ScoreSettings SettingsOf(const ScoreCase& c) {
  ScoreSettings s;
  s.shape = {c.batch, c.heads, c.queries, c.keys, c.dim};
  s.key_heads = c.key_heads;
  s.tensor_dtype = s.dtype = DType::kF64;
  for (int64_t i = 0; i < c.queries; ++i) s.query_positions.ids.push_back(c.keys - c.queries + i);
  for (int64_t j = 0; j < c.keys; ++j) s.key_positions.ids.push_back(j);
  if (!c.query_positions.empty()) s.query_positions.ids = c.query_positions, s.key_positions.ids = c.key_positions;
  if (c.term != "none") s.terms.push_back(TermOf(c));
  if (c.option("rope", 0) != 0) {
    RopeSpec rope;
    rope.head_dim = c.dim;
    s.rotation = Canonical(rope);
  }
  if (c.option("alibi", 0) != 0) {
    AlibiSpec alibi;
    alibi.num_heads = c.heads;
    s.biases.push_back(Canonical(alibi));
  }
  s.masking.causal = c.option("causal", 0) != 0;
  s.masking.window_before = Optional(c, "window_before");
  s.masking.window_after = Optional(c, "window_after");
  s.omit_content = c.option("omit_content", 0) != 0;
  s.softmax = c.option("softmax", 0) != 0;
  if (c.options.contains("scale")) s.scale = static_cast<double>(c.option("scale", 1));
  if (c.option("bias_then_scale", 0) != 0) s.scale_order = ScaleOrder::kBiasThenScale;
  return s;
}

std::vector<std::byte> BytesOf(const std::vector<double>& numbers, DType dtype) {
  std::vector<std::byte> bytes(numbers.size() * static_cast<size_t>(SizeOf(dtype)));
  VisitFloat(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (size_t i = 0; i < numbers.size(); ++i) {
      const T value = Narrow<T>(numbers[i]);
      std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
    }
  });
  return bytes;
}

std::vector<double> NumbersOf(const std::vector<std::byte>& bytes, DType dtype) {
  std::vector<double> numbers(bytes.size() / static_cast<size_t>(SizeOf(dtype)));
  VisitFloat(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (size_t i = 0; i < numbers.size(); ++i) {
      T value;
      std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
      numbers[i] = Widen<double>(value);
    }
  });
  return numbers;
}

absl::StatusOr<ScoreResult> RunScores(const Backend& backend, const ScoreSettings& settings, std::vector<std::byte> q,
                                      std::vector<std::byte> k) {
  const auto program = ScoreProgram::Make(settings);
  if (!program.ok()) return program.status();
  std::vector<EncodingSpec> specs;
  if (settings.rotation) specs.push_back(*settings.rotation);
  specs.insert(specs.end(), settings.terms.begin(), settings.terms.end());
  specs.insert(specs.end(), settings.biases.begin(), settings.biases.end());
  std::vector<Resolved> resolved;
  for (const EncodingSpec& spec : specs) {
    auto one = Resolve({spec, {}, {}}, std::nullopt, Precision::kExact);
    if (!one.ok()) return one.status();
    resolved.push_back(*std::move(one));
  }
  std::vector<const Resolved*> plans;
  for (const Resolved& one : resolved) plans.push_back(&one);

  const ScoreShape& shape = settings.shape;
  ScoreResult result;
  result.scores.resize(static_cast<size_t>(shape.rows() * shape.keys * SizeOf(settings.dtype)));
  if (program->has_values()) result.values.resize(static_cast<size_t>(shape.rows() * shape.dim * SizeOf(settings.dtype)));
  std::vector<double> scratch(static_cast<size_t>(program->scratch_bytes() / 8 + 8));
  ScoreMemory memory;
  memory.q = q.data();
  memory.k = k.data();
  memory.q_layout = {settings.tensor_dtype, nullptr, shape.queries * shape.heads * shape.dim, shape.heads * shape.dim,
                     shape.dim};
  memory.k_layout = {settings.tensor_dtype, nullptr, shape.keys * settings.key_heads * shape.dim,
                     settings.key_heads * shape.dim, shape.dim};
  const uintptr_t at = reinterpret_cast<uintptr_t>(scratch.data());
  memory.scratch = reinterpret_cast<std::byte*>((at + 63) / 64 * 64);
  memory.scores = result.scores.data();
  memory.values = result.values.data();
  const std::vector<ProgramStep> steps = program->Steps(plans, memory);
  if (auto status = RunProgram(backend, steps); !status.ok()) return status;
  return result;
}

}  // namespace phasor
