"""Finds length-delimited fields in protobuf's bytes without copying or parsing the rest: what a client that cares does by hand."""


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7


def fields(data):
    """(number, where it is wrapped in a memoryview, or None for numbers) for each field."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 2:
            size, at = varint(data, at)
            if at + size > len(data):
                raise ValueError("a field ends behind its message")
            yield key >> 3, data[at:at + size]
            at += size
        elif kind == 0:
            _, at = varint(data, at)
            yield key >> 3, None
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
            yield key >> 3, None
        else:
            raise ValueError(f"wire type {kind}")


def find(data, *path):
    """Every field at the path of numbers, in order."""
    found = [memoryview(data)]
    for number in path:
        found = [value for message in found for key, value in fields(message) if key == number and value is not None]
    return found
