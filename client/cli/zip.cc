#include "client/cli/zip.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "client/cli/text.h"

namespace phasor::cli {
namespace {

constexpr uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50, kEnd64 = 0x06064b50,
                   kLocator64 = 0x07064b50;
constexpr uint16_t kVersion64 = 45, kStored = 0, kDeflated = 8, kExtra64 = 1;
constexpr uint16_t kDate = 0x21;  // 1980-01-01: the same arrays give the same file

void Put(std::string& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

uint64_t Get(std::string_view bytes, size_t offset, int count) {
  uint64_t value = 0;
  for (int i = 0; i < count; ++i) value |= uint64_t{static_cast<unsigned char>(bytes[offset + i])} << (8 * i);
  return value;
}

bool Inside(std::string_view bytes, uint64_t offset, uint64_t size) {
  return offset <= bytes.size() && size <= bytes.size() - offset;
}

absl::Status NotZip(absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("not a sound .npz archive: ", why));
}

// What the central directory says of a member.
struct Entry {
  std::string_view name;
  uint16_t method = 0;
  uint64_t packed = 0, size = 0, header = 0;
  uint32_t crc = 0;
};

// Replaces the fields that the fixed part marks as too large for 32 bits.
bool ReadExtra64(std::string_view extra, Entry& entry) {
  const uint64_t kMark = 0xffffffff;
  while (extra.size() >= 4) {
    const uint64_t id = Get(extra, 0, 2), length = Get(extra, 2, 2);
    if (extra.size() - 4 < length) return false;
    if (id == kExtra64) {
      std::string_view body = extra.substr(4, length);
      for (uint64_t* field : {&entry.size, &entry.packed, &entry.header}) {
        if (*field != kMark) continue;
        if (body.size() < 8) return false;
        *field = Get(body, 0, 8);
        body.remove_prefix(8);
      }
    }
    extra.remove_prefix(4 + length);
  }
  return true;
}

absl::StatusOr<std::string> Inflate(std::string_view packed, const Entry& entry) {
  std::string out(entry.size, '\0');
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) return absl::InternalError("zlib does not start");
  size_t in = 0, written = 0;
  int code = Z_OK;
  constexpr size_t kPiece = size_t{1} << 30;  // zlib counts in 32 bits
  while (code == Z_OK) {
    const size_t give = std::min(kPiece, packed.size() - in), room = std::min(kPiece, out.size() - written);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data() + in));
    stream.avail_in = static_cast<uInt>(give);
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + written);
    stream.avail_out = static_cast<uInt>(room);
    code = inflate(&stream, Z_NO_FLUSH);
    const size_t used = give - stream.avail_in, made = room - stream.avail_out;
    in += used;
    written += made;
    if (code == Z_OK && used == 0 && made == 0) code = Z_BUF_ERROR;
  }
  inflateEnd(&stream);
  if (code != Z_STREAM_END || written != out.size())
    return NotZip(absl::StrCat("member '", View(entry.name), "' does not inflate to its size"));
  return out;
}

absl::StatusOr<std::string> ReadMember(std::string_view bytes, const Entry& entry, int64_t limit) {
  if (!Inside(bytes, entry.header, 30) || Get(bytes, entry.header, 4) != kLocal) return NotZip("a member has no header");
  const uint64_t start = entry.header + 30 + Get(bytes, entry.header + 26, 2) + Get(bytes, entry.header + 28, 2);
  if (!Inside(bytes, start, entry.packed)) return NotZip(absl::StrCat("member '", View(entry.name), "' runs past the end"));
  if (entry.size > static_cast<uint64_t>(limit)) {
    return absl::InvalidArgumentError(
        absl::StrCat("member '", View(entry.name), "' has ", entry.size, " bytes; allowed: up to ", limit));
  }
  const std::string_view packed = bytes.substr(start, entry.packed);
  std::string data;
  if (entry.method == kStored) {
    if (entry.packed != entry.size) return NotZip(absl::StrCat("member '", View(entry.name), "' has two sizes"));
    data.assign(packed);
  } else if (entry.method == kDeflated) {
    // Deflate cannot shrink below about 1/1032: a larger claim is a lie, and costs no allocation.
    if (entry.size / 1040 > entry.packed)
      return NotZip(absl::StrCat("member '", View(entry.name), "' claims an impossible size"));
    absl::StatusOr<std::string> inflated = Inflate(packed, entry);
    if (!inflated.ok()) return inflated.status();
    data = *std::move(inflated);
  } else {
    return NotZip(absl::StrCat("member '", View(entry.name), "' is compressed by method ", entry.method,
                               "; allowed: stored (0), deflate (8)"));
  }
  if (crc32_z(0, reinterpret_cast<const Bytef*>(data.data()), data.size()) != entry.crc) {
    return NotZip(absl::StrCat("member '", View(entry.name), "' does not match its checksum"));
  }
  return data;
}

