#!/usr/bin/env python3
"""What headers.py makes of the forms that declarations have."""

import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from api import with_namespaces
from headers import Declaration, Reader

HEADER = """// What the header is for.
#pragma once

namespace weft {

class Forward;
namespace recorder {
int hidden();
}

// --- First. With a text. ---

// Doubles.
Tensor twice(const Tensor &x, Location location = Location::current());
Tensor bare(TensorArg x = {1, 2}); // behind
                                   // goes on
// A text of the page.

template <typename F>
  requires(!std::is_same_v<F, int> && sizeof(F) > 0)
int inline_one(F &&f) {
  return f({"}", '{'}); // }
}
// Holds.
class Holder : public Base {
public:
  explicit Holder(int size = 1) : size_{size}, other_(make({size})) {}
  template <typename D>
    requires std::derived_from<D, Base>
  Holder(D other, int size) : Holder(size) {}
  Holder(const Holder &other);
  ~Holder();
  // How many.
  int size() const {
    return size_;
  }
  Tensor operator()(const Tensor &x, Location location = Location::current()) const {
    return x;
  }
  int overridden() override;
  struct Inner {
    int field = 3; // of it
  };
  int64_t bytes = int64_t(1) << 20;

private:
  // Not seen.
  int size_;
};
template <typename F, typename A = recorder::Of<F>> class Special; // a template
template <typename F> class Special<F, std::tuple<F>> {
  int size_;
};
template <typename F> int Holder::outside(F &&f) {
  return 0;
}
enum class Kind { kA, kB };

namespace io {
int load();
} // namespace io

} // namespace weft
"""


def flat(items, depth=0):
    for item in items:
        if isinstance(item, Declaration):
            yield depth, item.kind, item.name, " ".join(item.comment)
            yield from flat(item.members or [], depth + 1)
        else:
            yield depth, item


def main():
    found = list(flat(Reader(HEADER).read()))
    wanted = [
        (0, "What the header is for."),
        (0, ("namespace", "weft")),
        (0, ("section", "First. With a text.")),
        (0, "function", "twice", "Doubles."),
        (0, "function", "bare", "behind goes on"),
        (0, "A text of the page."),
        (0, "function", "inline_one", ""),
        (0, "class", "Holder", "Holds."),
        (1, "function", "Holder", ""),
        (1, "function", "Holder", ""),
        (1, "function", "size", "How many."),
        (1, "function", "operator()", ""),
        (1, "struct", "Inner", ""),
        (2, "variable", "field", "of it"),
        (1, "variable", "bytes", ""),
        (0, "class", "Special", "a template"),
        (0, "class", "Special<F, std::tuple<F>>", ""),
        (0, "enum", "Kind", ""),
        (0, ("namespace", "weft::io")),
        (0, "function", "load", ""),
        (0, ("namespace", "weft")),
        (0, ("namespace", "")),
    ]
    for one, other in zip(found + [None] * len(wanted), wanted + [None] * len(found)):
        if one != other:
            sys.exit(f"found {one}, wanted {other}")
    declarations = [item for item in Reader(HEADER).read() if isinstance(item, Declaration)]
    assert declarations[0].text == "Tensor twice(const Tensor &x)", declarations[0].text
    assert declarations[2].template == "template <typename F>", declarations[2].template
    assert declarations[2].bare == "int inline_one(F &&f)", declarations[2].bare
    taken = declarations[3].members[1]
    assert taken.template == "template <typename D>", taken.template
    assert taken.bare == "Holder(D other, int size)", taken.bare
    told = [item for item in with_namespaces(Reader(HEADER).read())
            if isinstance(item, str) and item.startswith("In namespace")]
    assert told == ["In namespace `weft::io`."], told


if __name__ == "__main__":
    main()
