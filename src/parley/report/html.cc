#include "parley/report/html.h"

#include <fmt/format.h>

namespace parley {
namespace {

std::string spans(const std::vector<std::string>& labels) {
  std::string result;
  for (const auto& label : labels) result += fmt::format("<span>{}</span>", escape(label));
  return result;
}

}  // namespace

std::string escape(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&': result += "&amp;"; break;
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      case '"': result += "&quot;"; break;
      case '\'': result += "&#39;"; break;
      default: result += c;
    }
  }
  return result;
}

std::string swatch(std::size_t number) {
  constexpr const char* kDashes[] = {"", "7 4", "2 4", "10 3 2 3"};
  const char* dash = kDashes[number / kColours % std::size(kDashes)];
  return fmt::format(
      "<svg class=\"swatch\" viewBox=\"0 0 22 10\" aria-hidden=\"true\"><line x1=\"0\" x2=\"22\" y1=\"5\" y2=\"5\" "
      "stroke=\"var(--s{})\"{}/></svg>",
      number % kColours, *dash ? fmt::format(" stroke-dasharray=\"{}\"", dash) : "");
}

std::string column_head(std::string_view head, std::string_view meaning) {
  return fmt::format("<th scope=\"col\" title=\"{}\">{}</th>", escape(meaning), escape(head));
}

std::string framed_drawing(std::string_view shapes, std::string_view what, const std::vector<std::string>& beside,
                           const std::vector<std::string>& below) {
  return fmt::format(
      "<div class=\"framed\"><div class=\"beside\">{}</div><svg viewBox=\"0 0 1000 1000\" preserveAspectRatio=\"none\" "
      "role=\"img\" aria-label=\"{}\">{}</svg><div class=\"below\">{}</div></div>\n",
      spans(beside), escape(what), shapes, spans(below));
}

}  // namespace parley
