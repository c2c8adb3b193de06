"""Texts that break tokenizers, and the generator of random ones. Shared by the golden writers."""

MASK = (1 << 64) - 1

SPACES = ["\t", "\n", "\r", "\r\n", "\v", "\f", "\x85", "\xa0", "\u2003", "\u2028", "\u2029", "\u3000",
          "\u180e", "\u200b", "\ufeff", "\u202f", "\x1c", "\x1f"]

SENTENCES = [
    "The river keeps the same name while all of its water changes.",
    "def area(radius):\n    return 3.14159 * radius ** 2\n\n\nclass Box:\n\tpass\n",
    "I'd've said it's fine; they'll agree, we're sure, you'RE not, I'M, HE'S, She'D'Ve",
    "it\u2019s a test of \u2019 quotes, don\u2019t worry",
    "'\u017f '\u017ftart 'S 'T 'RE 'Ve 'lL '\u212a 'd'd'd ''s",
    "1 12 123 1234 12345 123456 1234567 3.14 1,000,000 0x1F 1e-9",
    "\u0661\u0662\u0663\u0664 \u0967\u0968\u0969 \uff11\uff12\uff13 \u00bd\u2153\u00bc x\u00b2y\u00b3 \u2160\u2161\u2162\u216f \u2460\u2461 \u3007\u4e00\u4e8c",
    "camelCase PascalCase HTTPServer iPhone XMLHttpRequest \u01c5ungla \u01c4\u01c5\u01c6 \u02b0\u02b1 a\u02b0B\u02b1c",
    "e\u0301 \u0301e a \u0301 1\u0301 \u0301\u0302\u0303 A\u0308b\u0323\u0307 \u1e69 s\u0323\u0307 s\u0307\u0323",
    "caf\u00e9 cafe\u0301 \ufb01n \u00c5 \u212b A\u030a \u1100\u1161\u11a8 \uac01 \u0344 \u2126",
    "\u4f60\u597d\uff0c\u4e16\u754c\u3002\u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8 \ud55c\uad6d\uc5b4 \u7e41\u9ad4\u5b57 \U00020000\U00030000",
    "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35\u0e0a\u0e32\u0e27\u0e42\u0e25\u0e01 \u0928\u092e\u0938\u094d\u0924\u0947 \u09ac\u09be\u0982\u09b2\u09be \u0995\u09cd\u09b7",
    "\u0645\u0631\u062d\u0628\u0627 \u05e9\u05dc\u05d5\u05dd abc \u05d0\u05d1\u05d2 \u0627\u0644\u0639\u064e\u0631\u064e\u0628\u0650\u064a\u064e\u0651\u0629 \u200f\u200e x",
    "\U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 \U0001f44d\U0001f3fd \U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7 1\ufe0f\u20e3 \u2764\ufe0f \U0001fae8",
    "path/to/file.txt //comment\n/* x */\n\n!!\n/\n?/\r\n...\n\n  \n\t x",
    "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n",
    "<s>[INST] hi [/INST]</s><s> <unk> <0x41> <0xE2><0x82>",
    "<|endoftext|><|endoftext|> <|endoftext|>\n\n<|end<|endoftext|>oftext|>",
    "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nx<|eot_id|>",
    "<think>\n</think><tool_call>{\"a\": 1}</tool_call> a<think>b",
    "\x00 \ufffd \U0010ffff \u0378 \ufdd0 \ufffe \U0001fffe \u2fe0",
    "\ua7dc\u1c89 \U00010d40\U00010d50\U00010d70 \U00011de0\U00016ff4 \u0c5c\u088f \u1acf\U0001e6c0 \u20c1",
    "\u2581 \u2581a a\u2581 \u2581\u2581b \u2581 \u2581",
    "a  \u00e9", " ", "", "  ", "x  3", "word word  word   word    ", "\n \n  \n", "3   x", "   \n   y",
    "aaaaa aaaaaaaa bbbbbbb", "=====-----=====", "_under_score_ a_1_b", "$100 \u20ac50 \u00a35 #tag @user",
    "\u00ad\u200c\u200d\u2060 soft", "K\u212a \u017fS \u0130i\u0131I \u00df\u1e9e \u03c3\u03c2\u03a3",
    "MiXeD\u0301CASE \u0301ABC \u0301aBC A\u0301B\u0301c x\u0301\u0301Y", "'t\u0301 't's 's\u0301",
]


