#include "client/cli/card_pictures.h"

#include <cstring>
#include <memory>
#include <numbers>
#include <optional>
#include <utility>

#include "client/cli/wire_data.h"

namespace phasor::cli {
namespace {

using Kind = PictureNumbers::Kind;

constexpr int64_t kTableRows = 24;
constexpr int64_t kDistances = 64;
constexpr int64_t kPairwise = 24;  // queries of a bias by pairs
constexpr size_t kMostCurves = 4;

// An array of f64 out of an answer.
std::vector<double> Values(const v1::Tensor& tensor, const raw::Payloads& payloads) {
  std::string bytes;
  if (const auto pieces = payloads.Find(tensor.data())) {
    for (const raw::Piece& piece : *pieces) bytes.append(reinterpret_cast<const char*>(piece.data), piece.size);
  }
  std::vector<double> values(bytes.size() / sizeof(double));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(double));
  return values;
}

// Rows of `columns`; what comes before the last two axes is its first entry.
std::vector<std::vector<double>> Rows(const std::vector<double>& values, size_t rows, size_t columns) {
  std::vector<std::vector<double>> out;
  for (size_t row = 0; row < rows && (row + 1) * columns <= values.size(); ++row) {
    const auto* const begin = values.data() + row * columns;
    out.emplace_back(begin, begin + columns);
  }
  return out;
}

size_t Extent(const v1::Tensor& tensor, int axis) { return static_cast<size_t>(tensor.shape(axis)); }

bool HasListByPair(const v1::RopeSpec& rope) {
  return rope.has_longrope() || rope.has_freq_factors() || rope.has_inv_freq();
}

// A width at which something is to be seen.
void Enlarge(v1::EncodingSpec* spec) {
  if (spec->has_rope() && !HasListByPair(spec->rope())) spec->mutable_rope()->set_head_dim(128);
  if (spec->has_pope()) spec->mutable_pope()->set_head_dim(64);
  if (spec->has_sinusoidal()) spec->mutable_sinusoidal()->set_dim(48);
  if (spec->has_timestep()) spec->mutable_timestep()->set_dim(48);
  if (spec->has_sandwich()) spec->mutable_sandwich()->set_dim(128);
  if (spec->has_grid_sinusoidal()) spec->mutable_grid_sinusoidal()->set_dim(48);
}

// One item of f64, or nothing where the server refuses.
std::optional<client::Reply<v1::PrecomputeResponse>> Ask(client::Client& client, const v1::GetSchemeResponse& card,
                                                         v1::PrecomputeItem item) {
  v1::PrecomputeRequest request;
  *item.mutable_spec() = card.example();
  Enlarge(item.mutable_spec());
  item.set_dtype(v1::DTYPE_F64);
  if (card.example_sequence_length() > 0) item.set_sequence_length(card.example_sequence_length());
  raw::Payloads payloads;
  MoveData(*item.mutable_spec(), payloads);
  *request.add_items() = std::move(item);
  auto answer = client.Precompute(request, payloads);
  if (!answer.ok() || answer->message.results_size() != 1 || answer->message.results(0).status().code() != 0) {
    return std::nullopt;
  }
  return *std::move(answer);
}

v1::PrecomputeItem TableItem(int64_t first, int64_t count, int64_t stride) {
  v1::PrecomputeItem item;
  v1::PositionRange* range = item.mutable_table()->mutable_positions()->mutable_range();
  range->set_start(first);
  range->set_count(count);
  range->set_stride(stride);
  return item;
}

PictureNumbers Wavelengths(client::Client& client, const v1::GetSchemeResponse& card) {
  v1::PrecomputeItem item = TableItem(0, 1, 1);
  item.mutable_table()->set_include_inv_freq(true);
  if (card.example().has_pope()) item.mutable_table()->set_role(v1::TENSOR_ROLE_QUERY);
  const auto answer = Ask(client, card, std::move(item));
  if (!answer) return {};
  PictureNumbers picture{Kind::kWavelengths, {{}}, 0, "wavelength of every pair, positions"};
  for (const double inv_freq : Values(answer->message.results(0).inv_freq(), answer->payloads)) {
    picture.rows[0].push_back(2 * std::numbers::pi / inv_freq);  // infinite where a pair stands still
  }
  return picture;
}

PictureNumbers Table(client::Client& client, const v1::GetSchemeResponse& card) {
  // Steps of a diffusion run over a thousand; a logarithm needs more than 0; the small tables have few rows.
  const bool by_step = card.example().has_timestep(), small = card.example().has_learned();
  const int64_t rows = small ? 8 : card.example().has_grid_sinusoidal() ? 12 : kTableRows;
  const auto answer =
      Ask(client, card, TableItem(card.example().has_gaussian_fourier() ? 1 : 0, rows, by_step ? 1000 / kTableRows : 1));
  if (!answer) return {};
  const v1::PrecomputeResult& result = answer->message.results(0);
  const v1::Tensor& tensor = result.has_table() ? result.table() : result.cos();
  if (tensor.shape_size() < 2) return {};
  const size_t columns = Extent(tensor, tensor.shape_size() - 1);
  const std::vector<double> values = Values(tensor, answer->payloads);
  PictureNumbers picture{Kind::kHeatMap, {}, 0, "rows: positions; columns: channels"};
  if (tensor.shape_size() == 2) {
    picture.rows = Rows(values, Extent(tensor, 0), columns);
  } else {  // [positions, heads, pairs]: the first head
    const std::vector<std::vector<double>> all = Rows(values, Extent(tensor, 0) * Extent(tensor, 1), columns);
    for (size_t row = 0; row < all.size(); row += Extent(tensor, 1)) picture.rows.push_back(all[row]);
    picture.caption = "cosines of the first head: positions by pairs";
  }
  return picture;
}

// Queries and keys that the example of a bias can have.
int64_t BiasSize(const v1::EncodingSpec& spec) {
  if (spec.has_fire()) return kPairwise;
  if (spec.has_window_bias() || spec.has_continuous_window_bias() || spec.has_forgetting_bias() || spec.has_tupe()) return 6;
  return kDistances;
}

PictureNumbers Bias(client::Client& client, const v1::GetSchemeResponse& card) {
  const int64_t size = BiasSize(card.example());
  v1::PrecomputeItem item;
  item.mutable_bias()->set_queries(size);
  item.mutable_bias()->set_keys(size);
  const auto answer = Ask(client, card, std::move(item));
  if (!answer) return {};
  const v1::Tensor& tensor = answer->message.results(0).bias();
  const std::vector<double> values = Values(tensor, answer->payloads);
  if (tensor.shape_size() == 2) {
    PictureNumbers picture{Kind::kCurves, Rows(values, Extent(tensor, 0), Extent(tensor, 1)), 1 - static_cast<double>(size),
                           "bias by key − query, a curve a head"};
    if (picture.rows.size() > kMostCurves) picture.rows.resize(kMostCurves);
    return picture;
  }
  if (tensor.shape_size() < 3) return {};
  return {Kind::kHeatMap, Rows(values, Extent(tensor, tensor.shape_size() - 2), Extent(tensor, tensor.shape_size() - 1)), 0,
          "bias of the first head: queries by keys"};
}

// [1, 6, 2, 4], which is what the examples of terms are made for.
void SetVectors(int64_t step, v1::Tensor* tensor, raw::Payloads& payloads) {
  constexpr size_t kElements = 48;
  tensor->set_dtype(v1::DTYPE_F64);
  for (const int64_t extent : {1, 6, 2, 4}) tensor->add_shape(extent);
  const auto values = std::make_shared<std::vector<double>>();
  for (size_t i = 0; i < kElements; ++i) {
    values->push_back(static_cast<double>(static_cast<int64_t>(i) * step % 17 - 8) / 8);
  }
  const raw::Piece piece{values, reinterpret_cast<const std::byte*>(values->data()), values->size() * sizeof(double)};
  tensor->set_data(payloads.Add({&piece, 1}));
}

PictureNumbers Term(client::Client& client, const v1::GetSchemeResponse& card) {
  v1::ScoresRequest request;
  v1::ScoresItem* item = request.add_items();
  *item->add_terms() = card.example();
  item->set_omit_content(true);
  raw::Payloads payloads;
  MoveData(*item->mutable_terms(0), payloads);
  SetVectors(3, item->mutable_q(), payloads);
  SetVectors(5, item->mutable_k(), payloads);
  const auto answer = client.Scores(request, payloads);
  if (!answer.ok() || answer->message.results_size() != 1 || answer->message.results(0).status().code() != 0) return {};
  const v1::Tensor& tensor = answer->message.results(0).scores();
  if (tensor.shape_size() != 4) return {};
  return {Kind::kHeatMap, Rows(Values(tensor, answer->payloads), Extent(tensor, 2), Extent(tensor, 3)), 0,
          "the term alone, first head, made-up q and k: queries by keys"};
}

}  // namespace

