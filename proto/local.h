#pragma once

// The frames between an agent and its workers, on the Unix stream socket MUSTER_AGENT_SOCKET.
//
// A frame is a header of 8 bytes (payload length u32, type u16, version u16; little-endian) and the
// payload: fields in the order listed, integers little-endian, strings as u32 length and bytes. A
// reader refuses a frame above kFrameBytesMax, an unknown version and any field that does not fit;
// it ignores unknown types, and bytes after the last known field, so that fields can be added at
// the end. Workers send numbered requests; each gets exactly one kAnswer.
//
// Plain C++20 without dependency: libmuster links libc and libstdc++ alone. Used by
// launcher/agent (server) and trainer_runtime/session (client), and fuzzed.

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

namespace muster::local {

inline constexpr std::uint16_t kVersion = 1;
// A key's value may have 1 MiB; the rest is room for names. More than that is a file's business.
inline constexpr std::uint32_t kFrameBytesMax = (1u << 20) + (64u << 10);
inline constexpr std::size_t kHeaderBytes = 8;

enum class FrameType : std::uint16_t {
  // worker -> agent
  kRegister = 1,  // flags u32 (kCanReform), pid i32
  kProgress = 2,  // phase u8, step i64 (the step just finished; -1 before the first)
  kQuiesced = 3,  // attempt u32, round u32, step i64: collectives of that round are over here
  kBroken = 4,    // attempt u32, round u32, reason string: the communicator failed
  kKeySet = 10,   // id u64, scope u8, key, value string
  kKeyGet = 11,   // id u64, scope u8, key
  kKeyWait = 12,  // id u64, scope u8, timeout_ms u64, key
  kKeyAdd = 13,   // id u64, scope u8, delta i64, key
  kBarrier = 14,  // id u64, timeout_ms u64, name string: all ranks of the round
  kRequest = 20,  // id u64, kind u8 (RequestKind), reason string
  // agent -> worker
  kRound = 100,        // a RoundInfo; the answer to kRegister, and again for each new round
  kRoundEnding = 101,  // attempt u32, round u32, cause string: abort collectives, then kQuiesced
  kAnswer = 102,       // id u64, code u32 (StatusCode), message string, value string, number i64
  kStopAt = 103,       // step i64, reason string: leave after this step
};

enum RegisterFlags : std::uint32_t { kCanReform = 1 };
enum class Phase : std::uint8_t { kInit = 0, kStep = 1, kCheckpoint = 2 };
enum class KeyScope : std::uint8_t { kRound = 0, kRun = 1 };
enum class RequestKind : std::uint8_t { kRequeue = 0, kStop = 1, kDone = 2 };

// Appends fields to a frame. Finish() gives the bytes to send, header included.
class FrameWriter {
 public:
  explicit FrameWriter(FrameType type) {
    bytes_.resize(kHeaderBytes);
    Store(4, static_cast<std::uint16_t>(type));
    Store(6, kVersion);
  }
  template <typename T>
  FrameWriter& Add(T value) {
    static_assert(std::is_integral_v<T> || std::is_enum_v<T>);
    char raw[sizeof(T)];
    std::memcpy(raw, &value, sizeof(T));
    bytes_.append(raw, sizeof(T));
    return *this;
  }
  FrameWriter& Add(std::string_view text) {
    Add(static_cast<std::uint32_t>(text.size()));
    bytes_.append(text);
    return *this;
  }
  FrameWriter& Add(const std::string& text) { return Add(std::string_view(text)); }
  FrameWriter& Add(const char* text) { return Add(std::string_view(text)); }
  const std::string& Finish() {
    Store(0, static_cast<std::uint32_t>(bytes_.size() - kHeaderBytes));
    return bytes_;
  }

 private:
  template <typename T>
  void Store(std::size_t offset, T value) {
    std::memcpy(bytes_.data() + offset, &value, sizeof(T));
  }
  std::string bytes_;
};

// Reads fields of one payload; after the first field that does not fit, every Read returns false.
class FrameReader {
 public:
  explicit FrameReader(std::string_view payload) : rest_(payload) {}
  template <typename T>
  bool Read(T* value) {
    static_assert(std::is_integral_v<T> || std::is_enum_v<T>);
    if (failed_ || rest_.size() < sizeof(T)) return Fail();
    std::memcpy(value, rest_.data(), sizeof(T));
    rest_.remove_prefix(sizeof(T));
    return true;
  }
  bool Read(std::string* text) {
    std::uint32_t size = 0;
    if (!Read(&size) || rest_.size() < size) return Fail();
    text->assign(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return true;
  }
  bool failed() const { return failed_; }

 private:
  bool Fail() {
    failed_ = true;
    return false;
  }
  std::string_view rest_;
  bool failed_ = false;
};

struct FrameHeader {
  std::uint32_t length = 0;
  FrameType type{};
  std::uint16_t version = 0;
};

// REQUIRES: bytes.size() >= kHeaderBytes. The caller checks length and version.
inline FrameHeader ReadHeader(std::string_view bytes) {
  FrameHeader header;
  std::memcpy(&header.length, bytes.data(), 4);
  std::memcpy(&header.type, bytes.data() + 4, 2);
  std::memcpy(&header.version, bytes.data() + 6, 2);
  return header;
}

// One worker's place in a round, in the order of its fields on the wire.
struct RoundInfo {
  std::uint32_t attempt = 0;
  std::uint32_t round = 0;
  std::uint32_t rank = 0;
  std::uint32_t world_size = 1;
  std::uint32_t local_rank = 0;
  std::uint32_t local_world_size = 1;
  std::uint32_t node_rank = 0;
  std::uint32_t node_count = 1;
  std::uint32_t previous_world_size = 0;
  std::uint32_t restart_count = 0;  // rounds before this one in this attempt
  std::uint32_t master_port = 0;
  std::string master_address;
  std::string own_address;  // of this node on the job's network, numeric
  std::string cause;        // why the round began: initial, code, node, ...
  std::string run_id;

  void Write(FrameWriter* writer) const {
    for (std::uint32_t field :
         {attempt, round, rank, world_size, local_rank, local_world_size, node_rank, node_count,
          previous_world_size, restart_count, master_port}) {
      writer->Add(field);
    }
    writer->Add(master_address).Add(own_address).Add(cause).Add(run_id);
  }
  bool Read(FrameReader* reader) {
    for (std::uint32_t* field :
         {&attempt, &round, &rank, &world_size, &local_rank, &local_world_size, &node_rank,
          &node_count, &previous_world_size, &restart_count, &master_port}) {
      if (!reader->Read(field)) return false;
    }
    return reader->Read(&master_address) && reader->Read(&own_address) && reader->Read(&cause) &&
           reader->Read(&run_id);
  }
};

}  // namespace muster::local