// Where the central directory is: {offset, entries}.
absl::StatusOr<std::pair<uint64_t, uint64_t>> FindDirectory(std::string_view bytes) {
  if (bytes.size() < 22) return NotZip("too short");
  const size_t lowest = bytes.size() - std::min<size_t>(bytes.size(), 22 + 65535);
  for (size_t at = bytes.size() - 22 + 1; at-- > lowest;) {
    if (Get(bytes, at, 4) != kEnd) continue;
    uint64_t entries = Get(bytes, at + 10, 2), offset = Get(bytes, at + 16, 4);
    if (at >= 20 && Get(bytes, at - 20, 4) == kLocator64) {
      const uint64_t end64 = Get(bytes, at - 20 + 8, 8);
      if (!Inside(bytes, end64, 56) || Get(bytes, end64, 4) != kEnd64) return NotZip("the 64-bit end record is missing");
      entries = Get(bytes, end64 + 32, 8);
      offset = Get(bytes, end64 + 48, 8);
    }
    return std::pair{offset, entries};
  }
  return NotZip("there is no end record");
}

}  // namespace

std::string ZipLocalHeader(const ZipMember& member) {
  std::string out;
  Put(out, kLocal, 4);
  Put(out, kVersion64, 2);
  Put(out, 0, 2);
  Put(out, kStored, 2);
  Put(out, 0, 2);
  Put(out, kDate, 2);
  Put(out, member.crc, 4);
  Put(out, 0xffffffff, 4);
  Put(out, 0xffffffff, 4);
  Put(out, member.name.size(), 2);
  Put(out, 20, 2);
  out += member.name;
  Put(out, kExtra64, 2);
  Put(out, 16, 2);
  Put(out, member.size, 8);
  Put(out, member.size, 8);
  return out;
}

std::string ZipDirectory(const std::vector<ZipMember>& members, int64_t directory_offset) {
  std::string out;
  for (const ZipMember& member : members) {
    Put(out, kCentral, 4);
    Put(out, kVersion64, 2);
    Put(out, kVersion64, 2);
    Put(out, 0, 2);
    Put(out, kStored, 2);
    Put(out, 0, 2);
    Put(out, kDate, 2);
    Put(out, member.crc, 4);
    Put(out, 0xffffffff, 4);
    Put(out, 0xffffffff, 4);
    Put(out, member.name.size(), 2);
    Put(out, 28, 2);
    Put(out, 0, 2);  // comment
    Put(out, 0, 2);  // disk
    Put(out, 0, 2);  // internal attributes
    Put(out, 0, 4);  // external attributes
    Put(out, 0xffffffff, 4);
    out += member.name;
    Put(out, kExtra64, 2);
    Put(out, 24, 2);
    Put(out, member.size, 8);
    Put(out, member.size, 8);
    Put(out, member.header_offset, 8);
  }
  const uint64_t size = out.size();
  Put(out, kEnd64, 4);
  Put(out, 44, 8);
  Put(out, kVersion64, 2);
  Put(out, kVersion64, 2);
  Put(out, 0, 4);
  Put(out, 0, 4);
  Put(out, members.size(), 8);
  Put(out, members.size(), 8);
  Put(out, size, 8);
  Put(out, directory_offset, 8);
  Put(out, kLocator64, 4);
  Put(out, 0, 4);
  Put(out, directory_offset + size, 8);
  Put(out, 1, 4);
  Put(out, kEnd, 4);
  Put(out, 0, 4);
  Put(out, std::min<size_t>(members.size(), 0xffff), 2);
  Put(out, std::min<size_t>(members.size(), 0xffff), 2);
  Put(out, 0xffffffff, 4);
  Put(out, 0xffffffff, 4);
  Put(out, 0, 2);
  return out;
}

absl::StatusOr<std::vector<ZipContent>> ReadZip(std::string_view bytes, std::string_view suffix, int64_t limit) {
  const auto directory = FindDirectory(bytes);
  if (!directory.ok()) return directory.status();
  std::vector<ZipContent> out;
  uint64_t at = directory->first;
  int64_t total = 0;
  for (uint64_t i = 0; i < directory->second; ++i) {
    if (!Inside(bytes, at, 46) || Get(bytes, at, 4) != kCentral) return NotZip("the directory ends early");
    const uint64_t name = Get(bytes, at + 28, 2), extra = Get(bytes, at + 30, 2), comment = Get(bytes, at + 32, 2);
    if (!Inside(bytes, at, 46 + name + extra + comment)) return NotZip("the directory ends early");
    Entry entry{.name = bytes.substr(at + 46, name),
                .method = static_cast<uint16_t>(Get(bytes, at + 10, 2)),
                .packed = Get(bytes, at + 20, 4),
                .size = Get(bytes, at + 24, 4),
                .header = Get(bytes, at + 42, 4),
                .crc = static_cast<uint32_t>(Get(bytes, at + 16, 4))};
    if (!ReadExtra64(bytes.substr(at + 46 + name, extra), entry)) return NotZip("a 64-bit size is malformed");
    at += 46 + name + extra + comment;
    if (!entry.name.ends_with(suffix)) continue;
    absl::StatusOr<std::string> data = ReadMember(bytes, entry, limit - total);
    if (!data.ok()) return data.status();
    total += static_cast<int64_t>(data->size());
    out.push_back({std::string(entry.name), *std::move(data)});
  }
  return out;
}

}  // namespace phasor::cli
