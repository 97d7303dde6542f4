"""What the scripts around the cards' programs share: the cards themselves, running a program of one, reading arrays."""
import hashlib
import json
import math
import pathlib
import struct
import subprocess
import zipfile


def cards(phasor):
    """Every card as GetScheme answers it, by name."""
    def ask(*arguments):
        done = subprocess.run([phasor, "--json", *arguments], capture_output=True, text=True, timeout=120, check=True)
        return json.loads(done.stdout)
    return {scheme["name"]: ask("card", scheme["name"]) for scheme in ask("schemes")["schemes"]}


def snippet(card, language):
    found = [each["code"] for each in card["snippets"] if each["language"] == language]
    if len(found) != 1:
        raise SystemExit(f"{card['scheme']['name']}: {len(found)} programs in {language}")
    return found[0]


def digest(code):
    return hashlib.sha256(code.encode()).hexdigest()


def run_pytorch(code):
    """The program's `result`: {name: {"shape": [...], "values": [...]}}, values as Python floats."""
    names = {}
    exec(compile(code, "snippet", "exec"), names)  # the tree's own text
    return {name: {"shape": list(tensor.shape), "values": tensor.double().flatten().tolist()}
            for name, tensor in names["result"].items()}


def run_phasor(code, phasor, folder):
    """The same of out.npz, which the shell program leaves in `folder`."""
    path = f"{pathlib.Path(phasor).resolve().parent}:/usr/local/bin:/usr/bin:/bin"
    done = subprocess.run(["bash", "-e", "-c", code], cwd=folder, env={"PATH": path, "HOME": str(folder)}, capture_output=True,
                          text=True, timeout=120)
    if done.returncode != 0:
        raise RuntimeError(f"exit code {done.returncode}: {done.stderr.strip()}")
    with zipfile.ZipFile(pathlib.Path(folder) / "out.npz") as file:
        return {name.removesuffix(".npy"): read_npy(file.read(name)) for name in file.namelist() if name != "phasor_metadata.npy"}


def read_npy(data):
    """A little-endian f64 array."""
    if data[:6] != b"\x93NUMPY":
        raise ValueError("no .npy file")
    size, at = (struct.unpack_from("<H", data, 8)[0], 10) if data[6] == 1 else (struct.unpack_from("<I", data, 8)[0], 12)
    header = eval(data[at:at + size].decode(), {"__builtins__": {}})  # a dict of literals
    if header["descr"] != "<f8" or header["fortran_order"]:
        raise ValueError(f"{header['descr']}, expected <f8 in C order")
    shape = list(header["shape"])
    return {"shape": shape, "values": list(struct.unpack_from(f"<{math.prod(shape)}d", data, at + size))}


def difference(given, expected):
    """The largest one of two arrays of one shape; infinite where only one of two entries is, or a sign differs."""
    if given["shape"] != expected["shape"]:
        return math.inf
    largest = 0.0
    for a, b in zip(given["values"], expected["values"], strict=True):
        if a != b:
            largest = max(largest, math.inf if math.isinf(a) or math.isinf(b) or a != a or b != b else abs(a - b))
    return largest
