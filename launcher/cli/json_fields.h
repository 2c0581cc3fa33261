#pragma once

// Fields of JSON that a hand or another version may have written: a missing one or one of another
// type is the value given instead, never an exception.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace muster::cli {

using Json = nlohmann::ordered_json;

// nullptr if it is not there.
inline const Json* Field(const Json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

inline std::string Text(const Json& object, const char* name) {
  const Json* field = Field(object, name);
  return field != nullptr && field->is_string() ? field->get<std::string>() : "";
}

inline std::int64_t Number(const Json& object, const char* name, std::int64_t otherwise) {
  const Json* field = Field(object, name);
  return field != nullptr && field->is_number_integer() ? field->get<std::int64_t>() : otherwise;
}

// For people and files: bytes that are no UTF-8 are shown as U+FFFD.
inline std::string Dump(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace muster::cli
