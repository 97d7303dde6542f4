#include "client/cli/array_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "client/cli/npy.h"
#include "client/cli/zip.h"

namespace phasor::cli {
namespace {

using ::testing::HasSubstr;

class ArrayFileTest : public ::testing::Test {
 protected:
  ArrayFileTest() {
    std::string name = (std::filesystem::temp_directory_path() / "phasor-array-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~ArrayFileTest() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return (folder_ / name).string(); }

  static std::string Read(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    std::stringstream out;
    out << in.rdbuf();
    return out.str();
  }

  std::filesystem::path folder_;
};

std::vector<std::byte> RandomBytes(int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(static_cast<size_t>(count));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

// Writes arrays in turns of `step` bytes, reads them back and compares all of it.
void RoundTrip(const std::string& path, ArrayFormat format, const std::vector<ArrayInfo>& infos, int64_t step) {
  auto writer = ArrayWriter::Create(path, format, infos, {{"phasor.spec", "{\"a\": \"b\"}"}});
  ASSERT_TRUE(writer.ok()) << writer.status();
  std::vector<std::vector<std::byte>> data;
  for (size_t i = 0; i < infos.size(); ++i) data.push_back(RandomBytes(infos[i].bytes(), static_cast<unsigned>(i + 1)));
  bool more = true;
  for (int64_t at = 0; more; at += step) {
    more = false;
    for (size_t i = 0; i < infos.size(); ++i) {
      const int64_t left = infos[i].bytes() - at;
      if (left <= 0) continue;
      more = true;
      ASSERT_TRUE((*writer)->Append(i, data[i].data() + at, std::min(left, step)).ok());
    }
  }
  EXPECT_FALSE(std::filesystem::exists(path)) << "the file must not appear before it is complete";
  ASSERT_TRUE((*writer)->Finish().ok());
  auto arrays = ReadArrays(path, format);
  ASSERT_TRUE(arrays.ok()) << arrays.status();
  ASSERT_EQ(arrays->size(), infos.size());
  for (size_t i = 0; i < infos.size(); ++i) {
    if (format != ArrayFormat::kNpy) {
      EXPECT_EQ((*arrays)[i].info.name, infos[i].name);
    }
    EXPECT_EQ((*arrays)[i].info.dtype, infos[i].dtype);
    EXPECT_EQ((*arrays)[i].info.shape, infos[i].shape);
    EXPECT_EQ((*arrays)[i].data, data[i]);
  }
}

TEST_F(ArrayFileTest, RoundTripsEveryFormatAndType) {
  for (const int64_t step : {1, 7, 4096}) {
    for (const DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kI32, DType::kI64, DType::kBool}) {
      RoundTrip(Path("a.npy"), ArrayFormat::kNpy, {{"a", dtype, {3, 5}}}, step);
      std::filesystem::remove(Path("a.npy"));
      RoundTrip(Path("a.npz"), ArrayFormat::kNpz, {{"cos", dtype, {7, 3}}, {"sin", dtype, {7, 3}}, {"scalar", dtype, {}}},
                step);
      std::filesystem::remove(Path("a.npz"));
    }
    RoundTrip(Path("a.safetensors"), ArrayFormat::kSafetensors,
              {{"cos", DType::kBF16, {5, 2}}, {"empty", DType::kF32, {0, 4}}, {"x", DType::kF64, {1}}}, step);
    std::filesystem::remove(Path("a.safetensors"));
  }
}

TEST_F(ArrayFileTest, UnfinishedFileLeavesNothingBehind) {
  {
    auto writer = ArrayWriter::Create(Path("a.npy"), ArrayFormat::kNpy, {{"a", DType::kF32, {4}}}, {});
    ASSERT_TRUE(writer.ok());
    const float value = 1;
    ASSERT_TRUE((*writer)->Append(0, &value, 4).ok());
    EXPECT_FALSE((*writer)->Finish().ok()) << "three elements are missing";
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(ArrayFileTest, SaysWhatAFormatCannotHold) {
  EXPECT_THAT(CheckHolds(ArrayFormat::kNpy, {{"a", DType::kBF16, {1}}}).message(), HasSubstr("numpy has no bf16"));
  EXPECT_THAT(CheckHolds(ArrayFormat::kNpy, {{"a", DType::kF32, {1}}, {"b", DType::kF32, {1}}}).message(),
              HasSubstr("holds one array"));
  EXPECT_TRUE(CheckHolds(ArrayFormat::kSafetensors, {{"a", DType::kBF16, {1}}}).ok());
  EXPECT_THAT(FormatOf("x.bin", "").status().message(), HasSubstr(".safetensors"));
  EXPECT_THAT(FormatOf("-", "").status().message(), HasSubstr("--format"));
  EXPECT_EQ(*FormatOf("-", "npz"), ArrayFormat::kNpz);
}

TEST_F(ArrayFileTest, ReadsDeflatedMembers) {
  const ArrayInfo info{"a", DType::kF32, {1000}};
  const std::string member = *NpyHeader(info) + std::string(4000, '\x3f');
  std::string packed(member.size() + 64, '\0');
  z_stream stream{};
  ASSERT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(member.data()));
  stream.avail_in = static_cast<uInt>(member.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  ASSERT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  // A stored archive of the packed bytes, then its records say "deflated" and the sizes of both.
  ZipMember zip{.name = "a.npy", .header_offset = 0, .size = static_cast<int64_t>(packed.size())};
  zip.crc = static_cast<uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(member.data()), member.size()));
  const std::string head = ZipLocalHeader(zip);
  std::string directory = ZipDirectory({zip}, static_cast<int64_t>(head.size() + packed.size()));
  directory[10] = 8;
  // The 64-bit extra field behind the fixed part and the name: size, then packed size.
  const size_t extra = 46 + zip.name.size() + 4;
  for (size_t i = 0; i < 8; ++i) {
    directory[extra + i] = static_cast<char>(uint64_t{member.size()} >> (8 * i));
    directory[extra + 8 + i] = static_cast<char>(uint64_t{packed.size()} >> (8 * i));
  }
  const auto arrays = ParseArrays(head + packed + directory, ArrayFormat::kNpz);
  ASSERT_TRUE(arrays.ok()) << arrays.status();
  ASSERT_EQ(arrays->size(), 1u);
  EXPECT_EQ((*arrays)[0].info.shape, info.shape);
  EXPECT_EQ((*arrays)[0].data, std::vector<std::byte>(4000, std::byte{0x3f}));
}

TEST_F(ArrayFileTest, RefusesUnsoundNpy) {
  const auto parse = [](const std::string& header, int64_t data) {
    std::string bytes = "\x93NUMPY";
    bytes += {'\1', '\0', static_cast<char>(header.size()), '\0'};
    return ParseArrays(bytes + header + std::string(static_cast<size_t>(data), '\0'), ArrayFormat::kNpy).status();
  };
  EXPECT_TRUE(parse("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 8).ok());
  EXPECT_THAT(parse("{'descr': '<f4', 'fortran_order': True, 'shape': (2,), }", 8).message(), HasSubstr("Fortran"));
  EXPECT_THAT(parse("{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }", 8).message(), HasSubstr("element type"));
  EXPECT_THAT(parse("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", 8).message(), HasSubstr("holds 8 bytes"));
  EXPECT_THAT(parse("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }", 8).message(), HasSubstr("bad extent"));
  EXPECT_THAT(parse("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4), }", 8).message(),
              HasSubstr("holds 8 bytes"));
  EXPECT_THAT(parse("{'descr': '<f4'}", 8).message(), HasSubstr("lacks"));
  EXPECT_FALSE(ParseArrays("", ArrayFormat::kNpy).ok());
}

// Truncations and flipped bytes of sound files: an error or some arrays, never more memory than the file could hold.
TEST_F(ArrayFileTest, SurvivesDamagedFiles) {
  RoundTrip(Path("a.npz"), ArrayFormat::kNpz, {{"a", DType::kF32, {9, 2}}, {"b", DType::kI64, {3}}}, 64);
  RoundTrip(Path("a.safetensors"), ArrayFormat::kSafetensors, {{"a", DType::kBF16, {9, 2}}, {"b", DType::kI64, {3}}}, 64);
  std::mt19937 random(5);
  for (const auto& [name, format] :
       {std::pair{"a.npz", ArrayFormat::kNpz}, std::pair{"a.safetensors", ArrayFormat::kSafetensors}}) {
    const std::string sound = Read(Path(name));
    for (int round = 0; round < 4000; ++round) {
      std::string damaged = sound.substr(0, round % 3 == 0 ? random() % sound.size() : sound.size());
      for (unsigned flips = random() % 4; flips > 0 && !damaged.empty(); --flips)
        damaged[random() % damaged.size()] = static_cast<char>(random());
      const auto arrays = ParseArrays(damaged, format);
      if (!arrays.ok()) continue;
      for (const LoadedArray& array : *arrays) EXPECT_EQ(static_cast<int64_t>(array.data.size()), array.info.bytes());
    }
  }
}

}  // namespace
}  // namespace phasor::cli
