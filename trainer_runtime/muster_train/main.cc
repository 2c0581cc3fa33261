// muster-train: see options.h for what it is told, run.h for what it does.

#include <cstdio>

#include "trainer_runtime/muster_train/options.h"
#include "trainer_runtime/muster_train/run.h"

int main(int argc, char** argv) {
  // Lines come out as they are written, whoever reads them.
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const auto parsed = muster::train_program::ParseCommandLine(argc, argv);
  if (parsed.ends) return parsed.exit_code;
  return muster::train_program::Run(parsed.options);
}
