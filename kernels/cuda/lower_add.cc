#include <algorithm>

#include "kernels/cuda/lower.h"
#include "kernels/cuda/lower_parts.h"

namespace phasor::cuda {
namespace {

// Tokens and batch rows of a chunk: vectors first_row + j·row_step, j < rows.
struct Part {
  int64_t first_row = 0, row_step = 1, rows = 0;
};

// Whether one step leads from every row of (token, batch row) to the next.
bool IsOneRun(const AddTask& task, int64_t batch_stride, int64_t token_stride) {
  return task.batch == 1 || task.tokens == 1 || token_stride == task.batch * batch_stride;
}

// Whether no two rows overlap, but for tables that have one row for all.
bool AreApart(const AddTask& task) {
  const auto vectors = [&](int64_t batch_stride, int64_t token_stride) {
    return (task.batch <= 1 || batch_stride >= task.dim) && (task.tokens <= 1 || token_stride >= task.dim);
  };
  const auto table = [](const AddRows& rows, int64_t width) {
    return rows.data == nullptr || ((rows.batch_stride == 0 || rows.batch_stride >= width) &&
                                    (rows.token_stride == 0 || rows.token_stride >= width));
  };
  return vectors(task.x_batch_stride, task.x_token_stride) && vectors(task.y_batch_stride, task.y_token_stride) &&
         table(task.pe, task.dim) && table(task.other, task.dim) &&
         table(task.gate, task.gate_channel_stride == 0 ? 1 : task.dim);
}

class LoweredAdd final : public Lowered {
 public:
  // is_there: x and y are the device's.
  explicit LoweredAdd(const AddTask& task, bool is_there = false)
      : task_(task), size_(SizeOf(task.dtype)), is_there_(is_there) {
    const auto table = [&](const AddRows& rows) {
      return rows.data == nullptr || rows.batch_stride == 0 || rows.token_stride == 0 ||
             IsOneRun(task, rows.batch_stride, rows.token_stride);
    };
    const bool is_one_run = IsOneRun(task, task.x_batch_stride, task.x_token_stride) &&
                            IsOneRun(task, task.y_batch_stride, task.y_token_stride) && table(task.pe) &&
                            table(task.other) && table(task.gate);
    one_part_ = is_one_run && (!is_there || task.batch <= 1 || task.x_batch_stride == task.dim);
    if (is_there && !PartsAreRuns()) {
      gathers_ = true;
      one_part_ = is_one_run;
    }
    if (task.batch == 0 || task.tokens == 0) return;
    const int64_t batches = task.batch - 1;
    const auto ends = [&](const AddEnds& rows, int& index, int& data) {
      if (rows.data == nullptr) return;
      const int64_t stride = rows.index_batch_stride, count = (stride == 0 ? 0 : batches * stride) + task.tokens;
      int32_t last = -1;
      for (int64_t i = 0; i < count; ++i) last = std::max(last, rows.index[i]);
      index = constants_.Add(rows.index, count * static_cast<int64_t>(sizeof(int32_t)));
      if (last >= 0) data = constants_.Add(rows.data, (last + int64_t{1}) * task.dim * compute_size());
    };
    ends(task.first, first_index_, first_data_);
    ends(task.last, last_index_, last_data_);
    if (task.hidden != nullptr) hidden_ = constants_.Add(task.hidden, batches * task.hidden_batch_stride + task.tokens);
  }

  absl::Status CheckRows(RowRange rows) const override {
    return RowsWithin(rows, task_.batch * task_.tokens, "add: rows outside [0, batch·tokens)");
  }
  std::span<const Constant> constants() const override { return constants_.all(); }
  int64_t bytes_per_row() const override {
    const int64_t tables = (task_.pe.data != nullptr ? 1 : 0) + (task_.other.data != nullptr ? 1 : 0);
    const int64_t vectors = is_there_ ? (gathers_ ? size_ : 0) : 2 * size_;
    return std::max<int64_t>(1, task_.dim * (vectors + tables * compute_size()));
  }
  int64_t rows_per_cut() const override { return one_part_ ? 1 : std::max<int64_t>(1, task_.batch); }

  Transfers TransfersOf(RowRange rows) const override {
    Transfers moves;
    const bool in_place = task_.x == task_.y;
    for (const Part& part : PartsOf(rows)) {
      if (!is_there_) {
        if (in_place) moves.in_place.push_back(static_cast<int>(moves.inputs.size()));
        moves.inputs.push_back(VectorsOf(task_.x, task_.x_batch_stride, task_.x_token_stride, part));
        moves.outputs.push_back(VectorsOf(task_.y, task_.y_batch_stride, task_.y_token_stride, part));
      } else if (gathers_) {
        moves.outputs.push_back(ScratchOf(part.rows * task_.dim * size_));
      }
      for (const Table& table : TablesOf(part)) {
        if (table.rows->data != nullptr) moves.inputs.push_back(table.strip);
      }
    }
    return moves;
  }

