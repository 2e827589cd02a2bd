#pragma once
// JSON as a tree in which every value knows its line and its JSON pointer, for exact messages. Comments (// and /* */)
// and trailing commas are accepted; duplicate keys, NUL bytes, invalid UTF-8 and anything too big or too deep are
// errors.
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "policy/policy_error.h"

namespace srun::policy {

inline constexpr size_t kMaxDocumentBytes = size_t{1} << 20;
inline constexpr size_t kMaxDocumentDepth = 64;

// One value. Owned by its Document, immovable, read-only after parsing.
class Node {
 public:
  // kReal: a number with a fraction or exponent, or one that fits neither int64_t nor uint64_t. It keeps its text only.
  enum class Kind : uint8_t { kNull, kBool, kInteger, kReal, kString, kArray, kObject };

  Node() = default;
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  Kind kind() const { return kind_; }
  bool is_object() const { return kind_ == Kind::kObject; }
  bool is_array() const { return kind_ == Kind::kArray; }
  bool is_string() const { return kind_ == Kind::kString; }
  bool is_integer() const { return kind_ == Kind::kInteger; }
  bool is_bool() const { return kind_ == Kind::kBool; }
  bool is_null() const { return kind_ == Kind::kNull; }
  // "an object", "a string", "a number with a fraction" … for "expected X, found Y".
  std::string_view kind_text() const;

  // Each of these is meaningful for its kind only; for others the empty or zero value.
  bool boolean() const { return boolean_; }
  const std::string& string() const { return text_; }  // also the source text of kReal
  std::optional<int64_t> as_int64() const;             // nullopt: not an integer, or above INT64_MAX
  std::optional<uint64_t> as_uint64() const;           // nullopt: not an integer, or negative
  // The value in two's complement; meaningful for kInteger.
  uint64_t integer_bits() const { return integer_; }
  bool integer_negative() const { return negative_; }

  // Children in file order: elements of an array, values of an object.
  size_t size() const { return children_.size(); }
  const Node& operator[](size_t index) const { return *children_[index]; }
  // nullptr: not an object, or no such member.
  const Node* find(std::string_view key) const;

  // The member's name, for a child of an object; empty otherwise.
  const std::string& key() const { return key_; }
  uint32_t line() const { return line_; }
  std::string pointer() const;  // "#/syscalls/0/names/1", with ~ and / escaped as RFC 6901 says
  const std::string& file() const { return *file_; }

  PolicyError error(std::string message, std::string suggestion = {}) const;

 private:
  friend class DocumentBuilder;
  Kind kind_ = Kind::kNull;
  bool boolean_ = false;
  bool negative_ = false;
  uint32_t line_ = 0;
  uint32_t index_ = 0;  // in the parent
  uint64_t integer_ = 0;
  const Node* parent_ = nullptr;
  const std::string* file_ = nullptr;
  std::string key_;
  std::string text_;
  std::vector<Node*> children_;
};

class Document {
 public:
  // `file` is the name for messages. Pure: reads no file.
  [[nodiscard]] static Result<Document, PolicyError> parse(std::string_view text, std::string file);

  const Node& root() const { return nodes_.front(); }
  const std::string& file() const { return *file_; }

 private:
  friend class DocumentBuilder;
  std::unique_ptr<std::string> file_;
  std::deque<Node> nodes_;  // a deque does not move its elements: nodes point to each other
};

// Comments and trailing commas replaced by spaces; same length, same line breaks. nullopt: a comment is not closed.
std::optional<std::string> blank_comments(std::string_view text);

}  // namespace srun::policy
