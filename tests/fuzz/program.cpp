#include "tests/fuzz/program.h"

#include <cmath>
#include <cstdio>

#include "tests/fuzz/calls.h"
#include "tests/fuzz/function.h"

namespace weft::fuzz {
namespace {

std::string list(const std::vector<int64_t> &numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size(); ++i)
    text += (i ? ", " : "") + std::to_string(numbers[i]);
  return text;
}

std::string variable(int place) {
  return "x" + std::to_string(place);
}

std::string number(double x, DType dtype) {
  char text[64];
  if (!is_floating(dtype))
    std::snprintf(text, sizeof text, "%lld", static_cast<long long>(x));
  else if (std::isnan(x))
    return "NAN";
  else if (std::isinf(x))
    return x > 0 ? "INFINITY" : "-INFINITY";
  else
    std::snprintf(text, sizeof text, dtype == float64 ? "%.17g" : "%.9gf", x);
  std::string result = text;
  // 1f is no literal.
  if (is_floating(dtype) && dtype != float64 && result.find_first_of(".e") == std::string::npos)
    result.insert(result.size() - 1, ".");
  return result;
}

// An input as literals, or (where there are too many) as the call of this test's own function.
std::string input_text(const Step &step) {
  constexpr int64_t kMostLiterals = 600;
  Tensor tensor = make_input(step);
  if (tensor.size() > kMostLiterals)
    return "weft::fuzz::make_input({\"" + step.call + "\", {}, {{" + list(step.numbers[0]) +
           "}, {" + list(step.numbers[1]) + "}}})";
  static const char *const kElements[] = {"float",   "double",         "int32_t",       "int64_t",
                                          "bool",    "weft::BFloat16", "weft::Float16", "int8_t",
                                          "int16_t", "uint8_t"};
  std::string values;
  bool is_double = tensor.dtype() == float64;
  std::vector<double> doubles = is_double ? tensor.to_vector<double>() : std::vector<double>();
  if (!is_double)
    for (float x : tensor.to_vector<float>())
      doubles.push_back(x);
  for (double x : doubles)
    values += (values.empty() ? "" : ", ") + number(x, tensor.dtype());
  std::string text = std::string("weft::Tensor::from(std::vector<") +
                     kElements[static_cast<int>(tensor.dtype())] + ">{" + values +
                     "}, weft::Shape{" + list(tensor.shape()) + "})";
  if (tensor.requires_grad())
    text += ".set_requires_grad()";
  return text;
}

std::string call_text(const Step &step, const std::string &form) {
  std::string text;
  for (size_t i = 0; i < form.size(); ++i) {
    char kind = form[i];
    if ((kind != '$' && kind != '#' && kind != '%' && kind != '@') || i + 1 == form.size() ||
        form[i + 1] < '0' || form[i + 1] > '9') {
      text += kind;
      continue;
    }
    size_t at = static_cast<size_t>(form[++i] - '0');
    if (kind == '$')
      text += at < step.args.size() ? variable(step.args[at]) : "weft::Tensor()";
    else if (kind == '#')
      text += list(step.numbers[at]);
    else if (kind == '%') {
      char scalar[32];
      std::snprintf(scalar, sizeof scalar, "%.3f",
                    static_cast<double>(step.numbers[at][0]) / kScalarUnit);
      text += scalar;
    } else {
      static const char *const kNames[] = {
          "weft::float32",  "weft::float64", "weft::int32", "weft::int64", "weft::boolean",
          "weft::bfloat16", "weft::float16", "weft::int8",  "weft::int16", "weft::uint8"};
      text += kNames[step.numbers[at][0]];
    }
  }
  return text;
}

constexpr const char *kGradient =
    R"(auto gradient = [](const weft::Tensor &y, const weft::Tensor &x, bool create_graph) {
  weft::Tensor g = weft::grad({y}, {x}, {.create_graph = create_graph, .retain_graph = true, .allow_unused = true})[0];
  return g.defined() ? g : weft::zeros_like(x);
};
)";
constexpr const char *kBackward =
    R"(auto backward = [](const weft::Tensor &y, const weft::Tensor &x) {
  y.backward({}, true);
  return x.grad().defined() ? x.grad() : weft::zeros_like(x);
};
)";

