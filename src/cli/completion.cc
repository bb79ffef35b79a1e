#include "cli/completion.h"

#include <fmt/format.h>

#include "cli/help_text.h"

namespace keyway::cli {
namespace {

std::string joined(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + word;
  return line;
}

std::vector<const OptionSpec*> all_options(const CommandSpec& spec) {
  std::vector<const OptionSpec*> options;
  for (const OptionGroup& group : grouped_options(spec)) {
    options.insert(options.end(), group.options.begin(), group.options.end());
  }
  return options;
}

// In single quotes, for any of the three shells.
std::string shell_quoted(std::string_view text) {
  std::string safe = "'";
  for (const char letter : text)
    safe += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return safe + "'";
}

std::string command_names(const Program& program) {
  std::vector<std::string> names;
  for (const Command& command : program.commands()) names.push_back(command.spec.name);
  return joined(names);
}

// What bash's compgen is to offer for a value; empty: nothing.
std::string bash_values(ValueKind kind, const std::vector<std::string>& choices) {
  if (kind == ValueKind::kFile)
    return "compopt -o filenames 2>/dev/null; values=$(compgen -f -- \"$cur\")";
  if (kind == ValueKind::kFolder)
    return "compopt -o filenames 2>/dev/null; values=$(compgen -d -- \"$cur\")";
  if (kind == ValueKind::kCommand) return "values=$(compgen -c -- \"$cur\")";
  if (choices.empty()) return "values=";
  return fmt::format("values=$(compgen -W {} -- \"$cur\")", shell_quoted(joined(choices)));
}

// The words "--jobs|-j" of a case.
std::string bash_pattern(const OptionSpec& option) {
  return option.letter == 0 ? option.flag() : fmt::format("{}|-{}", option.flag(), option.letter);
}

std::string bash_command(const CommandSpec& spec) {
  std::string text = fmt::format("    {})\n      case $previous in\n", spec.name);
  std::vector<std::string> flags;
  for (const OptionSpec* const option : all_options(spec)) {
    flags.push_back(option->flag());
    if (option->value.empty()) continue;
    text += fmt::format("        {}) {} ;;\n", bash_pattern(*option),
                        bash_values(option->kind, option->choices));
  }
  text += "        *)\n";
  text += fmt::format(
      "          if [[ $cur == -* ]]; then\n            values=$(compgen -W {} -- \"$cur\")\n",
      shell_quoted(joined(flags)));
  if (!spec.arguments.empty()) {
    const ArgumentSpec& argument = spec.arguments.front();
    text += fmt::format("          else\n            {}\n",
                        bash_values(argument.kind, argument.choices));
  }
  return text + "          fi ;;\n      esac ;;\n";
}

// A text inside an _arguments specification: brackets and colons end its parts.
std::string zsh_safe(std::string_view text) {
  std::string safe;
  for (const char letter : plain(text)) {
    if (letter == '[' || letter == ']' || letter == ':' || letter == '\\') safe += '\\';
    safe += letter;
  }
  return safe;
}

std::string zsh_action(ValueKind kind, const std::vector<std::string>& choices) {
  if (kind == ValueKind::kFile) return "_files";
  if (kind == ValueKind::kFolder) return "_files -/";
  if (kind == ValueKind::kCommand) return "_command_names -e";
  return choices.empty() ? " " : fmt::format("({})", joined(choices));
}

std::string zsh_option(const OptionSpec& option) {
  std::string what = fmt::format("[{}]", zsh_safe(option.help));
  if (!option.value.empty()) {
    what += fmt::format(":{}:{}", zsh_safe(option.value), zsh_action(option.kind, option.choices));
  }
  const std::string flag = option.value.empty() ? option.flag() : option.flag() + "=";
  if (option.letter == 0) return fmt::format("        {} \\\n", shell_quoted(flag + what));
  const std::string both = fmt::format("(-{} {})", option.letter, option.flag());
  const std::string letter = fmt::format("-{}{}", option.letter, option.value.empty() ? "" : "+");
  return fmt::format("        {} \\\n        {} \\\n", shell_quoted(both + letter + what),
                     shell_quoted(both + flag + what));
}

std::string fish_option(const std::string& command, const OptionSpec& option) {
  std::string line = fmt::format("complete -c keyway -n '__fish_seen_subcommand_from {}' -l {}",
                                 command, option.name);
  if (option.letter != 0) line += fmt::format(" -s {}", option.letter);
  if (!option.value.empty()) {
    if (option.kind == ValueKind::kFile) {
      line += " -r -F";
    } else if (option.kind == ValueKind::kFolder) {
      line += " -x -a '(__fish_complete_directories)'";
    } else {
      line += " -x";
      if (!option.choices.empty())
        line += fmt::format(" -a {}", shell_quoted(joined(option.choices)));
    }
  }
  return line + fmt::format(" -d {}\n", shell_quoted(plain(option.help)));
}

}  // namespace

std::string bash_completion(const Program& program) {
  std::string text =
      "# bash completion for keyway: source <(keyway completion bash)\n"
      "_keyway() {\n"
      "  local cur=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} values=\n"
      "  # bash takes --flag=value apart at the =.\n"
      "  if [[ $cur == = ]]; then\n"
      "    cur=\n"
      "  elif [[ $previous == = ]]; then\n"
      "    previous=${COMP_WORDS[COMP_CWORD-2]}\n"
      "  fi\n"
      "  COMPREPLY=()\n"
      "  if (( COMP_CWORD == 1 )); then\n";
  text += fmt::format("    values=$(compgen -W {} -- \"$cur\")\n",
                      shell_quoted(command_names(program) + " --help --version"));
  text += "  else\n    case ${COMP_WORDS[1]} in\n";
  for (const Command& command : program.commands()) text += bash_command(command.spec);
  text +=
      "    esac\n"
      "  fi\n"
      "  [[ -z $values ]] || mapfile -t COMPREPLY <<<\"$values\"\n"
      "}\n"
      "complete -F _keyway keyway\n";
  return text;
}

std::string zsh_completion(const Program& program) {
  std::string text =
      "#compdef keyway\n"
      "# zsh completion for keyway: keyway completion zsh > a folder of $fpath, as _keyway\n"
      "_keyway() {\n"
      "  local line state\n"
      "  local -a commands\n"
      "  commands=(\n";
  for (const Command& command : program.commands()) {
    text += fmt::format("    {}\n",
                        shell_quoted(command.spec.name + ":" + zsh_safe(command.spec.purpose)));
  }
  text +=
      "  )\n"
      "  _arguments -C '(-h --help)'{-h,--help}'[show help]' '--version[show the version]' \\\n"
      "    '1:command:->command' '*::argument:->argument' && return\n"
      "  if [[ $state == command ]]; then\n"
      "    _describe 'command' commands\n"
      "    return\n"
      "  fi\n"
      "  case $line[1] in\n";
  for (const Command& command : program.commands()) {
    text += fmt::format("    {})\n      _arguments -s \\\n", command.spec.name);
    for (const OptionSpec* const option : all_options(command.spec)) text += zsh_option(*option);
    for (const ArgumentSpec& argument : command.spec.arguments) {
      const char* const how_many = argument.repeats ? "*:" : argument.required ? ":" : "::";
      text += fmt::format("        {} \\\n",
                          shell_quoted(fmt::format("{}{}:{}", how_many, zsh_safe(argument.name),
                                                   zsh_action(argument.kind, argument.choices))));
      if (argument.repeats) break;  // it takes all words there are
    }
    text += "        && return ;;\n";
  }
  text +=
      "  esac\n"
      "}\n"
      "if [[ $funcstack[1] == _keyway ]]; then\n"
      "  _keyway \"$@\"\n"
      "else\n"
      "  compdef _keyway keyway\n"
      "fi\n";
  return text;
}

std::string fish_completion(const Program& program) {
  std::string text =
      "# fish completion for keyway: keyway completion fish | source\n"
      "complete -c keyway -f\n";
  text += "complete -c keyway -n __fish_use_subcommand -s h -l help -d 'show help'\n";
  text += "complete -c keyway -n __fish_use_subcommand -l version -d 'show the version'\n";
  for (const Command& command : program.commands()) {
    text += fmt::format("complete -c keyway -n __fish_use_subcommand -a {} -d {}\n",
                        command.spec.name, shell_quoted(plain(command.spec.purpose)));
  }
  for (const Command& command : program.commands()) {
    const std::string& name = command.spec.name;
    for (const OptionSpec* const option : all_options(command.spec)) {
      text += fish_option(name, *option);
    }
    if (command.spec.arguments.empty()) continue;
    const ArgumentSpec& argument = command.spec.arguments.front();
    const std::string line =
        fmt::format("complete -c keyway -n '__fish_seen_subcommand_from {}'", name);
    if (argument.kind == ValueKind::kFile) text += line + " -F\n";
    if (argument.kind == ValueKind::kCommand) text += line + " -a '(__fish_complete_command)'\n";
    if (!argument.choices.empty()) {
      text += fmt::format("{} -a {}\n", line, shell_quoted(joined(argument.choices)));
    }
  }
  return text;
}

}  // namespace keyway::cli