PictureNumbers PictureOf(client::Client& client, const v1::GetSchemeResponse& card) {
  const std::string& family = card.scheme().family();
  if (family == "bias") return Bias(client, card);
  if (family == "term") return Term(client, card);
  if (card.example().has_rope() || card.example().has_pope()) return Wavelengths(client, card);
  return Table(client, card);
}

std::string PlotOf(client::Client& client, const v1::GetSchemeResponse& card) {
  v1::PlotRequest request;
  *request.mutable_subject()->mutable_spec() = card.example();
  Enlarge(request.mutable_subject()->mutable_spec());
  if (card.example_sequence_length() > 0) request.set_sequence_length(card.example_sequence_length());
  const bool rotary = card.example().has_rope() || card.example().has_pope();
  request.set_kind(card.scheme().family() == "bias" ? v1::PLOT_KIND_BIAS
                   : rotary                         ? v1::PLOT_KIND_WAVELENGTHS
                                                    : v1::PLOT_KIND_TABLE);
  const auto answer = client.Plot(request);
  if (!answer.ok() || answer->media_type() != "image/svg+xml") return "";
  // A page takes the element, not the file's declaration before it.
  const std::string& file = answer->image();
  const size_t begin = file.find("<svg");
  return begin == std::string::npos ? "" : file.substr(begin);
}

}  // namespace phasor::cli