  std::vector<KernelParams> Launches(RowRange rows, const Addresses& at) const override {
    std::vector<KernelParams> launches;
    size_t input = 0, output = 0;
    for (const Part& part : PartsOf(rows)) {
      AddParams p = Common(at);
      p.first_row = part.first_row, p.row_step = part.row_step, p.rows = part.rows;
      const Strip strip = VectorsOf(task_.y, task_.y_batch_stride, task_.y_token_stride, part);
      const Vectors there{strip.host, StepOf(part, task_.y_batch_stride, task_.y_token_stride), 0};
      if (gathers_) {
        p.x = p.y = at.outputs[output++];
        launches.emplace_back(
            CopyOf(task_.dtype, part.rows, 1, task_.dim, there, {static_cast<std::byte*>(p.y), task_.dim, 0}));
      } else if (is_there_) {
        p.x = p.y = there.data;
      } else {
        p.x = at.inputs[input++];
        p.y = at.outputs[output++];
      }
      AddTable* const to[] = {&p.pe, &p.other, &p.gate};
      size_t number = 0;
      for (const Table& table : TablesOf(part)) {
        AddTable& device = *to[number++];
        if (table.rows->data == nullptr) continue;
        device = table.device;
        device.data = at.inputs[input++];
      }
      launches.emplace_back(p);
      if (gathers_) {
        launches.emplace_back(
            CopyOf(task_.dtype, part.rows, 1, task_.dim, {static_cast<std::byte*>(p.y), task_.dim, 0}, there));
      }
    }
    return launches;
  }

 private:
  // Whether the vectors of each part lie as the kernel has them: side by side, from a multiple of 16 bytes on.
  bool PartsAreRuns() const {
    const AddTask& t = task_;
    if (t.batch == 0 || t.tokens == 0 || t.dim == 0) return true;
    const int64_t step = one_part_ && t.batch > 1 ? t.x_batch_stride : t.x_token_stride;
    const bool has_steps = one_part_ ? t.batch * t.tokens > 1 : t.tokens > 1;
    const bool aligned = t.dim * size_ % 16 == 0 && (t.batch == 1 || t.x_batch_stride * size_ % 16 == 0);
    return (!has_steps || step == t.dim) && aligned && reinterpret_cast<uintptr_t>(t.x) % 16 == 0;
  }

  // One of the task's tables for a part: what is moved, and where its rows then are.
  struct Table {
    const AddRows* rows;
    Strip strip;
    AddTable device;
  };

  int64_t compute_size() const { return task_.dtype == DType::kF64 ? 8 : 4; }

  // One part, or one for every batch row.
  std::vector<Part> PartsOf(RowRange rows) const {
    if (one_part_) return {{rows.begin, 1, rows.end - rows.begin}};
    std::vector<Part> parts;
    for (int64_t b = 0; b < task_.batch; ++b) {
      // Tokens t with rows.begin ≤ t·batch + b < rows.end.
      const int64_t begin = (rows.begin - b + task_.batch - 1) / task_.batch,
                    end = (rows.end - b + task_.batch - 1) / task_.batch;
      if (begin < end) parts.push_back({begin * task_.batch + b, task_.batch, end - begin});
    }
    return parts;
  }

  // From one vector of a part to the next.
  int64_t StepOf(const Part& part, int64_t batch_stride, int64_t token_stride) const {
    return part.row_step == 1 && task_.batch > 1 ? batch_stride : token_stride;
  }
  Strip VectorsOf(const void* from, int64_t batch_stride, int64_t token_stride, const Part& part) const {
    const int64_t b = part.first_row % task_.batch, t = part.first_row / task_.batch;
    return StripOf(static_cast<const std::byte*>(from) + (b * batch_stride + t * token_stride) * size_, task_.dim * size_,
                   part.rows, StepOf(part, batch_stride, token_stride) * size_);
  }

