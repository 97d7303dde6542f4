#include "server/add_key.h"

#include <string_view>
#include <utility>
#include <vector>

#include "kernels/core/key_bytes.h"
#include "server/fingerprint.h"
#include "server/table_work.h"

namespace phasor::server {
namespace {

template <typename T>
std::string HashOf(const std::vector<T>& values) {
  return Sha256({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)});
}

}  // namespace

std::string KeyOfAdd(const v1::AddOperation& add, const AddWork& work) {
  KeyBytes key;
  key.Text("add");
  key.Int(add.backward());
  key.Int(work.tasks.front().element_token_stride);
  for (const AddTask& task : work.tasks) key.Double(task.scale);
  key.Int(add.has_dropout());
  if (add.has_dropout()) {
    key.Double(add.dropout().probability());
    key.Int(static_cast<int64_t>(add.dropout().seed()));
    key.Int(static_cast<int64_t>(add.dropout().offset()));
  }
  key.Int(add.zero_padding());
  if (add.zero_padding()) key.Text(HashOf(work.positions.hidden));
  if (!add.backward()) {
    key.Int(work.per_batch);
    key.Text(KeyOf(work.positions));
    for (const TableSource& source : work.sources) key.Text(LayoutOf(source.spec.spec));
    AppendContent(work.gate.weight, key);
    AppendContent(work.first.weight, key);
    AppendContent(work.last.weight, key);
    key.Text(HashOf(work.ends.first));
    key.Text(HashOf(work.ends.last));
  }
  return std::move(key).Take();
}

}  // namespace phasor::server
