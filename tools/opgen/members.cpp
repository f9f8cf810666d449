// members: writes the definitions of those members of Tensor that are a function with the tensor
// first, from their declarations in two sections of tensor.h. Usage: members TENSOR.h > OUTPUT
#include <fstream>
#include <iostream>
#include <iterator>
#include <regex>
#include <stdexcept>
#include <string>

namespace {

// A member as it is declared: its type, its name, whether it writes in place, its parameters before
// the location, whether it is const.
const char *const kDeclaration =
    R"((\w[\w:<>, ]* &?)(\w+?)(_?)\(([^;]*?)Location location = Location::current\(\)\)( const)?;)";

std::string between(const std::string &text, const std::string &from, const std::string &to) {
  size_t begin = text.find(from), end = text.find(to, begin + from.size());
  if (end == std::string::npos)
    throw std::runtime_error("no section from \"" + from + "\" to \"" + to + "\"");
  return text.substr(begin, end - begin);
}

// Defines what the section declares. `body` may name the member without an underscore at its end
// ($2) and its arguments ($A), each of which has a comma behind it.
void define(const std::string &section, const std::string &body) {
  static const std::regex declaration(kDeclaration), comment("//[^\n]*|#([^\n]*\\\\\n)*[^\n]*"),
      spaces("\\s+"), given(R"( = (\{[^}]*\}|[^,{}]+))"), parameter(R"(([^,]+[ &])(\w+),)"),
      place("\\$A");
  std::string text = std::regex_replace(section, comment, "");
  text = std::regex_replace(text, spaces, " ");
  for (std::sregex_iterator it(text.begin(), text.end(), declaration), end; it != end; ++it) {
    std::string parameters = std::regex_replace((*it)[4].str(), given, "");
    std::string arguments = std::regex_replace(parameters, parameter, "std::forward<$1>($2),");
    std::cout << (*it)[1] << "Tensor::" << (*it)[2] << (*it)[3] << "(" << parameters
              << "Location location)" << (*it)[5] << " {\n  "
              << it->format(std::regex_replace(body, place, arguments)) << "\n}\n";
  }
}

} // namespace

int main(int argc, char **argv) try {
  std::ifstream file(argc == 2 ? argv[1] : "");
  std::string header{std::istreambuf_iterator<char>(file), {}};
  std::cout << "// Generated from tensor.h by tools/opgen/members.cpp.\n";
  define(between(header, "// --- The functions of", "// --- "),
         "return weft::$2(Self{*this, location}, $A location);");
  define(between(header, "// The functions of these names without", "Tensor &operator+="),
         "return replace(*this, \"$2_\", location, [&] { return $2($A location); });");
} catch (const std::exception &error) {
  std::cerr << "members: " << error.what() << "\n";
  return 2;
}
