"""The terms of scores.txt once more, from their published formulas in 60 digits, for tests/kernels/program/scores_exact_test.cc.

scores.txt has what libraries answer, in float64 at best; this file shares nothing with them but the inputs. Each case has up to 48 samples
"INDEX VALUE" of its scores [batch, heads, queries, keys].

    pip install mpmath==1.3.0 && python tests/golden/scores/exact.py > tests/golden/scores/exact.txt
"""
import itertools
import pathlib

from mpmath import ceil, cos, exp, floor, fsum, log, mp, mpf, nstr, sin, sqrt

mp.dps = 60
SAMPLES = 48


def read():
    cases = []
    for line in (pathlib.Path(__file__).parent / "scores.txt").read_text().splitlines():
        key, *rest = line.split()
        if key == "case":
            cases.append({"name": rest[0], "options": {}, "weights": {}, "positions": {}})
        elif key == "deberta_rows":
            continue
        elif key == "option":
            cases[-1]["options"][rest[0]] = int(rest[1])
        elif key == "weight":
            axes = int(rest[1])
            shape = [int(n) for n in rest[2:2 + axes]]
            cases[-1]["weights"][rest[0]] = nested([mpf(int(n)) / 32 for n in rest[2 + axes:]], shape)
        elif key == "dims":
            cases[-1]["dims"] = [int(n) for n in rest]
        elif key == "positions":
            cases[-1]["positions"][rest[0]] = [int(n) for n in rest[1:]]
        elif key in "qk":
            cases[-1][key] = [mpf(int(n)) / 32 for n in rest]
        elif key == "expect":
            cases[-1]["hidden"] = [n == "-" for n in rest]
        else:
            cases[-1][key] = rest[0]
    return cases


def nested(numbers, shape):
    if len(shape) == 1:
        return numbers
    step = len(numbers) // shape[0]
    return [nested(numbers[i * step:(i + 1) * step], shape[1:]) for i in range(shape[0])]


def dot(a, b):
    return fsum(x * y for x, y in zip(a, b))


def add(a, b):
    return [x + y for x, y in zip(a, b)]


def project(w_r, heads, h, sinusoids):
    d = len(w_r) // heads
    return [dot(row, sinusoids) for row in w_r[h * d:(h + 1) * d]]


