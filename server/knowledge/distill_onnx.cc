// The function as an ONNX model, written by hand: a dozen messages of protobuf's wire format.
#include <bit>
#include <cstdint>
#include <numbers>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"

#include "server/knowledge/distill_files.h"

namespace phasor::server {
namespace {

// Numbers of onnx.proto: fields, and the types of tensors.
enum ModelField : int { kIrVersion = 1, kProducerName = 2, kGraph = 7, kOpsetImport = 8, kMetadataProps = 14 };
enum GraphField : int { kNode = 1, kGraphName = 2, kInitializer = 5, kInput = 11, kOutput = 12 };
enum NodeField : int { kNodeInput = 1, kNodeOutput = 2, kNodeName = 3, kOpType = 4 };
enum TensorField : int { kDims = 1, kDataType = 2, kTensorName = 8, kRawData = 9 };
constexpr uint64_t kInt64Type = 7, kDoubleType = 11;
constexpr uint64_t kIrVersion8 = 8, kOpset13 = 13;

// A message in the making. Every field of these messages is a number or has a length.
class WireMessage {
 public:
  WireMessage& Number(int field, uint64_t value) {
    Varint(static_cast<uint64_t>(field) << 3);
    Varint(value);
    return *this;
  }
  WireMessage& Bytes(int field, std::string_view bytes) {
    Varint(static_cast<uint64_t>(field) << 3 | 2);
    Varint(bytes.size());
    bytes_.append(bytes);
    return *this;
  }
  WireMessage& Message(int field, const WireMessage& message) { return Bytes(field, message.bytes_); }
  std::string Take() && { return std::move(bytes_); }

 private:
  void Varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<char>(value | 0x80));
    bytes_.push_back(static_cast<char>(value));
  }

  std::string bytes_;
};

std::string LittleEndian(const std::vector<uint64_t>& words) {
  std::string bytes;
  bytes.reserve(8 * words.size());
  for (const uint64_t word : words) {
    for (int shift = 0; shift < 64; shift += 8) bytes.push_back(static_cast<char>(word >> shift & 0xff));
  }
  return bytes;
}

class Graph {
 public:
  void Add(const std::string& name, const std::vector<int64_t>& shape, const std::vector<double>& values) {
    std::vector<uint64_t> words;
    words.reserve(values.size());
    for (const double value : values) words.push_back(std::bit_cast<uint64_t>(value));
    AddTensor(name, shape, kDoubleType, words);
  }
  void AddTensor(const std::string& name, const std::vector<int64_t>& shape, uint64_t type,
                 const std::vector<uint64_t>& words) {
    WireMessage tensor;
    for (const int64_t extent : shape) tensor.Number(kDims, static_cast<uint64_t>(extent));
    graph_.Message(kInitializer,
                   tensor.Number(kDataType, type).Bytes(kTensorName, name).Bytes(kRawData, LittleEndian(words)));
  }
  // One operation; its result has the name `output`, which is given back.
  std::string Node(std::string_view op, const std::vector<std::string>& inputs, const std::string& output) {
    WireMessage node;
    for (const std::string& input : inputs) node.Bytes(kNodeInput, input);
    graph_.Message(kNode, node.Bytes(kNodeOutput, output).Bytes(kNodeName, output).Bytes(kOpType, op));
    return output;
  }
  // float64 [n] or [n, columns].
  void Value(int field, std::string_view name, int64_t columns) {
    WireMessage shape;
    shape.Message(1, WireMessage().Bytes(2, "n"));
    if (columns > 0) shape.Message(1, WireMessage().Number(1, static_cast<uint64_t>(columns)));
    const WireMessage tensor = WireMessage().Number(1, kDoubleType).Message(2, shape);
    graph_.Message(field, WireMessage().Bytes(1, name).Message(2, WireMessage().Message(1, tensor)));
  }
  WireMessage& message() { return graph_; }

 private:
  WireMessage graph_;
};

std::vector<double> Turned(const Weight& weight) {
  const int64_t rows = weight.shape[0], columns = weight.shape[1];
  std::vector<double> turned(static_cast<size_t>(rows * columns));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) turned[c * rows + r] = weight.at(r * columns + c);
  }
  return turned;
}

// [n, inputs of the first layer]
std::string AddInputs(const DistilledSpec& spec, Graph* graph) {
  graph->AddTensor("axis", {1}, kInt64Type, {1});
  graph->Add("first_position", {}, {static_cast<double>(spec.first_position.value_or(0))});
  const std::string column = graph->Node("Unsqueeze", {"positions", "axis"}, "column");
  const std::string shifted = graph->Node("Sub", {column, "first_position"}, "shifted");
  if (spec.cosine_terms > 0) {
    std::vector<double> frequencies;
    for (int64_t k = 0; k < spec.cosine_terms; ++k) {
      frequencies.push_back(std::numbers::pi * static_cast<double>(k) / static_cast<double>(spec.num_positions));
    }
    graph->Add("half", {}, {0.5});
    graph->Add("frequencies", {1, spec.cosine_terms}, frequencies);
    const std::string centre = graph->Node("Add", {shifted, "half"}, "centre");
    return graph->Node("Cos", {graph->Node("MatMul", {centre, "frequencies"}, "angles")}, "cosines");
  }
  graph->Add("last", {}, {static_cast<double>(spec.num_positions - 1)});
  graph->Add("two", {}, {2.0});
  graph->Add("one", {}, {1.0});
  const std::string share = graph->Node("Div", {shifted, "last"}, "share");
  return graph->Node("Sub", {graph->Node("Mul", {share, "two"}, "doubled"), "one"}, "x");
}

void AddLayers(const DistilledSpec& spec, std::string x, Graph* graph) {
  for (size_t i = 0; i < spec.w.size() && spec.w[i]; ++i) {
    const std::string n = absl::StrCat(i + 1);
    const bool last = i + 1 == spec.w.size() || !spec.w[i + 1];
    const Weight& weight = *spec.w[i];
    graph->Add("w" + n, {weight.shape[1], weight.shape[0]}, Turned(weight));
    graph->Add("b" + n, spec.b[i]->shape, spec.b[i]->values());
    const std::string product = graph->Node("MatMul", {x, "w" + n}, "product" + n);
    const std::string sum = graph->Node("Add", {product, "b" + n}, last ? "rows" : "sum" + n);
    if (!last) x = graph->Node("Mul", {sum, graph->Node("Sigmoid", {sum}, "gate" + n)}, "silu" + n);
  }
}

}  // namespace

std::string OnnxOf(const Side& side, const Distilled& distilled) {
  const DistilledSpec& spec = distilled.spec;
  Graph graph;
  graph.message().Bytes(kGraphName, "distilled");
  AddLayers(spec, AddInputs(spec, &graph), &graph);
  graph.Value(kInput, "positions", 0);
  graph.Value(kOutput, "rows", spec.w[distilled.form == DistillForm::kCosineSeries ? 0 : 2]->shape[0]);
  WireMessage model;
  model.Number(kIrVersion, kIrVersion8).Bytes(kProducerName, "phasor").Message(kGraph, graph.message());
  model.Message(kOpsetImport, WireMessage().Bytes(1, "").Number(2, kOpset13));
  for (const auto& [name, value] : DescriptionOf(side, distilled)) {
    model.Message(kMetadataProps, WireMessage().Bytes(1, name).Bytes(2, value));
  }
  return std::move(model).Take();
}

}  // namespace phasor::server