def cases():
    """The fixed corpus."""
    out = list(SENTENCES)
    for n in (1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 32, 33, 40):
        out += [" " * n + tail for tail in ("", "a", "7", "\n", "!", "\u00e9")]
    for s in SPACES:
        out += [s, s * 3, "a" + s + "b", s + " x", " " + s + "y", "1" + s + "2", "!" + s + s + "?", s + "\n" + s]
    out += ["9" * n for n in range(1, 9)] + [" " + "9" * n for n in range(1, 5)]
    out += ["a" * 300, " " * 300, "\u3042" * 100, "ab" * 200, "!" * 130, "\n" * 70]
    return out


def atoms():
    """What random strings are made of."""
    out = SPACES + [" "] * 6 + ["  ", "   ", "\n", "\n\n", "'", "'s", "'S", "'t", "'re", "'VE", "'ll", "'d", "'m", "\u2019",
                    "'\u017f", "\u017f", "\u212a", "a", "b", "e", "s", "t", "the", "The", "THE", "ing", "and", "in",
                    "A", "B", "Z", "\u00e9", "\u00c9", "\u00df", "\u01c5", "\u02b0", "\u00aa", "\u0301", "\u0308", "\u0323",
                    "\u0903", "\u20dd", "\u093e", "\u0e31", "0", "1", "9", "12", "123", "\u0665", "\u00bd", "\u00b2", "\u2167",
                    "\u3007", "\U00011de0", "\U00016ff4", "\u4e2d", "\u6587", "\u3042", "\u30ab", "\uac00", "\u1100", "\u1161", "\u11a8",
                    "\u05d0", "\u0639", "\u0e01", "\u0915", "\u094d", "\U0001f600", "\u200d", "\ufe0f", "\U0001f3fd", "\U0001f1e9", "\u20e3",
                    ".", ",", "!", "?", "/", "//", "-", "_", "(", ")", "{", "}", "#", "$", "\u20ac", "=", "==", "<", ">", "|", "\\",
                    "\"", "\u2581", "\u2581\u2581", "\x00", "\x01", "\x7f", "\u0378", "\ufffd", "\U0010ffff", "\ufffe", "\u0340",
                    "\ua7dc", "\u1c89", "\U00010d50", "\U00010d70", "\u0897", "\u1acf", "\U000105c9", "\U00011938", "\U00011935", "\U00011930",
                    "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|begin_of_text|>", "<|eot_id|>", "<s>", "</s>", "<unk>",
                    "[INST]", "<think>", "<tool_call>", "<|im_", "start|>", "<0x41>", "<0xE2>", "@@", "@@@", "~w~", "~l~", "~r~"]
    return out


class SplitMix:
    def __init__(self, seed):
        self.state = seed & MASK

    def next(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return z ^ (z >> 31)


def generated(index, pool):
    """String number `index`; the C++ test makes the same ones from the same atoms."""
    rng = SplitMix(index * 0x2545F4914F6CDD1D + 12345)
    out = []
    for _ in range(1 + rng.next() % 20):
        r = rng.next()
        if r % 16 == 0:
            c = rng.next() % 0x110000
            out.append("\ufffd" if 0xD800 <= c < 0xE000 else chr(c))
        else:
            out.append(pool[(r >> 8) % len(pool)])
    return "".join(out)


class Hash:
    """FNV-1a over numbers instead of bytes."""

    def __init__(self):
        self.value = 0xCBF29CE484222325

    def add(self, numbers):
        h = self.value
        for n in numbers:
            h = ((h ^ n) * 0x100000001B3) & MASK
        self.value = ((h ^ 0xFFFFFFFF) * 0x100000001B3) & MASK

    def hex(self):
        return f"{self.value:016x}"
