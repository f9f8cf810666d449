#!/usr/bin/env python3
"""Writes test_data/: small tokenizers of each kind, trained on the pages of docs/, and the ids that
Hugging Face's `tokenizers` gives for texts.

    frontend/text/make_test_data.py        needs the package tokenizers (0.23)
"""
import glob
import json
import os

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers
from tokenizers import pre_tokenizers, processors, trainers

HERE = os.path.dirname(os.path.realpath(__file__))
OUT = os.path.join(HERE, "test_data")
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
MORE = ["Ünïcödé straße naïve café", "日本語のテキスト 中文", "Привет, мир!", "12 345 6789 ½ ٣٤ Ⅷ",
        "don't WE'LL I'm you're they've he'd", "\t tabs\n\nlines \r\n ends  ", "🙂 👩‍🚀 emoji"]
TEXTS = [
    "", " ", "a", "Hello world", " Hello  world ", "The tensor's value isn't read; it's recorded.",
    "don't DON'T We'LL i'M x'sy 'tis", "1 12 123 1234 12345 3.14159 1,000,000", "½ ٣٤ Ⅷ x² H₂O",
    "line\nline\n\n\nline\r\n\r\n  indented\n\ttab \n", "   ", "\n", " \n \n", "a   b", "a \u00a0\u3000b",
    "Ünïcödé straße naïve café e\u0301", "日本語のテキスト、中文。", "Привет, мир! Ελλάδα עברית العربية हिन्दी",
    "🙂 👩‍🚀🏳️‍🌈 🇩🇪", "\u0000\u0001\u007f\u0085\u200b\ufeff\uffff", "ſ K's \u017f'\u017f",
    "for (int64_t i = 0; i < n; ++i) {\n    sum += x[i];\n}\n", "!!! ... --- ___ @#$%^&*()",
    "http://example.org/a_b?c=d&e=%20", "<s>", "a<s>b </s>", "<unk> <mask> x", "x <mask>  y<|endoftext|>z",
    "<mask><mask> <pad>\n<pad>", "<0x41> <0xC3>", "▁ low▁line ▁▁", "\U0010ffff\ud7ff\ue000", "aaaaaaaaaaaaaaaaaaaa",
]


def corpus():
    for path in sorted(glob.glob(os.path.join(HERE, "../../docs/*.md")))[:12]:
        with open(path, encoding="utf-8") as file:
            yield from file
    yield from MORE * 3


def trained(model, size, alphabet, special=()):
    tokenizer = Tokenizer(model)
    return tokenizer, trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False,
                                          special_tokens=list(special))


def gpt2():
    tokenizer, trainer = trained(models.BPE(), 500, pre_tokenizers.ByteLevel.alphabet(), ["<|endoftext|>"])
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def gpt2_prefixed():
    """A space in front, and added tokens that take the space beside them."""
    tokenizer, trainer = trained(models.BPE(), 400, pre_tokenizers.ByteLevel.alphabet(), ["<|endoftext|>"])
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(corpus(), trainer)
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True), AddedToken("<pad>", rstrip=True)])
    tokenizer.add_tokens([AddedToken("low_line"), AddedToken("low")])
    return tokenizer


def llama3():
    tokenizer, trainer = trained(models.BPE(ignore_merges=True), 500, pre_tokenizers.ByteLevel.alphabet())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(corpus(), trainer)
    tokenizer.add_special_tokens(["<s>", "</s>", "<|endoftext|>"])
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=True),
        processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B",
                                      special_tokens=[("<s>", tokenizer.token_to_id("<s>"))])])
    return tokenizer


def with_bytes(tokenizer):
    """The same with tokens for bytes in front, as sentencepiece's files have them: byte_fallback."""
    data = json.loads(tokenizer.to_str())
    model = data["model"]
    names = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    names += [name for name in sorted(model["vocab"], key=model["vocab"].get) if name not in names]
    model.update(vocab={name: i for i, name in enumerate(names)}, unk_token="<unk>", fuse_unk=True,
                 byte_fallback=True)
    data["added_tokens"] = []
    tokenizer = Tokenizer.from_str(json.dumps(data))
    tokenizer.add_special_tokens([AddedToken(name, normalized=False) for name in names[:3]])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", 1)])
    return tokenizer


def llama2():
    tokenizer = Tokenizer(models.BPE())
    trainer = trainers.BpeTrainer(vocab_size=300, limit_alphabet=90, show_progress=False)
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    tokenizer.train_from_iterator(corpus(), trainer)
    tokenizer = with_bytes(tokenizer)
    data = json.loads(tokenizer.to_str())
    data["pre_tokenizer"] = None  # a text is one word
    tokenizer = Tokenizer.from_str(json.dumps(data))
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(),
                                           decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    return tokenizer


def metaspace():
    tokenizer = Tokenizer(models.BPE())
    trainer = trainers.BpeTrainer(vocab_size=300, limit_alphabet=90, show_progress=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    tokenizer.train_from_iterator(corpus(), trainer)
    tokenizer = with_bytes(tokenizer)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(),
                                           decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    return tokenizer


def unknown():
    """No bytes: characters that were not learned are <unk>, each or all in a row."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    trainer = trainers.BpeTrainer(vocab_size=120, limit_alphabet=60, special_tokens=["<unk>"],
                                  show_progress=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def main():
    cases = {}
    for make in (gpt2, gpt2_prefixed, llama3, llama2, metaspace, unknown):
        tokenizer, name = make(), make.__name__
        data = json.loads(tokenizer.to_str())
        with open(os.path.join(OUT, name + ".json"), "w", encoding="utf-8") as file:
            json.dump(data, file, ensure_ascii=False, separators=(",", ":"))
            file.write("\n")
        if name == "gpt2":
            os.makedirs(os.path.join(OUT, "gpt2"), exist_ok=True)
            tokenizer.model.save(os.path.join(OUT, "gpt2"))
        # Surrogates cannot be texts; what decode() gives is what the tokens' bytes make.
        cases[name] = [{"text": text, "ids": (ids := tokenizer.encode(text).ids),
                        "plain": tokenizer.encode(text, add_special_tokens=False).ids,
                        "decoded": tokenizer.decode(ids),
                        "shown": tokenizer.decode(ids, skip_special_tokens=False)}
                       for text in (t.encode("utf-8", "ignore").decode() for t in TEXTS)]
    with open(os.path.join(OUT, "cases.json"), "w", encoding="utf-8") as file:
        json.dump(cases, file, ensure_ascii=True, separators=(",", ":"))
        file.write("\n")


main()
