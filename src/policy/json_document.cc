#include "policy/json_document.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

namespace srun::policy {

namespace {

// Walks the text and tells through `consumed` how far the parser has read, which its SAX interface does not.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, size_t* consumed) : at_(at), consumed_(consumed) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    ++at_;
    ++*consumed_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator old = *this;
    ++*this;
    return old;
  }
  friend bool operator==(const CountingIterator& a, const CountingIterator& b) { return a.at_ == b.at_; }

 private:
  const char* at_;
  size_t* consumed_;
};

bool number_character(char c) {
  return (c >= '0' && c <= '9') || c == '.' || c == 'e' || c == 'E' || c == '+' || c == '-';
}

std::string pointer_escape(std::string_view key) {
  std::string out;
  for (const char c : key) {
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

// The receiver of the parser's events; the names are those of nlohmann's SAX interface.
class DocumentBuilder {
 public:
  DocumentBuilder(std::string_view text, std::string file) : text_(text) {
    document_.file_ = std::make_unique<std::string>(std::move(file));
  }

  Result<Document, PolicyError> run() {
    CountingIterator begin(text_.data(), &consumed_);
    CountingIterator end(text_.data() + text_.size(), &consumed_);
    const bool complete = nlohmann::json::sax_parse(begin, end, this);
    if (error_) return failure(std::move(*error_));
    if (!complete || document_.nodes_.empty()) return failure(place("#", "not a JSON document"));
    return std::move(document_);
  }

  bool null() { return add(Node::Kind::kNull) != nullptr; }
  bool boolean(bool value) {
    Node* node = add(Node::Kind::kBool);
    if (node != nullptr) node->boolean_ = value;
    return node != nullptr;
  }
  bool number_integer(int64_t value) { return add_integer(static_cast<uint64_t>(value), value < 0); }
  bool number_unsigned(uint64_t value) { return add_integer(value, false); }
  bool number_float(double /*value*/, const std::string& text) {
    Node* node = add(Node::Kind::kReal, true);
    if (node != nullptr) node->text_ = text;
    return node != nullptr;
  }
  bool string(std::string& value) {
    Node* node = add(Node::Kind::kString);
    if (node != nullptr) node->text_ = std::move(value);
    return node != nullptr;
  }
  bool binary(nlohmann::json::binary_t& /*value*/) { return false; }  // JSON text has none

  bool start_object(size_t /*elements*/) { return open(Node::Kind::kObject); }
  bool start_array(size_t /*elements*/) { return open(Node::Kind::kArray); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& name) {
    if (!keys_.back().insert(name).second) {
      error_ = place(open_.back()->pointer() + "/" + pointer_escape(name), "the key \"" + name + "\" is given twice");
      return false;
    }
    key_ = std::move(name);
    return true;
  }
  bool parse_error(size_t /*position*/, const std::string& /*token*/, const nlohmann::json::exception& problem) {
    std::string message = problem.what();
    // "[json.exception…] parse error at line 1, column 2: syntax error …": the place is ours to say.
    if (const size_t start = message.find("syntax error"); start != std::string::npos) message.erase(0, start);
    error_ = place(open_.empty() ? "#" : open_.back()->pointer(), std::move(message));
    return false;
  }

 private:
  // The line of the token whose event is running. A number is known to end only when the next character has been read.
  uint32_t line(bool after_number = false) {
    size_t end = std::min(consumed_, text_.size());
    if (after_number && end > 0 && !number_character(text_[end - 1])) --end;
    if (end > counted_) {
      line_ += static_cast<uint32_t>(std::count(text_.begin() + static_cast<ptrdiff_t>(counted_),
                                                text_.begin() + static_cast<ptrdiff_t>(end), '\n'));
      counted_ = end;
    }
    return line_;
  }

  PolicyError place(std::string pointer, std::string message) {
    return PolicyError{*document_.file_, line(), std::move(pointer), std::move(message), {}};
  }

  Node* add(Node::Kind kind, bool after_number = false) {
    Node& node = document_.nodes_.emplace_back();
    node.kind_ = kind;
    node.line_ = line(after_number);
    node.file_ = document_.file_.get();
    if (!open_.empty()) {
      Node* parent = open_.back();
      node.parent_ = parent;
      node.index_ = static_cast<uint32_t>(parent->children_.size());
      if (parent->is_object()) node.key_ = std::move(key_);
      parent->children_.push_back(&node);
    }
    return &node;
  }

  bool add_integer(uint64_t bits, bool negative) {
    Node* node = add(Node::Kind::kInteger, true);
    node->integer_ = bits;
    node->negative_ = negative;
    return true;
  }

  bool open(Node::Kind kind) {
    if (open_.size() >= kMaxDocumentDepth) {
      error_ = place(open_.back()->pointer(), "nested deeper than " + std::to_string(kMaxDocumentDepth) + " levels");
      return false;
    }
    open_.push_back(add(kind));
    keys_.emplace_back();
    return true;
  }

  bool close() {
    open_.pop_back();
    keys_.pop_back();
    return true;
  }

  std::string_view text_;
  size_t consumed_ = 0;
  size_t counted_ = 0;
  uint32_t line_ = 1;
  Document document_;
  std::vector<Node*> open_;
  std::vector<std::set<std::string>> keys_;  // parallel to open_
  std::string key_;
  std::optional<PolicyError> error_;
};

std::string_view Node::kind_text() const {
  switch (kind_) {
    case Kind::kNull:
      return "null";
    case Kind::kBool:
      return boolean_ ? "true" : "false";
    case Kind::kInteger:
      return "a number";
    case Kind::kReal:
      return "a number that is not a 64-bit integer";
    case Kind::kString:
      return "a string";
    case Kind::kArray:
      return "an array";
    case Kind::kObject:
      return "an object";
  }
  return "?";
}

std::optional<int64_t> Node::as_int64() const {
  if (!is_integer() || (!negative_ && integer_ > static_cast<uint64_t>(INT64_MAX))) return std::nullopt;
  return static_cast<int64_t>(integer_);
}

std::optional<uint64_t> Node::as_uint64() const {
  if (!is_integer() || negative_) return std::nullopt;
  return integer_;
}

const Node* Node::find(std::string_view key) const {
  if (!is_object()) return nullptr;
  for (const Node* child : children_) {
    if (child->key_ == key) return child;
  }
  return nullptr;
}

std::string Node::pointer() const {
  if (parent_ == nullptr) return "#";
  return parent_->pointer() + "/" + (parent_->is_object() ? pointer_escape(key_) : std::to_string(index_));
}

PolicyError Node::error(std::string message, std::string suggestion) const {
  return PolicyError{*file_, line_, pointer(), std::move(message), std::move(suggestion)};
}

std::optional<std::string> blank_comments(std::string_view text) {
  std::string out(text);
  const auto blank = [&out](size_t at) {
    if (out[at] != '\n' && out[at] != '\r') out[at] = ' ';
  };
  size_t comma = std::string::npos;  // a comma after which only blanks and comments have come
  for (size_t i = 0; i < out.size();) {
    const char c = out[i];
    if (c == '"') {
      comma = std::string::npos;
      for (++i; i < out.size() && out[i] != '"'; ++i) {
        if (out[i] == '\\') ++i;
      }
      ++i;
    } else if (c == '/' && i + 1 < out.size() && out[i + 1] == '/') {
      for (; i < out.size() && out[i] != '\n'; ++i) blank(i);
    } else if (c == '/' && i + 1 < out.size() && out[i + 1] == '*') {
      const size_t end = out.find("*/", i + 2);
      if (end == std::string::npos) return std::nullopt;
      for (; i < end + 2; ++i) blank(i);
    } else {
      if (c == ',') {
        comma = i;
      } else if ((c == ']' || c == '}') && comma != std::string::npos) {
        // Only after a value: "[,]" and "{,}" stay errors.
        const size_t before = comma == 0 ? std::string::npos : out.find_last_not_of(" \t\r\n", comma - 1);
        if (before != std::string::npos && std::string_view("[{,:").find(out[before]) == std::string_view::npos) {
          out[comma] = ' ';
        }
        comma = std::string::npos;
      } else if (c != ' ' && c != '\t' && c != '\r' && c != '\n') {
        comma = std::string::npos;
      }
      ++i;
    }
  }
  return out;
}

Result<Document, PolicyError> Document::parse(std::string_view text, std::string file) {
  const auto refuse = [&file](uint32_t line, std::string message) {
    return failure(PolicyError{std::move(file), line, "#", std::move(message), {}});
  };
  if (text.size() > kMaxDocumentBytes) {
    return refuse(0, "larger than " + std::to_string(kMaxDocumentBytes) + " bytes");
  }
  // The parser takes a NUL byte for the end of the text and would ignore whatever follows it.
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {
    const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(nul), '\n');
    return refuse(static_cast<uint32_t>(line), "a NUL byte in the text");
  }
  const std::optional<std::string> plain = blank_comments(text);
  if (!plain) return refuse(0, "a comment that is not closed");
  return DocumentBuilder(*plain, std::move(file)).run();
}

}  // namespace srun::policy
