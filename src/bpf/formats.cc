#include "bpf/formats.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/text.h"

namespace srun::bpf {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

constexpr const char* kFieldNames[] = {"code", "jt", "jf", "k"};
constexpr uint64_t kFieldLimits[] = {0xffff, 0xff, 0xff, 0xffffffff};

tl::unexpected<Error> refused(std::string detail) {
  return failure(Error::from_text("read filter program", {}, std::move(detail)));
}

// Reads `text` from left to right; the first problem ends everything.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  bool at_end() const { return position_ == text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[position_]; }
  void skip() { ++position_; }
  bool starts_with(std::string_view prefix) const { return text_.substr(position_).starts_with(prefix); }
  void advance(size_t count) { position_ = std::min(text_.size(), position_ + count); }
  void skip_space() {
    while (!at_end() && is_space(peek())) skip();
  }
  // To behind the next `end`, or to the end of the text: false.
  bool skip_past(std::string_view end) {
    const size_t found = text_.find(end, position_);
    position_ = found == std::string_view::npos ? text_.size() : found + end.size();
    return found != std::string_view::npos;
  }
  bool accept(char expected) {
    if (at_end() || peek() != expected) return false;
    skip();
    return true;
  }

  tl::unexpected<Error> problem(const std::string& what) const {
    const std::string_view before = text_.substr(0, position_);
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const size_t line_start = before.rfind('\n');
    const size_t column = position_ - (line_start == std::string_view::npos ? 0 : line_start + 1) + 1;
    return refused(fmt::format("line {}, column {}: {}", line, column, what));
  }
  tl::unexpected<Error> expected(std::string_view what) const {
    const std::string found =
        at_end() ? std::string("the end") : fmt::format("'{}'", escape_for_terminal(text_.substr(position_, 1)));
    return problem(fmt::format("{} expected, not {}", what, found));
  }

  // A number of one field. JSON has decimal numbers only; C also 0x, octal by a leading 0, and suffixes.
  Result<uint32_t> number(size_t field, bool c_syntax) {
    const size_t start = position_;
    uint64_t base = 10;
    if (c_syntax && (starts_with("0x") || starts_with("0X"))) {
      base = 16;
      advance(2);
    } else if (c_syntax && peek() == '0') {
      base = 8;
    }
    uint64_t value = 0;
    size_t digits = 0;
    for (std::optional<uint64_t> digit; !at_end() && (digit = digit_value(peek())) && *digit < base; skip()) {
      value = value * base + *digit;
      ++digits;
      if (value > kFieldLimits[field]) {
        position_ = start;
        return problem(fmt::format("{} is above {}", kFieldNames[field], kFieldLimits[field]));
      }
    }
    if (digits == 0) return expected(fmt::format("a number for {}", kFieldNames[field]));
    if (!c_syntax && digits > 1 && text_[start] == '0') {
      position_ = start;
      return problem("JSON numbers have no leading zeros");
    }
    while (c_syntax && (peek() == 'u' || peek() == 'U' || peek() == 'l' || peek() == 'L')) skip();
    return static_cast<uint32_t>(value);
  }

 private:
  static std::optional<uint64_t> digit_value(char c) {
    if (c >= '0' && c <= '9') return static_cast<uint64_t>(c - '0');
    if (c >= 'a' && c <= 'f') return static_cast<uint64_t>(c - 'a') + 10;
    if (c >= 'A' && c <= 'F') return static_cast<uint64_t>(c - 'A') + 10;
    return std::nullopt;
  }

  std::string_view text_;
  size_t position_ = 0;
};

Instruction from_fields(const uint32_t (&fields)[4]) {
  return {static_cast<uint16_t>(fields[0]), static_cast<uint8_t>(fields[1]), static_cast<uint8_t>(fields[2]),
          fields[3]};
}

Result<void> append(std::vector<Instruction>& code, const Instruction& insn) {
  if (code.size() == kMaxInstructions) return refused(fmt::format("more than {} instructions", kMaxInstructions));
  code.push_back(insn);
  return {};
}

// White space and comments between the tokens of C.
Result<void> skip_c_space(Reader& reader) {
  while (true) {
    reader.skip_space();
    if (reader.starts_with("//")) {
      reader.skip_past("\n");
    } else if (reader.starts_with("/*")) {
      reader.advance(2);
      if (!reader.skip_past("*/")) return reader.problem("a comment has no end");
    } else {
      return {};
    }
  }
}

// `{ 0x28, 0, 0, 0x0000000c }`, the opening brace already read.
Result<Instruction> c_initialiser(Reader& reader) {
  uint32_t fields[4] = {};
  for (size_t field = 0; field < 4; ++field) {
    if (Result<void> space = skip_c_space(reader); !space) return failure(std::move(space.error()));
    const Result<uint32_t> value = reader.number(field, true);
    if (!value) return failure(value.error());
    fields[field] = *value;
    if (Result<void> space = skip_c_space(reader); !space) return failure(std::move(space.error()));
    if (field < 3 && !reader.accept(',')) return reader.expected("','");
  }
  if (reader.accept(',')) {
    if (Result<void> space = skip_c_space(reader); !space) return failure(std::move(space.error()));
  }
  if (!reader.accept('}')) return reader.expected("'}'");
  return from_fields(fields);
}

}  // namespace