def angles(distance, dim, last=0):
    """With `last` = 1 the last frequency is 1/10000 itself."""
    return [distance * mpf(10000) ** (-mpf(2 * i) / (dim - 2 * last)) for i in range(dim // 2)]


def concatenated(distance, dim, last=0):
    return [f(a) for f in (sin, cos) for a in angles(distance, dim, last)]


def at(c, h, i, j):
    """The distance of query and key i, j, and their places in the tensors."""
    queries, keys = c["dims"][3:5]
    place = i - (keys - queries)
    if not c["positions"]:
        return i - j, place
    return c["positions"]["query"][place] - c["positions"]["key"][j], place


def interleaved(distance, dim):
    return [f(a) for a in angles(distance, dim) for f in (sin, cos)]


def transformer_xl(c, h, i, j, q, k):
    w, d = c["weights"], len(q)
    distance = min(i - j, c["options"].get("clamp_length", 1 << 40))
    r = project(w["w_r"], c["dims"][1], h, concatenated(distance, len(w["w_r"][0])))
    return (dot(add(q, w["u"][h]), k) + dot(add(q, w["v"][h]), r)) / sqrt(d)


def xlnet(c, h, i, j, q, k):
    w, d = c["weights"], len(q)
    limit = c["options"].get("clamp_length", 1 << 40)
    distance, query = at(c, h, i, j)
    r = project(w["w_r"], c["dims"][1], h, concatenated(max(-limit, min(distance, limit)), len(w["w_r"][0])))
    total = dot(add(q, w["r_w_bias"][h]), k)
    if c["options"].get("separate_cls") and (query == 0 or j == 0):
        return total / sqrt(d)
    total += dot(add(q, w["r_r_bias"][h]), r)
    if "segments" in w:
        total += dot(add(q, w["r_s_bias"][h]), w["seg_embed"][int(w["segments"][query][j])][h])
    return total / sqrt(d)


def conformer(c, h, i, j, q, k):
    w, d, o = c["weights"], len(q), c["options"]
    if "u" not in w:
        r = project(w["w_r"], c["dims"][1], h, concatenated(i - j, len(w["w_r"][0]), o["base_inclusive"]))
        return (dot(q, k) + dot(q, r)) * o["scale"]
    r = project(w["w_r"], c["dims"][1], h, interleaved(i - j, len(w["w_r"][0])))
    return (dot(add(q, w["u"][h]), k) + dot(add(q, w["v"][h]), r)) / sqrt(d)


def deberta(c, h, i, j, q, k):
    w, options, distance = c["weights"], c["options"], i - j
    buckets, furthest = max(0, options["position_buckets"]), options["max_relative_positions"]
    span, bucket = buckets or furthest, distance
    middle = buckets // 2
    if buckets and abs(distance) > middle:
        far = ceil(log(mpf(abs(distance)) / middle) / log(mpf(furthest - 1) / middle) * (middle - 1)) + middle
        bucket = int(far) * (1 if distance > 0 else -1)
    row = max(0, min(bucket + span, 2 * span - 1))
    total = dot(q, k)
    if options["c2p"]:
        total += dot(q, w["key_positions"][h][row])
    if options["p2c"]:
        total += dot(k, w["query_positions"][h][row])
    return total / sqrt(len(q) * (1 + options["c2p"] + options["p2c"]))


def resized(table, to):
    rows = []
    for i in range(to):
        at = max(mpf(0), (i + mpf(1) / 2) * len(table) / to - mpf(1) / 2)
        low = int(floor(at))
        high = min(low + 1, len(table) - 1)
        rows.append([a + (at - low) * (b - a) for a, b in zip(table[low], table[high])])
    return rows


def decomposed(c, h, i, j, q, k):
    o, w = c["options"], c["weights"]
    i -= c["dims"][4] - c["dims"][3]  # a place in the grid of queries
    total = dot(q, k) / sqrt(len(q))
    for axis, name, a, b in (("height", "rel_pos_h", i // o["query_width"], j // o["key_width"]),
                             ("width", "rel_pos_w", i % o["query_width"], j % o["key_width"])):
        queries, keys = o[f"query_{axis}"], o[f"key_{axis}"]
        up, down = max(mpf(keys) / queries, 1), max(mpf(queries) / keys, 1)
        table = w[name]
        if len(table) != 2 * max(queries, keys) - 1:
            table = c.setdefault("resized_" + name, resized(table, 2 * max(queries, keys) - 1))
        total += dot(q, table[int(a * up - b * down + (keys - 1) * down)])
    return total


def shaw(c, h, i, j, q, k):
    clip, o = c["options"]["clip"], c["options"]
    row = c["weights"]["keys"][max(-clip, min((j - i) if o.get("key_minus_query") else (i - j), clip)) + clip]
    if o.get("omit_content"):
        return dot(q, row) * o["scale"]
    return (dot(q, k) + dot(q, row) + (dot(k, row) if o.get("query_term_too") else 0)) / sqrt(len(q))


def cope(c, h, i, j, q, k):
    e, positions = c["weights"]["e"], len(c["weights"]["e"][0])
    gates = [1 / (1 + exp(-dot(q, vector(c, "k", c["batch_row"], n, h)))) for n in range(j, i + 1)]
    p = min(fsum(gates), mpf(positions - 1))
    low = int(floor(p))
    at = [dot(q, [row[n] for row in e]) for n in (low, min(low + 1, positions - 1))]
    return dot(q, k) + at[0] * (1 - (p - low)) + at[1] * (p - low)


def vector(c, side, b, s, h):
    _, heads, key_heads, queries, keys, d = c["dims"]
    tokens, count = (queries, heads) if side == "q" else (keys, key_heads)
    at = ((b * tokens + s) * count + h // (heads // count)) * d
    return c[side][at:at + d]


def row_of(c, b, h, s):
    """Scores of a query, or probabilities."""
    _, _, _, queries, keys, _ = c["dims"]
    c["batch_row"] = b
    i = keys - queries + s
    term = globals()[c["term"]]
    q = vector(c, "q", b, s, h)
    only_past = c["options"].get("causal") or c["term"] in ("transformer_xl", "cope")
    row = [term(c, h, i, j, q, vector(c, "k", b, j, h)) if j <= i or not only_past else None for j in range(keys)]
    if c["options"].get("softmax"):
        top = max(v for v in row if v is not None)
        powers = [exp(v - top) if v is not None else mpf(0) for v in row]
        row = [p / fsum(powers) for p in powers]
    return row


for c in read():
    if c["term"] == "none":
        continue  # in 60 digits already
    batch, heads, _, queries, keys, _ = c["dims"]
    step = max(1, batch * heads * queries * keys // SAMPLES) | 1  # odd: it meets every key
    samples, known = [], {}
    for index, (b, h, s, j) in enumerate(itertools.product(range(batch), range(heads), range(queries), range(keys))):
        if index % step or c["hidden"][index]:
            continue
        row = known.setdefault((b, h, s), row_of(c, b, h, s))
        samples.append(f"{index} {nstr(row[j], 20)}")
    print("case", c["name"], *samples)
