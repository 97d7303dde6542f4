#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <variant>

#include "kernels/cuda/lowering.h"

namespace phasor::cuda {
namespace {

class LoweredGroup final : public Lowered {
 public:
  LoweredGroup(std::vector<std::unique_ptr<Lowered>> parts, std::vector<int64_t> rows)
      : parts_(std::move(parts)), rows_(std::move(rows)) {
    int64_t bytes = 0;
    std::map<std::pair<uint64_t, const void*>, size_t> known;
    for (size_t i = 0; i < parts_.size(); ++i) {
      bytes += parts_[i]->bytes_per_row() * rows_[i];
      std::vector<size_t>& places = places_.emplace_back();
      for (const Constant& constant : parts_[i]->constants()) {
        // A named one once, whoever reads it.
        if (constant.id != 0) {
          const auto [found, is_new] = known.try_emplace({constant.id, constant.host}, constants_.size());
          places.push_back(found->second);
          if (!is_new) continue;
        } else {
          places.push_back(constants_.size());
        }
        constants_.push_back(constant);
      }
    }
    bytes_per_row_ = std::max<int64_t>(1, bytes / static_cast<int64_t>(std::max<size_t>(parts_.size(), 1)));
  }

  std::span<const Constant> constants() const override { return constants_; }
  int64_t bytes_per_row() const override { return bytes_per_row_; }

  Transfers TransfersOf(RowRange rows) const override {
    Transfers all;
    for (int64_t i = rows.begin; i < rows.end; ++i) {
      const Transfers part = parts_[static_cast<size_t>(i)]->TransfersOf({0, rows_[static_cast<size_t>(i)]});
      const auto first_input = static_cast<int>(all.inputs.size());
      all.inputs.insert(all.inputs.end(), part.inputs.begin(), part.inputs.end());
      for (size_t o = 0; o < part.outputs.size(); ++o) {
        all.outputs.push_back(part.outputs[o]);
        const int place = o < part.in_place.size() ? part.in_place[o] : -1;
        all.in_place.push_back(place < 0 ? -1 : first_input + place);
      }
    }
    return all;
  }

  std::vector<KernelParams> Launches(RowRange rows, const Addresses& at) const override {
    std::vector<KernelParams> launches;
    std::map<DType, std::vector<RotateParams>> rotations;
    size_t input = 0, output = 0;
    for (int64_t i = rows.begin; i < rows.end; ++i) {
      const auto part = static_cast<size_t>(i);
      const RowRange all{0, rows_[part]};
      const Transfers moves = parts_[part]->TransfersOf(all);
      std::vector<std::byte*> constants;
      for (const size_t place : places_[part]) constants.push_back(at.constants[place]);
      const Addresses own{constants, at.inputs.subspan(input, moves.inputs.size()),
                          at.outputs.subspan(output, moves.outputs.size())};
      input += moves.inputs.size();
      output += moves.outputs.size();
      for (KernelParams& params : parts_[part]->Launches(all, own)) {
        if (const auto* rotation = std::get_if<RotateParams>(&params)) {
          if (rotation->works() > 0) rotations[rotation->dtype].push_back(*rotation);
        } else {
          launches.push_back(std::move(params));
        }
      }
    }
    for (const auto& [dtype, tasks] : rotations) {
      for (KernelParams& group : GroupsOf(tasks)) launches.push_back(std::move(group));
    }
    return launches;
  }

 private:
  const std::vector<std::unique_ptr<Lowered>> parts_;
  const std::vector<int64_t> rows_;
  std::vector<Constant> constants_;
  std::vector<std::vector<size_t>> places_;  // per part: its constants among those
  int64_t bytes_per_row_ = 1;
};

}  // namespace

std::vector<KernelParams> GroupsOf(const std::vector<RotateParams>& rotations) {
  std::vector<KernelParams> groups;
  for (auto first = rotations.begin(); first != rotations.end();) {
    int64_t works = first->works();
    auto end = first + 1;
    while (end != rotations.end() && end - first < kMaxRotateGroup && works <= kMaxGroupWorks - end->works()) {
      works += end->works();
      ++end;
    }
    if (works > kMaxGroupWorks) {
      groups.emplace_back(*first);
    } else {
      groups.emplace_back(RotateGroupParams{std::make_shared<const std::vector<RotateParams>>(first, end)});
    }
    first = end;
  }
  return groups;
}

std::unique_ptr<Lowered> LowerGroup(std::vector<std::unique_ptr<Lowered>> parts, std::vector<int64_t> rows) {
  return std::make_unique<LoweredGroup>(std::move(parts), std::move(rows));
}

}  // namespace phasor::cuda