Result<std::vector<Instruction>> read_raw(std::string_view bytes) {
  if (bytes.size() % sizeof(Instruction) != 0) {
    return refused(
        fmt::format("{} bytes are no whole number of {}-byte instructions", bytes.size(), sizeof(Instruction)));
  }
  if (bytes.size() / sizeof(Instruction) > kMaxInstructions) {
    return refused(fmt::format("more than {} instructions", kMaxInstructions));
  }
  std::vector<Instruction> code(bytes.size() / sizeof(Instruction));
  if (!code.empty()) std::memcpy(code.data(), bytes.data(), bytes.size());
  return code;
}

Result<std::vector<Instruction>> read_json(std::string_view text) {
  Reader reader(text);
  std::vector<Instruction> code;
  reader.skip_space();
  if (!reader.accept('[')) return reader.expected("'['");
  reader.skip_space();
  if (!reader.accept(']')) {
    do {
      reader.skip_space();
      if (!reader.accept('[')) return reader.expected("'['");
      uint32_t fields[4] = {};
      for (size_t field = 0; field < 4; ++field) {
        reader.skip_space();
        const Result<uint32_t> value = reader.number(field, false);
        if (!value) return failure(value.error());
        fields[field] = *value;
        reader.skip_space();
        if (field < 3 && !reader.accept(',')) return reader.expected("','");
      }
      if (!reader.accept(']')) return reader.expected("']'");
      if (Result<void> added = append(code, from_fields(fields)); !added) return failure(std::move(added.error()));
      reader.skip_space();
    } while (reader.accept(','));
    if (!reader.accept(']')) return reader.expected("',' or ']'");
  }
  reader.skip_space();
  if (!reader.at_end()) return reader.expected("nothing more");
  return code;
}

Result<std::vector<Instruction>> read_c(std::string_view text) {
  Reader reader(text);
  std::vector<Instruction> code;
  while (true) {
    if (Result<void> space = skip_c_space(reader); !space) return failure(std::move(space.error()));
    if (reader.at_end()) break;
    if (!reader.accept('{')) {
      reader.skip();  // a declaration, a comma, the closing brace of the array
      continue;
    }
    if (Result<void> space = skip_c_space(reader); !space) return failure(std::move(space.error()));
    if (reader.peek() == '{' || reader.peek() == '}') continue;  // the outer braces of the array
    const Result<Instruction> insn = c_initialiser(reader);
    if (!insn) return failure(insn.error());
    if (Result<void> added = append(code, *insn); !added) return failure(std::move(added.error()));
  }
  if (code.empty()) return refused("no { code, jt, jf, k } in the text");
  return code;
}

Result<std::vector<Instruction>> read_program(std::string_view bytes, ProgramFormat format) {
  switch (format) {
    case ProgramFormat::kRaw:
      return read_raw(bytes);
    case ProgramFormat::kJson:
      return read_json(bytes);
    default:
      return read_c(bytes);
  }
}

ProgramFormat guess_format(std::string_view bytes) {
  const auto first = std::find_if_not(bytes.begin(), bytes.end(), is_space);
  const bool text =
      std::all_of(bytes.begin(), bytes.end(), [](char c) { return is_space(c) || (c >= ' ' && c <= '~'); });
  if (!text || first == bytes.end()) return ProgramFormat::kRaw;
  if (*first == '[') return ProgramFormat::kJson;
  return bytes.find('{') != std::string_view::npos ? ProgramFormat::kC : ProgramFormat::kRaw;
}

std::string write_raw(std::span<const Instruction> code) {
  std::string out(code.size_bytes(), '\0');
  if (!code.empty()) std::memcpy(out.data(), code.data(), code.size_bytes());
  return out;
}

std::string write_json(std::span<const Instruction> code) {
  std::string out = "[";
  for (const Instruction& insn : code) {
    if (out.size() > 1) out += ",";
    out += fmt::format("[{},{},{},{}]", insn.code, insn.jt, insn.jf, insn.k);
  }
  return out + "]\n";
}

std::string write_c(std::span<const Instruction> code) {
  std::string out;
  for (const Instruction& insn : code) {
    out += fmt::format("{{ {:#x}, {}, {}, {:#010x} }},\n", insn.code, insn.jt, insn.jf, insn.k);
  }
  return out;
}

std::string write_program(std::span<const Instruction> code, ProgramFormat format) {
  switch (format) {
    case ProgramFormat::kRaw:
      return write_raw(code);
    case ProgramFormat::kJson:
      return write_json(code);
    default:
      return write_c(code);
  }
}

}  // namespace srun::bpf
