#include "rendezvousd/server/crash_mark.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <utility>

#include "common/text.h"

namespace muster::server {

namespace {
constexpr std::uint64_t kMarkMagic = 0x314B52414D435553;  // tells an empty file from one of ours
// A run that needs more records set aside than these is not worth going on with.
constexpr std::size_t kSetAsideMax = 16;
}  // namespace

// All zero in a new file. Records are stored plus one, so that 0 means none.
struct CrashMark::Page {
  std::uint64_t magic;
  std::uint64_t current;  // being stepped
  std::uint64_t suspect;  // at which the last daemon died
  std::uint32_t crashes;  // at `suspect`, one after another
  std::uint32_t set_aside_count;
  std::array<std::uint64_t, kSetAsideMax> set_aside;
};

Result<std::unique_ptr<CrashMark>> CrashMark::Open(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return FromErrno(errno, "cannot open " + path);
  // Allocated, not sparse: a store to the mapping must not fail on a full disk.
  const int error = posix_fallocate(fd, 0, sizeof(Page));
  void* memory = error != 0
                     ? MAP_FAILED
                     : mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  const int map_error = error != 0 ? error : errno;
  close(fd);
  if (memory == MAP_FAILED) return FromErrno(map_error, "cannot prepare " + path);
  std::unique_ptr<CrashMark> mark(new CrashMark(static_cast<Page*>(memory)));
  if (mark->page_->magic != kMarkMagic || mark->page_->set_aside_count > kSetAsideMax) {
    *mark->page_ = Page{};
    mark->page_->magic = kMarkMagic;
  }
  mark->CountCrash();
  return mark;
}

CrashMark::~CrashMark() { munmap(page_, sizeof(Page)); }

void CrashMark::CountCrash() {
  const std::uint64_t current = std::exchange(page_->current, 0);
  if (current == 0) return;
  page_->crashes = page_->suspect == current ? page_->crashes + 1 : 1;
  page_->suspect = current;
  if (page_->crashes < kCrashesMax || page_->set_aside_count >= kSetAsideMax) return;
  page_->set_aside[page_->set_aside_count++] = current;
  page_->suspect = 0;
  page_->crashes = 0;
}

Status CrashMark::status() const {
  if (page_->crashes < kCrashesMax) return OkStatus();
  return ResourceExhausted(Concat("the daemon died at record ", page_->suspect - 1,
                                  " of its journal again, after ", kSetAsideMax,
                                  " other records were set aside"));
}

bool CrashMark::IsSetAside(std::uint64_t record) const {
  const auto end = page_->set_aside.begin() + page_->set_aside_count;
  return std::find(page_->set_aside.begin(), end, record + 1) != end;
}

void CrashMark::Enter(std::uint64_t record) {
  page_->current = record + 1;
  std::atomic_signal_fence(std::memory_order_seq_cst);  // stored before the step begins
}

void CrashMark::Leave() {
  std::atomic_signal_fence(std::memory_order_seq_cst);
  page_->current = 0;
}

}  // namespace muster::server
