#include "cli/man_page.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "cli/page.h"
#include "cli/program.h"

namespace keyway::cli {
namespace {

std::string upper(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char letter) {
    return static_cast<char>(std::toupper(letter));
  });
  return text;
}

// Text that roff leaves as it is.
std::string roff(std::string_view text) {
  std::string safe;
  for (const char letter : text) {
    if (letter == '\\') {
      safe += "\\e";
    } else if (letter == '-') {
      safe += "\\-";
    } else if (letter == '\'') {
      safe += "\\(aq";
    } else {
      safe += letter;
    }
  }
  // A line that begins with a dot would be a request.
  if (safe.starts_with('.')) safe.insert(0, "\\&");
  return safe;
}

// What is typed, between backquotes, is bold; so are flags in running text.
std::string roff_prose(std::string_view text) {
  std::string line;
  bool typed = false;
  while (!text.empty()) {
    const std::size_t mark = text.find('`');
    const std::string_view part = text.substr(0, mark);
    text.remove_prefix(mark == std::string_view::npos ? text.size() : mark + 1);
    line += typed ? fmt::format("\\fB{}\\fR", roff(part)) : roff(part);
    typed = !typed;
  }
  return line;
}

std::string roff_sample(std::string_view sample) {
  std::string text = ".PP\n.RS 4\n.nf\n";
  while (!sample.empty()) {
    const std::size_t end = sample.find('\n');
    text += roff(sample.substr(0, end)) + "\n";
    sample.remove_prefix(end == std::string_view::npos ? sample.size() : end + 1);
  }
  return text + ".fi\n.RE\n";
}

std::string roff_section(const PageSection& section) {
  std::string text = section.is_sub ? fmt::format(".SS {}\n", roff(section.title))
                                    : fmt::format(".SH {}\n", roff(upper(section.title)));
  for (const PageItem& item : section.items) {
    bool first = true;
    if (!item.term.empty()) text += fmt::format(".TP\n.B {}\n", roff(item.term));
    for (const std::string& paragraph : item.paragraphs) {
      if (item.term.empty()) {
        text += ".PP\n";
      } else if (!first) {
        text += ".IP\n";
      }
      text += roff_prose(paragraph) + "\n";
      first = false;
    }
  }
  if (!section.sample.empty()) text += roff_sample(section.sample);
  return text;
}

std::string roff_head(const std::string& page, const std::string& version,
                      const std::string& purpose) {
  return fmt::format(
      ".TH {} 1 \"\" \"keyway {}\" \"Keyway Manual\"\n.ad l\n.nh\n.SH NAME\n{} \\- {}\n"
      ".SH SYNOPSIS\n",
      roff(upper(page)), version, roff(page), roff_prose(purpose));
}

std::string roff_see_also(const std::vector<std::string>& pages) {
  std::string text = ".SH SEE ALSO\n";
  for (std::size_t at = 0; at < pages.size(); ++at) {
    const std::size_t brace = pages[at].find('(');
    text += fmt::format(".BR {} {}{}\n", roff(pages[at].substr(0, brace)),
                        brace == std::string::npos ? "" : pages[at].substr(brace),
                        at + 1 < pages.size() ? "," : "");
  }
  return text;
}

// A term or cell: what is typed, as it is.
std::string code(const std::string& text) { return "`" + text + "`"; }

}  // namespace

std::string man_page(const CommandSpec& spec, const std::string& version) {
  std::string text = roff_head("keyway-" + spec.name, version, spec.purpose);
  text += fmt::format(".B {}\n", roff(spec.synopsis()));
  for (const PageSection& section : page_sections(spec)) text += roff_section(section);
  std::vector<std::string> pages = {"keyway(1)"};
  pages.insert(pages.end(), spec.see_also.begin(), spec.see_also.end());
  return text + roff_see_also(pages);
}

std::string overview_man_page(const Program& program) {
  std::string text = roff_head("keyway", program.version(), program.purpose());
  text += fmt::format(".B {}\n", roff("keyway COMMAND [OPTION]... [ARGUMENT]..."));
  for (const PageSection& section : overview_sections(program)) text += roff_section(section);
  std::vector<std::string> pages;
  for (const Command& command : program.commands()) {
    pages.push_back(fmt::format("keyway-{}(1)", command.spec.name));
  }
  return text + roff_see_also(pages);
}

std::string markdown_page(const CommandSpec& spec) {
  std::string text =
      fmt::format("# keyway {}\n\n{}.\n\n```\n{}\n```\n", spec.name,
                  upper(spec.purpose.substr(0, 1)) + spec.purpose.substr(1), spec.synopsis());
  for (const PageSection& section : page_sections(spec)) {
    text += fmt::format("\n{} {}\n", section.is_sub ? "###" : "##", section.title);
    bool in_list = false;
    for (const PageItem& item : section.items) {
      const bool is_term = !item.term.empty();
      if (!is_term || !in_list) text += "\n";
      in_list = is_term;
      if (is_term) text += fmt::format("- {}: ", code(item.term));
      for (std::size_t at = 0; at < item.paragraphs.size(); ++at) {
        text += (at == 0 ? "" : " ") + item.paragraphs[at];
      }
      text += "\n";
    }
    if (!section.sample.empty()) text += fmt::format("\n```\n{}```\n", section.sample);
  }
  return text;
}

}  // namespace keyway::cli
