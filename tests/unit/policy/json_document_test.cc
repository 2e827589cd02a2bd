#include "policy/json_document.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace srun::policy {

namespace {

std::string problem(const std::string& text) {
  auto document = Document::parse(text, "p.json");
  return document ? std::string() : document.error().text();
}

}  // namespace

TEST_CASE("document: every value knows its line and its pointer") {
  auto document = Document::parse("{\n  \"a\": 1,\n  \"b/c~d\": [\n    true,\n    {\"x\": -5}\n  ],\n\n  \"e\": \"t\"}", "p.json");
  REQUIRE(document);
  const Node& root = document->root();
  CHECK(root.line() == 1);
  CHECK(root.pointer() == "#");
  CHECK(root.size() == 3);
  CHECK(root.find("a")->line() == 2);
  CHECK(root.find("a")->pointer() == "#/a");
  const Node& list = *root.find("b/c~d");
  CHECK(list.line() == 3);
  CHECK(list.pointer() == "#/b~1c~0d");
  CHECK(list[0].line() == 4);
  CHECK(list[0].boolean());
  CHECK(list[1].find("x")->line() == 5);
  CHECK(list[1].find("x")->pointer() == "#/b~1c~0d/1/x");
  CHECK(list[1].find("x")->as_int64() == -5);
  CHECK(root.find("e")->line() == 8);
  CHECK(root.find("e")->string() == "t");
  CHECK(root.find("absent") == nullptr);
}

TEST_CASE("document: a number at the end of a line belongs to that line") {
  auto document = Document::parse("[1\n,2\n,\n3\n]", "p.json");
  REQUIRE(document);
  CHECK(document->root()[0].line() == 1);
  CHECK(document->root()[1].line() == 2);
  CHECK(document->root()[2].line() == 4);
  auto alone = Document::parse("\n\n7", "p.json");
  REQUIRE(alone);
  CHECK(alone->root().line() == 3);
}

TEST_CASE("document: integers are kept exactly") {
  auto document = Document::parse("[9223372036854775807, 18446744073709551615, -9223372036854775808, 18446744073709551616, 1.0, 1e3]",
                                  "p.json");
  REQUIRE(document);
  const Node& root = document->root();
  CHECK(root[0].as_int64() == INT64_MAX);
  CHECK(root[1].as_uint64() == UINT64_MAX);
  CHECK(!root[1].as_int64().has_value());
  CHECK(root[2].as_int64() == INT64_MIN);
  CHECK(!root[2].as_uint64().has_value());
  for (size_t i = 3; i < 6; ++i) {
    CHECK(root[i].kind() == Node::Kind::kReal);
    CHECK(!root[i].as_int64().has_value());
  }
  CHECK(root[3].string() == "18446744073709551616");
}

TEST_CASE("document: comments and trailing commas are accepted and keep the lines") {
  auto document = Document::parse(
      "// a policy\n{ /* two\nlines */ \"a\": [1, 2, /* last */ ], // [}\n \"b\": \"// not /* one */\", \"c\": \",]\",\n}\n", "p.json");
  REQUIRE_MESSAGE(document, document.error().text());
  const Node& root = document->root();
  CHECK(root.find("a")->size() == 2);
  CHECK(root.find("a")->line() == 3);
  CHECK(root.find("b")->string() == "// not /* one */");
  CHECK(root.find("b")->line() == 4);
  CHECK(root.find("c")->string() == ",]");
}

TEST_CASE("document: a comma without a value before it stays an error") {
  for (const std::string text : {"[,]", "{,}", "[1,,]", "{\"a\":,}", "[1,,2]", ","}) {
    CAPTURE(text);
    CHECK(problem(text) != "");
  }
}

TEST_CASE("document: a key given twice is an error at its place") {
  CHECK(problem("{\"a\": {\n\"b\": 1,\n\"b\": 2}}") == "p.json:3 #/a/b: the key \"b\" is given twice");
  CHECK(problem("{\"a\": {\"b\": 1}, \"c\": {\"b\": 1}}") == "");
}

TEST_CASE("document: text after a NUL byte is not ignored") {
  CHECK(problem(std::string("{\"a\": 1}\n\0 junk", 15)) == "p.json:2 #: a NUL byte in the text");
}

TEST_CASE("document: what is no JSON is an error with its line") {
  CHECK(problem("{\"a\": 1,\n \"b\" 2}").starts_with("p.json:2 #: syntax error"));
  CHECK(problem("{\"a\": [1, 2}").starts_with("p.json:1 #/a: syntax error"));
  CHECK(problem("").starts_with("p.json:1 #: syntax error"));
  CHECK(problem("{} {}").starts_with("p.json:1 #: syntax error"));
  CHECK(problem("{\"a\": nul}").starts_with("p.json:1 #: syntax error"));
  CHECK(problem("{\"a\": \"\xff\"}").starts_with("p.json:1 #: syntax error"));
  CHECK(problem("{} /* open") == "p.json #: a comment that is not closed");
}

TEST_CASE("document: what is too big or too deep is an error") {
  CHECK(problem("\"" + std::string(kMaxDocumentBytes, 'a') + "\"") == "p.json #: larger than 1048576 bytes");
  const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  CHECK(problem(nested(kMaxDocumentDepth)) == "");
  CHECK(problem(nested(kMaxDocumentDepth + 1)).ends_with("nested deeper than 64 levels"));
  CHECK(problem(nested(100000)).ends_with("nested deeper than 64 levels"));
}

TEST_CASE("document: hostile names cannot break out of an error's line") {
  CHECK(problem("{\"a\\n\\u001b[2J\": 1, \"a\\n\\u001b[2J\": 2}") ==
        "p.json:1 #/a\\n\\x1b[2J: the key \"a\\n\\x1b[2J\" is given twice");
}

TEST_CASE("document: blanking keeps length and line breaks") {
  const std::string text = "a /* b\nc */ // d\r\n,]";
  const std::optional<std::string> plain = blank_comments(text);
  REQUIRE(plain.has_value());
  CHECK(plain->size() == text.size());
  CHECK(std::count(plain->begin(), plain->end(), '\n') == 2);
  CHECK(*plain == "a     \n         \r\n ]");
}

}  // namespace srun::policy