std::string declaration(size_t place, const std::string &value) {
  return "weft::Tensor " + variable(static_cast<int>(place)) + " = " + value + ";\n";
}

std::string step_text(const Program &program, size_t place) {
  const Step &step = program.steps[place];
  const Call &call = calls().at(step.call);
  std::string done = call_text(step, call.text);
  if (!call.writes)
    return declaration(place, done);
  return done + ";\n" + declaration(place, variable(step.args[0]));
}

// What the lines use beside the library, and the seed.
std::string preamble(const Program &program) {
  bool gradient = false, backward = false, random = false;
  for (const Step &step : program.steps) {
    gradient |= step.call == "grad";
    backward |= step.call == "backward";
    random |= step.call.starts_with("rand") || step.call == "dropout";
  }
  std::string text;
  if (gradient)
    text += kGradient;
  if (backward)
    text += kBackward;
  if (random)
    text += "weft::manual_seed(" + std::to_string(program.seed) + "u);\n";
  return text;
}

std::string variables(const std::vector<int> &places) {
  std::string text;
  for (size_t i = 0; i < places.size(); ++i)
    text += (i ? ", " : "") + variable(places[i]);
  return "{" + text + "}";
}

} // namespace

std::string to_cpp(const Program &program) {
  std::string text = preamble(program);
  for (size_t i = 0; i < program.steps.size(); ++i)
    text += is_input(program.steps[i]) ? declaration(i, input_text(program.steps[i]))
                                       : step_text(program, i);
  return text + "weft::eval(" + variables(program.outputs) + ");\n";
}

std::string function_to_cpp(const Program &program) {
  FunctionForm form = form_of(program);
  std::string text = preamble(program), second;
  for (size_t i = 0; i < program.steps.size(); ++i)
    if (is_input(program.steps[i]))
      text +=
          declaration(i, form.same[i] >= 0 ? variable(form.same[i]) : input_text(program.steps[i]));
  text += "auto function = [&](const std::vector<weft::Tensor> &arguments) -> "
          "std::vector<weft::Tensor> {\n";
  for (size_t i = 0; i < form.arguments.size(); ++i)
    text +=
        declaration(static_cast<size_t>(form.arguments[i]), "arguments[" + std::to_string(i) + "]");
  for (size_t i = 0; i < program.steps.size(); ++i)
    if (program.steps[i].call == "eval")
      text += declaration(i, variable(program.steps[i].args[0]));
    else if (!is_input(program.steps[i]))
      text += step_text(program, i);
  text += "return " + variables(program.outputs) + ";\n};\n";
  std::string passed = variables(form.arguments);
  text +=
      "auto f = weft::jit(function); // or function itself, with its results cloned; or the run "
      "of weft::trace(function, " +
      passed + ")\nweft::eval(f(" + passed + "));\n";
  for (int place : form.arguments) {
    auto at = static_cast<size_t>(place);
    Step other = program.steps[at];
    ++other.numbers[0][1];
    if (form.other_values)
      text += variable(place) + " = " +
              (form.same[at] >= 0 ? variable(form.same[at]) : input_text(other)) + ";\n";
  }
  return text + "std::vector<weft::Tensor> results = f(" + passed +
         ");\nfor (weft::Tensor &result : results)\n  if (result.requires_grad()) // not of a "
         "trace\n    weft::sum(result).backward({}, true);\nweft::NoGrad no_grad;\nfor "
         "(weft::Tensor &result : results)\n  if (result.dtype() != weft::boolean)\n    "
         "result.add_(1);\n";
}

} // namespace weft::fuzz
