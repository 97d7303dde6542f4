#!/usr/bin/env python3
"""Holds the source tree to its layering: who may include whom, and what no file may contain.

    layering_test.py SOURCE_TREE     exit 1 and one line per breach
    layering_test.py --self-test     breaks each rule on purpose and checks that it is noticed
"""

import pathlib
import re
import sys

THIRD_PARTY = {
    "absl": r"absl/",
    "highway": r"hwy/",
    "cuda": r"(cuda|cuda_\w+|cooperative_groups)(\.h|/)",
    "boost": r"boost/",
    "protobuf": r"google/protobuf/|[\w/]+\.pb\.h$",
    "grpc": r"grpc(pp|\+\+)?/|[\w/]+\.grpc\.pb\.h$",
    "prometheus": r"prometheus/",
    "spdlog": r"spdlog/|fmt/",
    "cli11": r"CLI/",
    "rapidjson": r"rapidjson/",
    "openssl": r"openssl/",
    "zlib": r"zlib\.h$",
    "test": r"gtest/|gmock/|benchmark/",
    "mpfr": r"(mpfr|gmp|gmpxx)\.h$",
}

# Folder → what its files may include: folders of the tree (each with what is below it) and third parties.
# The longest matching folder decides. Standard and system headers (<vector>, <unistd.h>) are free everywhere.
EDGES = {
    "kernels/core": {"kernels/core", "absl"},
    "kernels/encodings": {"kernels/core", "kernels/encodings", "absl", "boost"},
    "kernels/tasks": {"kernels/core", "kernels/encodings", "kernels/tasks", "absl"},
    "kernels/reference": {"kernels/core", "kernels/encodings", "kernels/tasks", "kernels/reference", "kernels/backend.h", "absl",
                          "boost"},
    "kernels/cpu": {"kernels/core", "kernels/encodings", "kernels/tasks", "kernels/cpu", "kernels/backend.h", "absl", "highway"},
    "kernels/cuda": {"kernels/core", "kernels/encodings", "kernels/tasks", "kernels/cuda", "kernels/backend.h",
                     "kernels/device_sharing.h", "absl", "cuda"},
    "kernels": {"kernels", "absl"},
    "proto": {"proto", "absl", "protobuf", "grpc"},
    "server": {"kernels", "proto", "server", "absl", "protobuf", "grpc", "prometheus", "spdlog", "cli11", "rapidjson",
               "openssl", "zlib"},
    "client": {"proto", "client", "absl", "protobuf", "grpc", "openssl"},
    "client/local": {"kernels/backend.h", "proto", "server", "client", "absl", "protobuf", "grpc"},
    "client/cli": {"kernels/core", "proto", "server", "client", "absl", "protobuf", "grpc", "spdlog", "cli11", "rapidjson",
                   "zlib"},
    "tests": {"kernels", "proto", "server", "client", "tests", *THIRD_PARTY},
}

SOURCES = {".h", ".cc", ".cu", ".cuh"}
BUILD_FILES = {".cmake", ".txt", ".json"}

# libm's rounding differs between versions, so nothing that decides a bit of a result may call it. Exact functions (fma, sqrt,
# floor, ldexp, …) are free, and so are names of another library (mp::pow, boost::…) or members (x.log()).
LIBM_NAME = r"(?:a?sinh?|a?cosh?|a?tanh?|atan2|sincos|exp2?|expm1|log(?:2|10|1p)?|pow|cbrt|hypot|erfc?|[lt]gamma)[fl]?"
LIBM = re.compile(r"(?<![\w.>:])((?:std::|::)?" + LIBM_NAME + r")\s*\(")
# A variable of such a name hides the function: `Output cos(a), sin(b);`.
LIBM_VARIABLE = re.compile(
    r"[;{}]\s*(?!return\b|co_return\b|else\b|case\b)(?:const\s+)?[\w:]+(?:<[^;{}]*>)?[ *&]+(?=" + LIBM_NAME + r"\s*\()[^;{}]*;")

# Pattern → why it is forbidden, in sources under the given folder.
FORBIDDEN_IN_SOURCES = [
    ("", re.compile(r"#\s*pragma\s+(GCC\s+optimize|STDC\s+FP_CONTRACT\s+ON)|__attribute__\s*\(\(\s*(__)?optimize"),
     "changes floating-point semantics of one file"),
    ("kernels", re.compile(r"hwy/contrib/math"), "not correctly rounded, and differs between targets"),
    ("kernels", re.compile(r"\b(abort|exit|_Exit|quick_exit)\s*\(|(?<![\w\"])throw\b"),
     "libraries report by absl::Status"),
    ("server", re.compile(r"\babsl::Mutex\b"), "ThreadSanitizer cannot judge it: std::mutex"),
]
# Highway narrows to 16-bit floats by truncation on some targets. A tag is seen by its type, or by a name declared with it.
NARROWING = re.compile(r"\b(?:DemoteTo|(?:Ordered|Reorder)Demote2To|DemoteFromF32To\w*)\s*\(\s*([^,]*)")
TAG_NAME = re.compile(r"\bb?float16_t\b[^;{}()]*>\s+(\w+)\s*[;{(]|using\s+(\w+)\s*=[^;]*\bb?float16_t\b")
FORBIDDEN_IN_BUILD = re.compile(
    r"-march=native|-mtune=native|-ffast-math|-Ofast|-funsafe-math|-fassociative-math|-freciprocal-math|-ffp-contract=(on|fast)"
    r"|--use_fast_math|-fno-signed-zeros|-ffinite-math")

COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/', re.S)
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)


def without_comments(text):
    """Comments blanked, lines kept, so that offsets still give line numbers."""
    return COMMENT.sub(lambda m: m[0] if m[0][0] == '"' else re.sub(r"[^\n]", " ", m[0]), text)


def without_strings(text):
    return COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)


def room_of(path):
    rooms = [room for room in EDGES if path.startswith(room + "/")]
    return max(rooms, key=len, default=None)


def may_include(room, target):
    """None when the file may include `target`, else the reason."""
    for name, pattern in THIRD_PARTY.items():
        # Generated headers (phasor/v1/x.pb.h) match both protobuf and grpc patterns: the more special one is listed later.
        if re.match(pattern, target) and not (name == "protobuf" and target.endswith(".grpc.pb.h")):
            return None if name in EDGES[room] else f"{room}/ may not include {name}"
    if "/" not in target:
        return "includes are written from the root of the tree"
    for allowed in EDGES[room]:
        if target == allowed or target.startswith(allowed + "/"):
            return None
    return f"{room}/ may not include this"


def libm_calls(code):
    hidden = set()
    for match in LIBM_VARIABLE.finditer(code):
        hidden |= set(re.findall(r"(?:^|[\s,*&>])(" + LIBM_NAME + r")\s*\(", match[0]))
    return (match for match in LIBM.finditer(code) if match[1] not in hidden)


def narrowings(code):
    names = {name for match in TAG_NAME.finditer(code) for name in match.groups() if name}
    for match in NARROWING.finditer(code):
        # The first argument may itself hold commas: Rebind<hwy::float16_t, D>().
        if re.search(r"\bb?float16_t\b", match[1]) or names & set(re.findall(r"\w+", match[1])):
            yield match


def check_source(path, text):
    room = room_of(path)
    code = without_comments(text)
    for match in INCLUDE.finditer(code):
        quote, target = match.groups()
        third_party = any(re.match(pattern, target) for pattern in THIRD_PARTY.values())
        if quote == "<" and not third_party:
            continue
        reason = "no room of the layering table" if room is None else may_include(room, target)
        if reason:
            yield code.count("\n", 0, match.start(2)) + 1, f"#include {target}: {reason}"
    code = without_strings(code)
    with_strings_lines = without_comments(text)
    for folder, pattern, reason in FORBIDDEN_IN_SOURCES:
        if folder and not path.startswith(folder + "/"):
            continue
        for match in pattern.finditer(with_strings_lines if "hwy/" in pattern.pattern else code):
            yield code.count("\n", 0, match.start()) + 1, f"{match[0].strip()}: {reason}"
    for match in libm_calls(code) if path.startswith("kernels/") else ():
        yield code.count("\n", 0, match.start()) + 1, f"{match[0]}: calls libm, whose bits differ between versions"
    for match in narrowings(code) if path.startswith("kernels/") else ():
        yield code.count("\n", 0, match.start()) + 1, f"{match[0]}: only kernels/core/narrow.h's rule narrows to 16-bit floats"


def check_build(text):
    for match in FORBIDDEN_IN_BUILD.finditer(re.sub(r"(?m)#.*$", "", text)):
        yield text.count("\n", 0, match.start()) + 1, f"{match[0]}: would make bits depend on the machine or the compiler"


def check_file(path, text):
    suffix = pathlib.PurePosixPath(path).suffix
    if suffix in SOURCES:
        return list(check_source(path, text))
    if suffix in BUILD_FILES or pathlib.PurePosixPath(path).name in ("Dockerfile", "Makefile"):
        return list(check_build(text))
    return []


def check_tree(root):
    breaches, files = [], 0
    for top in ("kernels", "proto", "server", "client", "tests", "deploy", "CMakeLists.txt", "CMakePresets.json", "Makefile",
                "Dockerfile"):
        start = root / top
        for file in sorted(start.rglob("*")) if start.is_dir() else [start]:
            path = file.relative_to(root).as_posix()
            if not file.is_file() or not (file.suffix in SOURCES | BUILD_FILES or file.name in ("Dockerfile", "Makefile")):
                continue
            files += 1
            breaches += [f"{path}:{line}: {what}" for line, what in check_file(path, file.read_text(encoding="utf-8"))]
    return breaches, files


