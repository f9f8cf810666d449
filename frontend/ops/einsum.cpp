// Products of several tensors: each pair of operands becomes one matmul, or one product of elements
// and its sum.
#include <algorithm>
#include <map>

#include "frontend/ops/promotion.h"
#include "frontend/recorder/record/recorder.h"
#include "frontend/tensor/autocast.h"
#include "frontend/tensor/impl.h"
#include "weft/composites.h"

namespace weft {

using namespace recorder;

namespace {

// The name of a dim: a letter, or where in "..." it stands, counted from the end of "...".
using Label = int;
using Labels = std::vector<Label>;
constexpr Label kEllipsis = 256;

bool has(const Labels &labels, Label label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

// A tensor and the names of its dims.
struct Term {
  Tensor tensor;
  Labels labels;
};

// One operand's part of the equation; `dots`: how many dims "..." stands for.
Labels parse(std::string_view text, int64_t dots) {
  Labels labels;
  bool dotted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ' ')
      continue;
    if (text.substr(i, 3) == "..." && !dotted) {
      for (int64_t d = dots; d-- > 0;)
        labels.push_back(kEllipsis + static_cast<Label>(d));
      dotted = true;
      i += 2;
    } else if ((text[i] >= 'a' && text[i] <= 'z') || (text[i] >= 'A' && text[i] <= 'Z')) {
      labels.push_back(text[i]);
    } else {
      fail(ErrorKind::kValue,
           "'" + std::string(text) + "' in the equation is not made of letters and one \"...\"");
    }
  }
  return labels;
}

int64_t letters(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return c != '.' && c != ' '; });
}

// A letter that stands twice takes the diagonal, which becomes the last dim.
void take_diagonals(Term &term) {
  for (size_t i = 0; i < term.labels.size(); ++i)
    for (size_t j = i + 1; j < term.labels.size(); ++j) {
      if (term.labels[i] != term.labels[j])
        continue;
      Label label = term.labels[i];
      term.tensor = diagonal(term.tensor, 0, static_cast<int64_t>(i), static_cast<int64_t>(j));
      term.labels.erase(term.labels.begin() + static_cast<std::ptrdiff_t>(j));
      term.labels.erase(term.labels.begin() + static_cast<std::ptrdiff_t>(i));
      term.labels.push_back(label);
      return take_diagonals(term);
    }
}

// The term's tensor with the dims of exactly these labels, in this order. A dim that the term lacks
// has size 1.
Tensor arranged(const Term &term, const Labels &labels) {
  Shape order;
  for (Label label : labels)
    if (auto found = std::find(term.labels.begin(), term.labels.end(), label);
        found != term.labels.end())
      order.push_back(found - term.labels.begin());
  Tensor result = term.tensor.permute(order);
  for (size_t i = 0; i < labels.size(); ++i)
    if (!has(term.labels, labels[i]))
      result = result.unsqueeze(static_cast<int64_t>(i));
  return result;
}

// Sums the term over the dims whose labels are not wanted.
void sum_others(Term &term, const Labels &wanted) {
  Shape dims;
  Labels left;
  for (size_t i = 0; i < term.labels.size(); ++i)
    if (has(wanted, term.labels[i]))
      left.push_back(term.labels[i]);
    else
      dims.push_back(static_cast<int64_t>(i));
  if (!dims.empty())
    term.tensor = term.tensor.sum(Dims(dims));
  term.labels = left;
}

