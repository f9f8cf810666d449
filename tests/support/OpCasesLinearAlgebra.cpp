// Calls of factorizations and triangular systems. Sizes stay within what is decomposed where no
// library computes them.
#include "tests/support/OpCasesLinearAlgebra.h"

namespace weft::tests {

using Shape = std::vector<int64_t>;

static std::string spell(const Shape &shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? "," : "") + std::to_string(shape[i]);
  return text + "]";
}

static TensorSpec matrices(Shape shape) {
  return {std::move(shape), {}, Values::Dominant};
}

void addLinearAlgebraCases(std::vector<OpCase> &cases) {
  const Shape shapes[] = {{1, 1}, {2, 2}, {5, 5}, {3, 4, 4}, {0, 0}, {0, 3, 3}, {2, 0, 0}};
  for (const Shape &shape : shapes) {
    cases.push_back({"weft.cholesky", spell(shape), {matrices(shape)}});
    cases.push_back({"weft.lu", spell(shape), {matrices(shape)}});
  }
  // Pivots that are not on the diagonal.
  cases.push_back({"weft.lu", "any [2,3,3]", {{{2, 3, 3}}}, "{regular = true}"});
  cases.push_back({"weft.cholesky", "[150,7,7]", {matrices({150, 7, 7})}, "{}", {}, {}, true});
  cases.push_back({"weft.lu", "[150,7,7]", {matrices({150, 7, 7})}, "{}", {}, {}, true});

  auto solve = [&](Shape matrix, int64_t columns, const std::string &flags, bool large = false) {
    Shape rhs = matrix;
    rhs.back() = columns;
    cases.push_back({"weft.solve_triangular",
                     spell(matrix) + spell(rhs) + " " + flags,
                     {matrices(matrix), {rhs}},
                     "{" + flags + "}",
                     {},
                     {},
                     large});
  };
  for (const char *flags : {"", "upper = true", "transposed = true", "upper = true, unit = true",
                            "upper = true, transposed = true", "transposed = true, unit = true"}) {
    solve({4, 4}, 3, flags);
    solve({2, 3, 3}, 1, flags);
    solve({75, 75}, 70, flags, true);
  }
  solve({1, 1}, 2, "");
  solve({0, 0}, 3, "");
  solve({3, 3}, 0, "");
  solve({0, 3, 3}, 2, "");
}

} // namespace weft::tests