# (path, text, number of breaches)
SELF_TEST = [
    ("kernels/core/a.h", '#include <vector>\n#include "kernels/core/dtype.h"\n#include "absl/status/status.h"\n', 0),
    ("kernels/core/a.h", '#include "kernels/encodings/plan.h"\n', 1),
    ("kernels/core/a.h", '#include "hwy/highway.h"\n', 1),
    ("kernels/core/a.h", '#include "dtype.h"\n', 1),
    ("kernels/cpu/a.cc", '#include "hwy/highway.h"\n#include "kernels/backend.h"\n', 0),
    ("kernels/cpu/a.cc", '#include "hwy/contrib/math/math-inl.h"\n', 1),
    ("kernels/cpu/a.cc", '#include "kernels/reference/reference.h"\n', 1),
    ("kernels/encodings/a.cc", '#include <grpcpp/grpcpp.h>\n', 1),
    ("kernels/encodings/a.cc", '#include "phasor/v1/encoding.pb.h"\n', 1),
    ("kernels/backend.cc", '#include <prometheus/counter.h>\n', 1),
    ("kernels/backend.cc", '#include "server/engine.h"\n', 1),
    ("server/a.cc", '#include "kernels/backend.h"\n#include "phasor/v1/position_service.grpc.pb.h"\n', 0),
    ("server/a.cc", '#include "client/client.h"\n', 1),
    ("server/a.cc", '#include "tests/server/fake.h"\n', 1),
    ("server/a.cc", 'absl::Mutex mutex;\n', 1),
    ("client/client.cc", '#include "phasor/v1/position_service.grpc.pb.h"\n', 0),
    ("client/client.cc", '#include "server/engine.h"\n', 1),
    ("client/client.cc", '#include "kernels/backend.h"\n', 1),
    ("client/cli/main.cc", '#include "server/embedded.h"\n', 0),
    ("client/cli/main.cc", '#include "kernels/backend.h"\n', 1),
    ("tests/kernels/a_test.cc", '#include <gtest/gtest.h>\n#include <mpfr.h>\n#include "kernels/backend.h"\n', 0),
    ("tools/a.cc", '#include "kernels/backend.h"\n', 1),
    ("kernels/core/a.cc", "double y = std::sin(x);\n", 1),
    ("kernels/core/a.cc", "double y = pow(x, 2) + expf(x);\n", 2),
    ("kernels/core/a.cc", "y = mp::pow(x, 2); z = x.log(); w = std::fma(a, b, c); v = SinCos(x); // std::sin(x)\n", 0),
    ("kernels/cpu/a.cc", "{\n  RowOutput<kStream> cos(job.cos, job), sin(job.sin, job);\n  cos(1); y = std::cos(x);\n}\n", 1),
    ("kernels/cpu/a.cc", "{\n  return cos(x);\n}\n", 1),
    ("kernels/cpu/a.cc", "{\n  float y = cos(x);\n  const float z(sin(x));\n}\n", 2),
    ("tests/kernels/a_test.cc", "double y = std::sin(x);\n", 0),
    ("kernels/cpu/a.cc", "const hn::Rebind<hwy::bfloat16_t, D> d16;\ny = hn::DemoteTo(d16, v);\n", 1),
    ("kernels/cpu/a.cc", "y = hn::DemoteTo(hn::Rebind<hwy::float16_t, D>(), v);\n", 1),
    ("kernels/cpu/a.cc", "using D16 = hn::Rebind<hwy::bfloat16_t, D>;\ny = hn::OrderedDemote2To(D16(), a, b);\n", 1),
    ("kernels/cpu/a.cc", "y = hn::DemoteTo(df32, v); z = hn::PromoteTo(d, BitCast(hn::Rebind<hwy::float16_t, D>(), w));\n", 0),
    ("kernels/cpu/a.cc", '#pragma GCC optimize("fast-math")\n', 1),
    ("kernels/core/a.cc", 'void F() { throw 1; }\n', 1),
    ("kernels/core/a.cc", 'Error("cannot throw std::sin(x)");\n', 0),
    ("kernels/CMakeLists.txt", "add_compile_options(-march=native)\n", 1),
    ("kernels/CMakeLists.txt", "# never -march=native\nadd_compile_options(-ffp-contract=off)\n", 0),
    ("CMakePresets.json", '{"CMAKE_CXX_FLAGS": "-O3 -ffast-math"}\n', 1),
]


def self_test():
    wrong = 0
    for path, text, expected in SELF_TEST:
        found = check_file(path, text)
        if len(found) != expected:
            wrong += 1
            print(f"{path}: {text!r}: expected {expected} breaches, found {found}")
    print(f"{len(SELF_TEST)} samples, {wrong} judged wrongly")
    return wrong


def main(arguments):
    if arguments == ["--self-test"]:
        return 1 if self_test() else 0
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    breaches, files = check_tree(pathlib.Path(arguments[0]).resolve())
    print(*breaches, sep="\n", end="\n" if breaches else "")
    print(f"{files} files, {len(breaches)} breaches")
    return 1 if breaches or files == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
