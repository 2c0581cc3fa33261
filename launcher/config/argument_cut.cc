#include "launcher/config/argument_cut.h"

#include <cstddef>

#include "common/text.h"

namespace muster::config {
namespace {

class Cutter {
 public:
  Cutter(const std::vector<std::string>& words, const FindShape& find,
         const std::function<std::string(std::string_view)>& suggest)
      : words_(words), find_(find), suggest_(suggest) {}

  Result<Cut> Run() {
    while (next_ < words_.size()) {
      const std::string& word = words_[next_];
      if (word == "--") {
        cut_.dashes = true;
        ++next_;
        break;
      }
      // A lone dash is a file name by custom.
      if (word.size() < 2 || word[0] != '-') break;
      ++next_;
      MUSTER_RETURN_IF_ERROR(word[1] == '-' ? Long(word) : Letters(word));
    }
    for (; next_ < words_.size(); ++next_) cut_.program.push_back(words_[next_]);
    return std::move(cut_);
  }

 private:
  Status Long(const std::string& word) {
    const std::size_t equal = word.find('=');
    const std::string name = word.substr(2, equal == std::string::npos ? equal : equal - 2);
    const OptionShape* shape = find_(name, 0);
    if (shape == nullptr) return Unknown(Concat("--", name), name);
    if (equal == std::string::npos) return Take(*shape, Concat("--", name));
    if (shape->arity == Arity::kNone) {
      return InvalidArgument(Concat("option --", name, " takes no value, but has ",
                                    Quote(word.substr(equal + 1)), "; give just --", name));
    }
    cut_.options.push_back({shape, word.substr(equal + 1)});
    return OkStatus();
  }

  // "-N4", "-N 4", and several letters without values: "-hN4".
  Status Letters(const std::string& word) {
    for (std::size_t i = 1; i < word.size(); ++i) {
      const OptionShape* shape = find_("", word[i]);
      const std::string shown = Concat("-", word[i]);
      if (shape == nullptr) return Unknown(shown, "");
      if (shape->arity == Arity::kNone) {
        cut_.options.push_back({shape, std::nullopt});
        continue;
      }
      if (i + 1 == word.size()) return Take(*shape, shown);
      cut_.options.push_back({shape, word.substr(i + 1)});
      return OkStatus();
    }
    return OkStatus();
  }

  // The option stands alone in its word: the value, if it has one, is the next.
  Status Take(const OptionShape& shape, const std::string& shown) {
    std::optional<std::string> value;
    const bool there = next_ < words_.size() && words_[next_] != "--";
    if (shape.arity == Arity::kRequired) {
      if (!there) {
        return InvalidArgument(Concat("option ", shown, " needs a value: ", shown, " ",
                                      shape.value_name.empty() ? "VALUE" : shape.value_name));
      }
      value = words_[next_++];
    } else if (shape.arity == Arity::kOptional && there && shape.accepts(words_[next_])) {
      value = words_[next_++];
    }
    cut_.options.push_back({&shape, std::move(value)});
    return OkStatus();
  }

  Status Unknown(const std::string& shown, std::string_view name) const {
    const std::string nearest = name.empty() ? "" : suggest_(name);
    return InvalidArgument(
        Concat("unknown option ", shown,
               nearest.empty() ? "; --help lists the options, and a program's own options stand "
                                 "behind its name"
                               : Concat("; did you mean --", nearest, "?")));
  }

  const std::vector<std::string>& words_;
  const FindShape& find_;
  const std::function<std::string(std::string_view)>& suggest_;
  std::size_t next_ = 0;
  Cut cut_;
};

}  // namespace

std::string CutOption::Word() const {
  if (shape->name.empty()) return Concat("-", shape->letter, value.value_or(""));
  return value ? Concat("--", shape->name, "=", *value) : Concat("--", shape->name);
}

Result<Cut> CutArguments(const std::vector<std::string>& words, const FindShape& find,
                         const std::function<std::string(std::string_view)>& suggest) {
  return Cutter(words, find, suggest).Run();
}

}  // namespace muster::config
