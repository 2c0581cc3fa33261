#include <exception>

#include "common/log.h"
#include "launcher/cli/command.h"

int main(int argc, char** argv) {
  try {
    return muster::cli::Main(muster::cli::Words(argv + (argc > 0 ? 1 : 0), argv + argc));
  } catch (const std::exception& error) {
    muster::LogError(error.what());
    return 1;
  }
}
