#include "rendezvousd/core/answers.h"

#include "rendezvousd/core/limits.h"

namespace muster::core {

void AnswerMemory::Remember(std::uint64_t number, const Answer& answer) {
  if (number == 0) return;
  answers_.emplace(number, answer);
  if (answers_.size() > limits::kRememberedAnswers) answers_.erase(answers_.begin());
}

const Answer* AnswerMemory::Find(std::uint64_t number) const {
  const auto found = answers_.find(number);
  return number == 0 || found == answers_.end() ? nullptr : &found->second;
}

}  // namespace muster::core
