#include "launcher/config/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "common/text.h"

namespace muster::config {
namespace {

enum Owner { kMuster = 0, kForeign = 1 };

bool IsLikeNumber(std::string_view word) {
  return word.find_first_of("0123456789") != std::string_view::npos &&
         word.find_first_not_of("0123456789xX.,:e+ ") == std::string_view::npos;
}

class Shapes {
 public:
  Shapes(unsigned command, const ForeignShapes& foreign) {
    for (const Option& option : AllOptions()) {
      if ((option.commands & command) == 0) continue;
      Arity arity = TakesValue(option) ? Arity::kRequired : Arity::kNone;
      if (ValueOptional(option)) arity = Arity::kOptional;
      OptionShape shape{std::string(option.name), option.letter, arity,
                        std::string(option.value_name)};
      shape.accepts = [&option](std::string_view word) {
        // "--local 0" is a wrong value, not a program of that name.
        return !word.empty() && (CheckValue(option, word).ok() || IsLikeNumber(word));
      };
      shape.owner = kMuster;
      shapes_.push_back(std::move(shape));
    }
    for (OptionShape shape : foreign) {
      shape.owner = kForeign;
      shapes_.push_back(std::move(shape));
    }
  }

  const OptionShape* Find(std::string_view name, char letter) const {
    const auto found = std::ranges::find_if(shapes_, [&](const OptionShape& shape) {
      return letter != 0 ? shape.letter == letter : (!name.empty() && shape.name == name);
    });
    return found == shapes_.end() ? nullptr : &*found;
  }

 private:
  std::vector<OptionShape> shapes_;
};

// The words left of the cut, through CLI11: which option had which values, in the table's terms.
Result<std::map<std::string, std::vector<std::string>>> Parse(unsigned command,
                                                              std::vector<std::string> words) {
  CLI::App app;
  app.set_help_flag();
  std::map<std::string, std::vector<std::string>> texts;
  std::map<std::string, bool> flags;
  for (const Option& option : AllOptions()) {
    if ((option.commands & command) == 0) continue;
    const std::string name(option.name);
    if (option.kind == Kind::kFlag) {
      app.add_flag(Concat("--", name), flags[name]);
    } else {
      app.add_option(Concat("--", name), texts[name])
          ->expected(ValueOptional(option) ? 0 : 1, 1)
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
          ->allow_extra_args(false);
    }
  }
  try {
    std::ranges::reverse(words);
    app.parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    return InvalidArgument(error.what());
  }
  for (const auto& [name, given] : flags) {
    if (given) texts[name] = {"yes"};
  }
  for (const Option& option : AllOptions()) {
    const auto text = texts.find(std::string(option.name));
    if (text == texts.end() || !ValueOptional(option) || !text->second.empty()) continue;
    if (app.count(Concat("--", option.name)) > 0) text->second = {""};
  }
  return texts;
}

}  // namespace

Result<CommandLine> ParseCommandLine(unsigned command, const std::vector<std::string>& words,
                                     Settings settings, const ForeignShapes& foreign) {
  const Shapes shapes(command, foreign);
  MUSTER_ASSIGN_OR_RETURN(
      Cut cut,
      CutArguments(
          words, [&](std::string_view name, char letter) { return shapes.Find(name, letter); },
          [&](std::string_view name) { return NearestOption(name, command); }));
  CommandLine line{std::move(settings), std::move(cut.program), cut.dashes, {}};
  std::vector<std::string> own;
  for (const CutOption& option : cut.options) {
    if (option.shape->owner == kForeign) {
      line.foreign.push_back(option.Word());
    } else {
      // CLI11 takes an empty value for a missing one; the table says what is right instead.
      if (option.value && option.value->empty()) {
        MUSTER_RETURN_IF_ERROR(line.settings.Set(*FindOption(option.shape->name), "",
                                                 Source::kCommandLine,
                                                 Concat("--", option.shape->name)));
        continue;
      }
      own.push_back(option.Word());
    }
  }
  MUSTER_ASSIGN_OR_RETURN(const auto texts, Parse(command, std::move(own)));
  for (const Option& option : AllOptions()) {
    const auto text = texts.find(std::string(option.name));
    if (text == texts.end()) continue;
    for (const std::string& value : text->second) {
      MUSTER_RETURN_IF_ERROR(
          line.settings.Set(option, value, Source::kCommandLine, Concat("--", option.name)));
    }
  }
  return line;
}

}  // namespace muster::config