// The sum over dims of the product of two terms, one of which has all the labels of the other. Each
// element is read once, so that a matmul would gain nothing, and might copy the larger term to have
// its dims in another order: here they stay in theirs, and the sum fuses with what is around it.
Term multiply_and_sum(const Term &x, const Term &y, const Labels &summed) {
  const Labels &all = x.labels.size() < y.labels.size() ? y.labels : x.labels;
  // As in a matmul, what is added up is rounded once, and integers keep their dtype.
  const TypeInfo &left = *checked(x.tensor, "x")->type, &right = *checked(y.tensor, "y")->type;
  want_one_dtype(left, "x", right, "y");
  DType dtype = left.dtype, wide = computing_dtype(dtype);
  if (dtype == DType::kBool)
    fail(ErrorKind::kDType, "both operands are bool; convert them with to() first");
  Term product{arranged(x, all).to(wide) * arranged(y, all).to(wide), all};
  Labels kept;
  for (Label label : all)
    if (!has(summed, label))
      kept.push_back(label);
  sum_others(product, kept);
  return {product.tensor.to(dtype), kept};
}

Term multiply(Term x, Term y, const Labels &wanted, const std::map<Label, int64_t> &sizes) {
  auto with = [&](const Labels &others) {
    Labels all = wanted;
    all.insert(all.end(), others.begin(), others.end());
    return all;
  };
  sum_others(x, with(y.labels));
  sum_others(y, with(x.labels));
  Labels shared, summed, of_x, of_y;
  for (Label label : x.labels)
    (!has(y.labels, label) ? of_x : has(wanted, label) ? shared : summed).push_back(label);
  for (Label label : y.labels)
    if (!has(x.labels, label))
      of_y.push_back(label);
  Labels result = shared;
  result.insert(result.end(), of_x.begin(), of_x.end());
  result.insert(result.end(), of_y.begin(), of_y.end());
  if (summed.empty())
    return {arranged(x, result) * arranged(y, result), result};
  // Of an equation the products alone are in the scope's dtype: not sums, nor products of elements
  // that none is added to.
  auto lowered = [](Term &term) {
    if (thread_autocast.enabled && computing_dtype(term.tensor.dtype()) == DType::kFloat32)
      term.tensor = term.tensor.to(thread_autocast.dtype);
  };
  lowered(x);
  lowered(y);
  if (of_x.empty() || of_y.empty())
    return multiply_and_sum(x, y, summed);
  // [shared, x's, summed] times [shared, summed, y's]. A dim may have size 1 in one of them.
  auto shape_of = [&](std::initializer_list<const Labels *> groups) {
    Shape shape;
    for (const Labels *group : groups) {
      int64_t size = 1;
      for (Label label : *group)
        size *= sizes.at(label);
      shape.push_back(size);
    }
    return shape;
  };
  auto matrix = [&](const Term &term, const Labels &rows, const Labels &columns) {
    Labels order = shared;
    order.insert(order.end(), rows.begin(), rows.end());
    order.insert(order.end(), columns.begin(), columns.end());
    Shape full;
    for (Label label : order)
      full.push_back(sizes.at(label));
    return arranged(term, order).expand(full).reshape(shape_of({&shared, &rows, &columns}));
  };
  Tensor product = matmul(matrix(x, of_x, summed), matrix(y, summed, of_y));
  Shape shape;
  for (Label label : result)
    shape.push_back(sizes.at(label));
  return {product.reshape(shape), result};
}

} // namespace

Tensor dot(const Tensor &x, const Tensor &y, Location location) {
  Session session("dot", location);
  const TypeInfo &left = *checked(x, "x")->type, &right = *checked(y, "y")->type;
  if (left.ndim() != 1 || left.dims != right.dims)
    fail(ErrorKind::kShape, "x has shape " + to_string(left.dims) + ", y has shape " +
                                to_string(right.dims) +
                                ": both must be vectors of one size; matmul() takes matrices");
  return matmul(x, y);
}

Tensor outer(const Tensor &x, const Tensor &y, Location location) {
  Session session("outer", location);
  const TypeInfo &left = *checked(x, "x")->type, &right = *checked(y, "y")->type;
  if (left.ndim() != 1 || right.ndim() != 1)
    fail(ErrorKind::kShape, "x has shape " + to_string(left.dims) + ", y has shape " +
                                to_string(right.dims) + ": both must be vectors");
  return x.unsqueeze(1) * y.unsqueeze(0);
}

