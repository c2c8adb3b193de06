#!/usr/bin/env python3
"""Draws docs/bifocal.svg: the two sides of a Bifocal layer, and how much of a token each still holds as the token ages.
The curves are eq. (1) to (3) of src/mixers/linear/README.md with the forget gates a converted layer begins with.
Usage: bifocal_picture.py [--check]     --check: only says whether the file is what this script draws.
"""
import math
import pathlib
import sys

OUT = pathlib.Path(__file__).resolve().parents[2] / "docs/bifocal.svg"
WINDOW = 448
HALF_LIVES = (448, 1916, 8192)  # log-spaced over three state heads
NEAR, FAR, INK, PALE = "#1f6fb2", "#c2571a", "#222222", "#9a9a9a"


def text(x, y, words, size=13, color=INK, anchor="start", weight="normal"):
    return (f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{color}" text-anchor="{anchor}" '
            f'font-weight="{weight}">{words}</text>')


def box(x, y, width, height, stroke, fill="none", radius=3):
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{radius}" fill="{fill}" stroke="{stroke}"/>'


def path(points, color, width=1.5, extra=""):
    drawn = " ".join(f"{'M' if i == 0 else 'L'}{x:.1f} {y:.1f}" for i, (x, y) in enumerate(points))
    return f'<path d="{drawn}" fill="none" stroke="{color}" stroke-width="{width}" {extra}/>'


def arrow(x1, y1, x2, y2, color=INK):
    return path([(x1, y1), (x2, y2)], color, 1.4, 'marker-end="url(#tip)"')


def layer():
    """The tokens so far as a row of cells; the window over the last of them, the state under all."""
    parts, n, size, left, top = [], 24, 15, 20, 120
    near = 8
    for i in range(n):
        in_window = i >= n - near
        fade = 0.18 + 0.5 * 0.5 ** ((n - 1 - i) / 9)
        parts.append(box(left + i * size, top, size - 2, size - 2, NEAR if in_window else PALE,
                         "#cfe3f5" if in_window else "#f3f3f3"))
        parts.append(f'<rect x="{left + i * size:g}" y="{top + 20}" width="{size - 2}" height="6" fill="{FAR}" '
                     f'opacity="{fade:.2f}"/>')
    end = left + n * size
    begin = end - near * size
    parts.append(text(left, top - 12, "tokens 0 … t", 12, PALE))
    # near
    parts.append(path([(begin, top - 6), (begin, top - 12), (end - 2, top - 12), (end - 2, top - 6)], NEAR))
    parts.append(arrow((begin + end) / 2, top - 14, (begin + end) / 2, 66))
    parts.append(box(begin - 122, 28, 244, 36, NEAR, "#eef6fd"))
    parts.append(text(begin, 50, "softmax over the last W, and a sink", 12.5, NEAR, "middle"))
    # far
    parts.append(path([(left, top + 30), (left, top + 36), (end - 2, top + 36), (end - 2, top + 30)], FAR))
    parts.append(arrow(left + 140, top + 38, left + 140, 192))
    parts.append(box(left, 194, 280, 52, FAR, "#fdf1ea"))
    parts.append(text(left + 140, 215, "S ← e^g S + e^ℓ φ(k) vᵀ", 13, FAR, "middle"))
    parts.append(text(left + 140, 235, "one matrix of fixed size for each kv head", 12, FAR, "middle"))
    # mix
    x = end + 62
    parts.append(path([(begin + 122, 46), (x, 46), (x, 124)], INK, 1.4, 'marker-end="url(#tip)"'))
    parts.append(path([(left + 280, 220), (x, 220), (x, 160)], INK, 1.4, 'marker-end="url(#tip)"'))
    parts.append(f'<circle cx="{x}" cy="142" r="16" fill="#ffffff" stroke="{INK}"/>')
    parts.append(text(x, 147, "+", 17, INK, "middle"))
    parts.append(text(x + 8, 100, "1 − o", 13, NEAR))
    parts.append(text(x + 8, 190, "o", 13, FAR))
    parts.append(arrow(x + 17, 142, x + 46, 142))
    parts.append(text(x + 52, 147, "W_o", 13))
    parts.append(text(left, 276, "o = σ(w_o·x + b_o): one number for each query head, set by the token itself", 12.5))
    return parts


def curves():
    """Share of a token that is left, by its age on a logarithmic axis."""
    left, top, width, height = 570, 40, 300, 190
    oldest = 32768

    def at(age, share):
        return left + width * math.log2(age) / math.log2(oldest), top + height * (1 - share)

    parts = [box(left, top, width, height, PALE, "none", 0)]
    for exponent in (0, 3, 6, 9, 12, 15):
        x, y = at(2 ** exponent, 0)
        parts.append(path([(x, y), (x, y + 4)], PALE, 1))
        parts.append(text(x, y + 18, f"{2 ** exponent:,}", 11, INK, "middle"))
    for share in (0, 0.5, 1):
        parts.append(text(left - 6, at(1, share)[1] + 4, f"{share:g}", 11, INK, "end"))
    parts.append(text(left + width / 2, top + height + 36, "age of a token", 12, INK, "middle"))
    parts.append(text(left, top - 12, "what is left of it", 12))
    parts.append(path([at(1, 1), at(WINDOW, 1), at(WINDOW, 0), at(oldest, 0)], NEAR, 2.2))
    parts.append(text(left + 8, at(1, 0.78)[1], f"window of {WINDOW}:", 11.5, NEAR))
    parts.append(text(left + 8, at(1, 0.78)[1] + 15, "exact, then gone", 11.5, NEAR))
    for half_life in HALF_LIVES:
        ages = [2 ** (i / 8) for i in range(8 * 15 + 1)]
        parts.append(path([at(age, 0.5 ** (age / half_life)) for age in ages], FAR, 1.6))
    for line, words in enumerate(("state heads: blurred,", "fading with half-lives", "of 448, 1,916, 8,192")):
        parts.append(text(left + 8, at(1, 0.42)[1] + 15 * line, words, 11.5, FAR))
    return parts


def picture():
    tip = ('<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
           f'<path d="M0 0 L8 4 L0 8 z" fill="{INK}"/></marker></defs>')
    lines = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 290" font-family="sans-serif">',
             "<title>A Bifocal layer: a window over near tokens, a state of all of them, mixed by a gate</title>", tip,
             '<rect width="900" height="290" fill="#ffffff"/>', *layer(), *curves(), "</svg>"]
    return "\n".join(lines) + "\n"


def main():
    drawn = picture()
    if "--check" in sys.argv[1:]:
        if OUT.read_text(encoding="utf-8") == drawn:
            return 0
        print("docs/bifocal.svg is not what tools/plots/bifocal_picture.py draws; run the script", file=sys.stderr)
        return 1
    OUT.write_text(drawn, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
