#!/usr/bin/env python3
"""Draws a flame graph: `perf script -F comm,ip,sym | flamegraph.py TITLE > graph.svg`.

The width of a box is its share of the processor time. Frames of the async runtime are left out, and so are boxes
below MIN_SHARE. Move the mouse over a box to read its name and share.
"""
import html
import re
import sys

MIN_SHARE = 0.004
WIDTH, ROW, CHAR = 1200, 17, 6.6
RUNTIME = re.compile(
    r"^(tokio|std|core|alloc|futures_util|tower|axum|hyper_util|tracing|<core|<tokio|<alloc|<futures_util|<tower|<axum"
    r"|<hyper_util|<tracing|<std|start_thread|__GI___clone|clone3|\[unknown\]|entry_SYSCALL|do_syscall|async_trait)"
)


def stacks(lines):
    """Stacks of names, outermost first."""
    frames = []
    for line in lines:
        line = line.rstrip("\n")
        if not line:
            if frames:
                yield list(reversed(frames))
            frames = []
        elif line[0] in " \t":
            name = line.strip().split(" ", 1)[-1]
            name = re.sub(r"::\{\{closure\}\}|\{\{vtable\.shim\}\}|\+0x[0-9a-f]+$", "", name)
            name = re.sub(r"<([^<>]*) as [^<>]*>", r"\1", name)
            if not RUNTIME.match(name) and (not frames or frames[-1] != name):
                frames.append(name)
    if frames:
        yield list(reversed(frames))


def main():
    root, total = {"count": 0, "below": {}}, 0
    for stack in stacks(sys.stdin):
        total += 1
        node = root
        for name in stack:
            node = node["below"].setdefault(name, {"count": 0, "below": {}})
            node["count"] += 1
    boxes, depth_max = [], 0

    def place(node, x, depth):
        nonlocal depth_max
        for name, below in sorted(node["below"].items()):
            share = below["count"] / max(total, 1)
            if share >= MIN_SHARE:
                boxes.append((x, depth, share, name))
                depth_max = max(depth_max, depth)
                place(below, x, depth + 1)
            x += share * WIDTH

    place(root, 0, 0)
    height = (depth_max + 3) * ROW
    print(f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="monospace" font-size="11">')
    print(f'<text x="4" y="13">{html.escape(" ".join(sys.argv[1:]))} ({total} samples)</text>')
    for x, depth, share, name in boxes:
        y, width = height - (depth + 1) * ROW, share * WIDTH
        hue = 20 + hash_of(name) % 35
        short = name.rsplit("::", 2)
        label = "::".join(short[-2:])[: max(0, int(width / CHAR) - 1)]
        print(f'<g><title>{html.escape(name)}: {share:.1%}</title>'
              f'<rect x="{x:.1f}" y="{y}" width="{max(width - 0.5, 0.3):.1f}" height="{ROW - 1}" fill="hsl({hue},75%,68%)"/>'
              f'<text x="{x + 2:.1f}" y="{y + 12}">{html.escape(label)}</text></g>')
    print("</svg>")


def hash_of(name):
    return sum(ord(c) * (i + 1) for i, c in enumerate(name))


main()
