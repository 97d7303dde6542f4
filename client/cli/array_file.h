// Arrays in files: .npy, .npz and .safetensors. Written front to back with sizes known beforehand, so that a table of any
// length passes through a few megabytes of memory; read whole.
#ifndef PHASOR_CLIENT_CLI_ARRAY_FILE_H_
#define PHASOR_CLIENT_CLI_ARRAY_FILE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "kernels/core/dtype.h"

namespace phasor::cli {

enum class ArrayFormat { kNpy, kNpz, kSafetensors };

// One array of a file.
struct ArrayInfo {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;

  int64_t bytes() const;
};

// By extension of `path`, or by `format` ("npy", "npz", "safetensors") when that is not empty. "-" needs `format`.
absl::StatusOr<ArrayFormat> FormatOf(std::string_view path, std::string_view format);

// INVALID_ARGUMENT when the format cannot hold these arrays: .npy holds one array, numpy has no bf16.
absl::Status CheckHolds(ArrayFormat format, const std::vector<ArrayInfo>& arrays);

// Writes a file array by array, each front to back; arrays may be filled in turns. A regular file appears under its name,
// whole, only when Finish succeeds, and nothing is left behind when the process ends before; a link is followed, an old
// file's mode is kept, and a device or pipe is written to at Finish. "-" is standard output. Metadata goes where the format
// has a place for it: `__metadata__` of safetensors, the array phasor_metadata (one byte string, JSON) of an .npz, nowhere
// in an .npy.
class ArrayWriter {
 public:
  using Metadata = std::map<std::string, std::string>;

  static absl::StatusOr<std::unique_ptr<ArrayWriter>> Create(const std::string& path, ArrayFormat format,
                                                             std::vector<ArrayInfo> arrays, const Metadata& metadata);
  ~ArrayWriter();  // without Finish: the file is removed

  // The next `size` bytes of array `index`, little-endian and row-major.
  absl::Status Append(size_t index, const void* data, int64_t size);
  // All arrays must be complete.
  absl::Status Finish();

 private:
  struct Member;
  ArrayWriter() = default;
  absl::Status WriteAt(int64_t offset, const void* data, int64_t size);
  absl::Status LayOut(ArrayFormat format, const Metadata& metadata);
  absl::Status FinishZip();
  absl::Status Open();
  absl::Status Publish();
  absl::Status CopyTo(int fd, const std::string& name);

  std::string path_;       // as given, for messages
  std::string target_;     // what a rename replaces; empty: the content is copied to path_ at the end
  std::string temporary_;  // a name to remove, where an unnamed file cannot be had
  int fd_ = -1;
  std::vector<ArrayInfo> arrays_;
  std::vector<Member> members_;
  ArrayFormat format_ = ArrayFormat::kNpy;
  int64_t end_ = 0;
};

// An array in memory.
struct LoadedArray {
  ArrayInfo info;
  std::vector<std::byte> data;
};

// Every array of a file ("-": standard input). Big-endian and Fortran-ordered arrays, object arrays and sizes that disagree
// with the file are refused with what was found and what is allowed. The file's own sizes never cause an allocation beyond
// its length.
absl::StatusOr<std::vector<LoadedArray>> ReadArrays(const std::string& path, ArrayFormat format);

// For tests and fuzzing: the same from memory.
absl::StatusOr<std::vector<LoadedArray>> ParseArrays(std::string_view bytes, ArrayFormat format);

// The whole of a file, "-" being standard input. NOT_FOUND or INVALID_ARGUMENT with the path; at most `limit` bytes.
absl::StatusOr<std::string> ReadWhole(const std::string& path, int64_t limit);

}  // namespace phasor::cli

#endif  // PHASOR_CLIENT_CLI_ARRAY_FILE_H_
