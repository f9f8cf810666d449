// tokenizer.json, and what a text becomes by it.
#include <cstdlib>

#include "tests/fuzz/parsers/memory_file.h"
#include "tests/fuzz/parsers/parser_fuzzer.h"
#include "weft/text/tokenizer.h"

namespace weft::fuzz {

std::vector<std::string> seeds() {
  // Of bytes, cut by patterns; of characters, with marks for spaces.
  return {R"({"added_tokens":[{"id":7,"content":"<s>","special":true,"lstrip":true}],
"normalizer":null,"pre_tokenizer":{"type":"Sequence","pretokenizers":[
{"type":"Split","pattern":{"Regex":"(?i:'s|'t)|[^\\r\\n\\p{L}]?\\p{L}+|\\p{N}{1,3}|\\s+(?!\\S)|\\s+"},
"behavior":"Isolated","invert":false},
{"type":"ByteLevel","add_prefix_space":true,"use_regex":false}]},
"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>"}},
{"Sequence":{"id":"A"}}],"special_tokens":{"<s>":{"id":"<s>","ids":[7]}}},
"decoder":{"type":"ByteLevel"},"model":{"type":"BPE","unk_token":"a","ignore_merges":true,
"vocab":{"a":0,"b":1,"ab":2,"Ġ":3,"Ġa":4,"1":5,"Ġab":6},"merges":["a b",["Ġ","a"],"Ġ ab"]}})",
          R"({"added_tokens":[{"id":0,"content":"<unk>","special":true,"rstrip":true}],
"normalizer":{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"_"},
{"type":"Replace","pattern":{"String":"1"},"content":"b"}]},
"pre_tokenizer":{"type":"Metaspace","replacement":"_","prepend_scheme":"first","split":true},
"decoder":{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"_"},"content":" "},
{"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":1}]},
"model":{"type":"BPE","unk_token":"<unk>","fuse_unk":true,
"vocab":{"<unk>":0,"_":1,"a":2,"b":3,"_a":4,"ab":5,"<0x41>":6},"merges":["_ a","a b"]}})"};
}

bool parse(const uint8_t *data, size_t size) {
  MemoryFile file(data, size);
  bool accepted = false;
  try {
    text::Tokenizer tokenizer = text::Tokenizer::load(file.path());
    accepted = true;
    // Not all tokenizers have tokens for each character.
    std::vector<int64_t> ids = tokenizer.encode("ab 1\xff\n<s> it's a\xc3\xa9 <unk>  ");
    tokenizer.decode(ids, {.skip_special = false});
  } catch (const Error &error) {
    if (error.kind() != (accepted ? ErrorKind::kValue : ErrorKind::kFile))
      std::abort();
  }
  return accepted;
}

// A value of some bytes becomes one of JSON, then an entry of several tables; ids are places in
// tables of up to 2^21 tokens.
int64_t allowed_bytes(size_t size) {
  return 512 * static_cast<int64_t>(size) + (int64_t{1} << 28);
}

} // namespace weft::fuzz
