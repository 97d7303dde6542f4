// Runs a fuzz target without a fuzzing engine, so that every compiler and every test run tries it:
//
//   NAME_fuzzer [--mutations=N] FILE_OR_FOLDER...
//
// Each file goes in as it is and then N times damaged (bits flipped, bytes cut, repeated, spliced from another file). The
// damage comes from a fixed seed: two runs do the same. An input that crashes is named by the last line printed before.

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Bytes = std::vector<uint8_t>;

constexpr std::string_view kMutationsFlag = "--mutations=";

std::vector<std::filesystem::path> FilesUnder(const std::filesystem::path& root) {
  if (std::filesystem::is_regular_file(root)) return {root};
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

Bytes ReadFile(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
}

void DamageOnce(std::mt19937_64& random, const Bytes& other, Bytes& data) {
  const size_t at = data.empty() ? 0 : random() % data.size();
  const size_t length = std::min<size_t>(random() % 16 + 1, data.size() - at);
  const auto first = data.begin() + static_cast<std::ptrdiff_t>(at);
  const auto last = first + static_cast<std::ptrdiff_t>(length);
  switch (random() % 5) {
    case 0:
      if (!data.empty()) data[at] ^= static_cast<uint8_t>(1u << (random() % 8));
      break;
    case 1:
      if (!data.empty()) data[at] = static_cast<uint8_t>(random());
      break;
    case 2:
      data.erase(first, last);
      break;
    case 3: {
      const Bytes piece(first, last);
      data.insert(first, piece.begin(), piece.end());
      break;
    }
    default: {
      const size_t cut = other.empty() ? 0 : random() % other.size();
      data.resize(at);
      data.insert(data.end(), other.begin() + static_cast<std::ptrdiff_t>(cut), other.end());
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t mutations = 0;
  std::vector<Bytes> inputs;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.starts_with(kMutationsFlag)) {
      const std::string_view number = argument.substr(kMutationsFlag.size());
      if (std::from_chars(number.data(), number.data() + number.size(), mutations).ec != std::errc()) return 2;
      continue;
    }
    for (const auto& path : FilesUnder(argument)) inputs.push_back(ReadFile(path));
  }
  if (inputs.empty()) {
    std::fprintf(stderr, "usage: %s [--mutations=N] FILE_OR_FOLDER...   (no input file found)\n", argv[0]);
    return 2;
  }
  std::mt19937_64 random(20240229);
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::printf("input %zu of %zu, %zu bytes\n", i + 1, inputs.size(), inputs[i].size());
    std::fflush(stdout);
    LLVMFuzzerTestOneInput(inputs[i].data(), inputs[i].size());
    for (uint64_t mutation = 0; mutation < mutations; ++mutation) {
      Bytes data = inputs[i];
      const uint64_t steps = random() % 4 + 1;
      for (uint64_t step = 0; step < steps; ++step) DamageOnce(random, inputs[random() % inputs.size()], data);
      LLVMFuzzerTestOneInput(data.data(), data.size());
    }
  }
  std::printf("%zu inputs, %zu runs\n", inputs.size(), inputs.size() * static_cast<size_t>(mutations + 1));
  return 0;
}