Tensor einsum(std::string_view equation, const std::vector<Tensor> &operands, Location location) {
  Session session("einsum", location);
  size_t arrow = equation.find("->");
  std::string_view inputs = equation.substr(0, arrow);
  std::vector<std::string_view> parts;
  for (size_t begin = 0;;) {
    size_t comma = inputs.find(',', begin);
    parts.push_back(inputs.substr(begin, comma == std::string_view::npos ? comma : comma - begin));
    if (comma == std::string_view::npos)
      break;
    begin = comma + 1;
  }
  if (parts.size() != operands.size())
    fail(ErrorKind::kValue, "the equation '" + std::string(equation) + "' is for " +
                                std::to_string(parts.size()) + " operands, there are " +
                                std::to_string(operands.size()));
  if (size_t lone = inputs.find_first_of("->"); lone != inputs.npos)
    fail(ErrorKind::kValue, "the equation '" + std::string(equation) + "' has a '" +
                                inputs[lone] + "' that is no part of \"->\", which stands "
                                                 "before the result's dimensions");
  std::vector<Term> terms;
  std::map<Label, int64_t> sizes, uses;
  int64_t dots = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Shape &shape = checked(operands[i], "operands")->type->dims;
    bool dotted = parts[i].find("...") != std::string_view::npos;
    int64_t rest = static_cast<int64_t>(shape.size()) - letters(parts[i]);
    if (rest < 0 || (rest > 0 && !dotted))
      fail(ErrorKind::kShape, "operand " + std::to_string(i) + " has shape " + to_string(shape) +
                                  ", which does not have the dimensions '" + std::string(parts[i]) +
                                  "'");
    dots = std::max(dots, dotted ? rest : 0);
    terms.push_back({operands[i], parse(parts[i], rest)});
    for (size_t d = 0; d < shape.size(); ++d) {
      Label label = terms.back().labels[d];
      ++uses[label];
      auto [known, fresh] = sizes.try_emplace(label, shape[d]);
      if (fresh || known->second == shape[d])
        continue;
      // Sizes of 1 broadcast, but a diagonal is that of a square.
      const Labels &labels = terms.back().labels;
      auto first = static_cast<size_t>(std::find(labels.begin(), labels.end(), label) -
                                       labels.begin());
      if (shape[first] == shape[d] && (shape[d] == 1 || known->second == 1)) {
        known->second = std::max(known->second, shape[d]);
        continue;
      }
      fail(ErrorKind::kShape, "dimension " + std::to_string(d) + " of operand " +
                                  std::to_string(i) + ", of shape " + to_string(shape) + ", is " +
                                  std::to_string(shape[d]) + "; in another place it is " +
                                  std::to_string(known->second));
    }
  }
  Labels wanted;
  if (arrow != std::string_view::npos) {
    wanted = parse(equation.substr(arrow + 2), dots);
    for (size_t i = 0; i < wanted.size(); ++i)
      if (!uses.count(wanted[i]) || std::count(wanted.begin(), wanted.end(), wanted[i]) > 1)
        fail(ErrorKind::kValue, "the result of '" + std::string(equation) +
                                    "' must have letters of the operands, each once");
  } else {
    for (int64_t d = dots; d-- > 0;)
      wanted.push_back(kEllipsis + static_cast<Label>(d));
    for (auto [label, count] : uses)
      if (label < kEllipsis && count == 1)
        wanted.push_back(label);
  }
  for (Term &term : terms)
    take_diagonals(term);
  Term result = terms[0];
  for (size_t i = 1; i < terms.size(); ++i) {
    Labels later = wanted;
    for (size_t j = i + 1; j < terms.size(); ++j)
      later.insert(later.end(), terms[j].labels.begin(), terms[j].labels.end());
    result = multiply(std::move(result), std::move(terms[i]), later, sizes);
  }
  sum_others(result, wanted);
  Shape shape;
  for (Label label : wanted)
    shape.push_back(sizes.at(label));
  return arranged(result, wanted).expand(shape);
}

} // namespace weft