  std::vector<Table> TablesOf(const Part& part) const {
    return {TableOf(task_.pe, task_.dim, part), TableOf(task_.other, task_.dim, part),
            TableOf(task_.gate, task_.gate_channel_stride == 0 ? 1 : task_.dim, part)};
  }
  Table TableOf(const AddRows& rows, int64_t width, const Part& part) const {
    Table table{&rows, {}, {nullptr, width, 0, 0, 0}};
    if (rows.data == nullptr) return table;
    const int64_t last = part.first_row + (part.rows - 1) * part.row_step;
    const int64_t batch = task_.batch, first_token = part.first_row / batch, last_token = last / batch;
    const bool one_batch = part.row_step == batch;  // all rows are of one batch row
    const int64_t b = part.first_row % batch;
    const int64_t token_stride = task_.tokens == 1 ? 0 : rows.token_stride, batch_stride = one_batch ? 0 : rows.batch_stride;
    int64_t count = 1, pitch = 0, at = one_batch ? b * rows.batch_stride : 0;
    AddTable& device = table.device;
    if (token_stride != 0 && batch_stride != 0) {  // one run of all
      device.per_token = batch, device.per_batch = 1;
      device.first_row = part.first_row;
      count = part.rows, pitch = batch_stride;
    } else if (token_stride != 0) {
      device.per_token = 1;
      device.first_row = first_token;
      count = last_token - first_token + 1, pitch = token_stride;
    } else if (batch_stride != 0) {
      device.per_batch = 1;
      count = batch, pitch = batch_stride;
    }
    const int64_t size = compute_size();
    at += device.first_row * pitch;
    table.strip = StripOf(static_cast<const std::byte*>(rows.data) + at * size, width * size, count, pitch * size);
    return table;
  }

  AddParams Common(const Addresses& at) const {
    AddParams p;
    p.dtype = task_.dtype;
    p.batch = task_.batch;
    p.dim = task_.dim;
    p.scale = task_.scale;
    p.gate_channel_stride = task_.gate_channel_stride;
    p.first = {ConstantList::At<std::byte>(at, first_data_), ConstantList::At<int32_t>(at, first_index_),
               task_.first.index_batch_stride};
    p.last = {ConstantList::At<std::byte>(at, last_data_), ConstantList::At<int32_t>(at, last_index_),
              task_.last.index_batch_stride};
    p.hidden = ConstantList::At<uint8_t>(at, hidden_);
    p.hidden_batch_stride = task_.hidden_batch_stride;
    p.dropout = task_.dropout;
    p.first_element = task_.first_element;
    p.element_batch_stride = task_.element_batch_stride;
    p.element_token_stride = task_.element_token_stride;
    return p;
  }

  const AddTask& task_;
  const int64_t size_;
  const bool is_there_;
  ConstantList constants_;
  bool one_part_ = false;
  bool gathers_ = false;  // vectors of the device's that do not lie as the kernel has them: through memory where they do
  int first_index_ = -1, first_data_ = -1, last_index_ = -1, last_data_ = -1, hidden_ = -1;
};

absl::Status CheckAdd(const AddTask& task) {
  if (task.batch < 0 || task.tokens < 0 || task.dim < 0) {
    return absl::InvalidArgumentError("add: extents must be at least 0");
  }
  if (!IsFloat(task.dtype)) return absl::InvalidArgumentError("add: the element type must be a float");
  if (task.batch == 0 || task.tokens == 0 || task.dim == 0) return absl::OkStatus();
  if (task.x == nullptr || task.y == nullptr) return absl::InvalidArgumentError("add: x and y must not be null");
  if (task.other.data != nullptr && (task.pe.data == nullptr || task.gate.data == nullptr)) {
    return absl::InvalidArgumentError("add: a second encoding needs a first one and a gate");
  }
  if ((task.first.data != nullptr && task.first.index == nullptr) ||
      (task.last.data != nullptr && task.last.index == nullptr)) {
    return absl::InvalidArgumentError("add: ends need an index");
  }
  return absl::OkStatus();
}

}  // namespace

LoweredOr LowerTask(const AddTask& task) {
  if (absl::Status status = CheckAdd(task); !status.ok()) return status;
  const bool empty = task.batch == 0 || task.tokens == 0 || task.dim == 0;
  if (!empty && !AreApart(task)) return LeftToCpu("layout");
  return std::make_unique<LoweredAdd>(task);
}

LoweredOr LowerTaskInPlace(const AddTask& task) {
  if (absl::Status status = CheckAdd(task); !status.ok()) return status;
  const bool empty = task.batch == 0 || task.tokens == 0 || task.dim == 0;
  const bool same = task.x_batch_stride == task.y_batch_stride && task.x_token_stride == task.y_token_stride;
  if (!empty && (!same || !AreApart(task))) return absl::UnimplementedError("add: vectors that overlap");
  return std::make_unique<LoweredAdd>(task, true);
}

}  // namespace phasor::cuda
