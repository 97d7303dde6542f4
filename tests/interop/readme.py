"""The examples of README.md's section "Calling it": blocks("bash"), … in the order of the text."""

import re
import sys

import serving


def blocks(language, address=None):
    """Their text; with `address`, that stands where the example says 127.0.0.1:50051."""
    text = (serving.SOURCE / "README.md").read_text(encoding="utf-8")
    section = re.search(r"^## Calling it\n(.*?)^## ", text, re.MULTILINE | re.DOTALL).group(1)
    found = re.findall(rf"^```{language}\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    if not found:
        sys.exit(f"README.md has no {language} example any more")
    return [block.replace("127.0.0.1:50051", address) if address else block for block in found]
